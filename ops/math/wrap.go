package math

import (
	"errors"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: program.WrapOp,
		Doc: "Gives an integer the value that the lowest bits of it have as an integer of bits bits, as integers wrap around: with 8 bits, 200 becomes -56, or stays 200 if unsigned. " +
			"Elements that are no int32 stay as they are. Reading a program of Fluid adds the op after what computes in 8 or 16 bits.",
		Inputs:  in("X", "any type"),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs: []ops.Attr{{Name: "bits", Doc: "8 or 16", Kind: int32(0), Check: func(op *program.Op) error {
			if n, ok := op.Int("bits"); ok && n != 8 && n != 16 {
				return errors.New("8 or 16")
			}
			return nil
		}},
			{Name: "unsigned", Doc: "whether Out is at least 0", Default: false}},
		Infer:     func(s *ops.Shapes) error { s.Like("Out", "X"); return nil },
		Cost:      opkit.PerElement(2),
		Bind:      bindWrap,
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	})
}

func bindWrap(b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	if x.DType() != tensor.Int32 || to == nil {
		return bindCopy(b)
	}
	lost, unsigned := 32-b.Int("bits"), b.Bool("unsigned")
	return opkit.Loop(b, to.Len(), func(from, till int) {
		out := to.Int32s()[from:till]
		for i, v := range x.Int32s()[from:till] {
			if unsigned {
				out[i] = int32(uint32(v) << lost >> lost)
			} else {
				out[i] = v << lost >> lost
			}
		}
	})
}
