package reader

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

func init() {
	ops.Register(ops.Def{
		Type:    readOp,
		Class:   ops.Read,
		Doc:     "Takes the next batch of a reader. The run ends when there is none.",
		Inputs:  []ops.Slot{{Name: "Reader", Doc: "reader of batches"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "one tensor for each field of the reader", Duplicable: true}},
		Infer:   inferRead,
	})
}

func inferRead(s *ops.Shapes) error {
	fields, err := readerIn(s, "Reader")
	if err != nil {
		return err
	}
	if n := len(s.Outs("Out")); n != len(fields) {
		return fault.E(fault.InvalidProgram, fault.Var(s.Op().In("Reader")), fault.Gotf("%d variables in Out", n),
			fault.Wantf("%d, one for each field of the reader", len(fields)))
	}
	for i, f := range fields {
		s.SetAt("Out", i, ops.Meta{Kind: program.LoDTensor, DType: f.DType, Dims: f.Dims, LoDLevel: f.LoDLevel})
	}
	return nil
}
