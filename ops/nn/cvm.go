package nn

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "cvm",
		Doc: "Prepares rows of an embedding that begin with how often an item was shown and clicked: Y = log(show+1), log(click+1) - log(show+1), and the other " +
			"columns of X. Without use_cvm Y has the other columns alone.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [rows, D]; columns 0 and 1 are show and click"},
			{Name: "CVM", Doc: "[rows, 2], for an X with LoD [sequences, 2]: show and click of the batch, which only the gradient reads"}},
		Outputs:   []ops.Slot{{Name: "Y", Doc: "[rows, D], without use_cvm [rows, D-2]"}},
		Attrs:     []ops.Attr{{Name: "use_cvm", Doc: "whether Y has columns for show and click", Default: true}},
		Infer:     inferCVM,
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindFloats("X", bindCVM[float32], bindCVM[float64]),
		MixesRows: func(_ *ops.Shapes, divided func(string) bool) bool { return divided("X") != divided("CVM") },
	}, opkit.Gradient{
		Doc: "dX has dY in the columns from 2 on, and CVM in columns 0 and 1, that of its sequence for a row of one. These two are no derivatives: an update with them counts " +
			"shows and clicks. The loss does not scale them, but a mean over trainers does.",
		Inputs: []string{"X", "CVM"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindFloats("X", bindCVMGrad[float32], bindCVMGrad[float64]),
	})
}

func inferCVM(s *ops.Shapes) error {
	x, counts := s.In("X"), s.In("CVM")
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "CVM"); err != nil {
		return err
	}
	if err := s.Rank("X", 2); err != nil {
		return err
	}
	dropped, least := int64(0), int64(2)
	if !s.Bool("use_cvm") {
		dropped, least = 2, 3
	}
	rows, width := x.Dims[0], x.Dims[1]
	if width != program.Unknown {
		if width < least {
			return s.Errorf("X", "dims [rows, D], D at least %d", least)
		}
		width -= dropped
	}
	if x.LoDLevel > 1 {
		return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In("X")), fault.Gotf("%d levels of LoD", x.LoDLevel), fault.Want("at most 1"))
	}
	if x.LoDLevel == 1 {
		var err error
		if rows, err = s.CountSequences("X"); err != nil {
			return err
		}
	}
	if len(counts.Dims) != 2 || !opkit.Agree(counts.Dims[0], rows) || !opkit.Agree(counts.Dims[1], 2) {
		return s.Errorf("CVM", "dims [%d, 2], a row for each row of X, or each sequence", rows)
	}
	s.Set("Y", x.DType, x.Dims[0], width)
	s.ShareLoD("Y", "X")
	return nil
}

func bindCVM[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y := b.In("X"), b.Out("Y")
	rows, width := opkit.Matrix(x.Dims(), 1)
	counted := b.Bool("use_cvm")
	return b.Loops(ops.Loop{N: rows, Reads: []string{"X"}, Run: func(_, from, to int) error {
		in, out := tensor.Data[T](x), tensor.Data[T](y)
		for i := from; i < to; i++ {
			if row := in[i*width:][:width]; counted {
				kernel.CVM(out[i*width:][:width], row)
			} else {
				copy(out[i*(width-2):][:width-2], row[2:])
			}
		}
		return nil
	}})
}

func bindCVMGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, counts, dy, dx := b.In("X"), b.In("CVM"), b.In("Y@GRAD"), b.Out("X@GRAD")
	rows, width := opkit.Matrix(x.Dims(), 1)
	left := opkit.Count(dy.Dims()[1:]) - (width - 2) // columns of dY before those that pass
	fill := func(i, count int) {
		row := tensor.Data[T](dx)[i*width:][:width]
		copy(row, tensor.Data[T](counts)[2*count:][:2])
		copy(row[2:], tensor.Data[T](dy)[i*(left+width-2)+left:])
	}
	if len(x.LoD()) > 0 {
		sequences := int(counts.Dims()[0])
		return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
			offsets := x.LoD()[0]
			if len(offsets) != sequences+1 {
				return fault.E(fault.ShapeMismatch, fault.On(b.Op()), fault.Gotf("%d sequences", len(offsets)-1), fault.Wantf("%d, one for each row of CVM", sequences))
			}
			if err := tensor.CheckLoD(x); err != nil {
				return fault.E(fault.KindOf(err), fault.On(b.Op()), fault.Var(b.Op().In("X")), fault.Cause(err))
			}
			for s := range sequences {
				for i := offsets[s]; i < offsets[s+1]; i++ {
					fill(int(i), s)
				}
			}
			return nil
		}})
	}
	return b.Loops(ops.Loop{N: rows, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			fill(i, i)
		}
		return nil
	}})
}
