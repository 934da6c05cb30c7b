package sequence

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// A stretch is a run of rows that belong together: a sequence of a LoD, or X[i] of an X of rank 3 without LoD.
type stretches struct {
	batch
	equal int // rows of each, without LoD; -1 with one
}

func stretchesIn(b *ops.Binding, slot string) stretches {
	s := stretches{batch: batchIn(b, slot), equal: -1}
	if dims := s.value.Dims(); len(s.value.LoD()) == 0 && len(dims) == 3 {
		s.n, s.equal = int(dims[0]), int(dims[1])
	}
	return s
}

// each is the loop over all that have rows.
func (s stretches) each(do func(stretch, from, to int)) ops.Loop {
	if s.equal < 0 {
		return s.batch.each(do)
	}
	return ops.Loop{N: s.n, Apart: true, Run: func(_, first, end int) error {
		for i := first; i < end && s.equal > 0; i++ {
			do(i, i*s.equal, (i+1)*s.equal)
		}
		return nil
	}}
}

// checkStretches checks that X has sequences of rows, or is padded.
func checkStretches(s *ops.Shapes) error {
	x := s.In("X")
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if x.LoDLevel == 0 && len(x.Dims) == 3 {
		return nil
	}
	if _, err := s.CountSequences("X"); err != nil {
		return err
	}
	if x.LoDLevel != 1 || len(x.Dims) != 2 {
		return s.Errorf("X", "[rows, columns] of one LoD level, or [batch, rows, columns] without LoD")
	}
	return nil
}

func init() {
	opkit.Register(ops.Def{
		Type: "row_conv",
		Doc: "Convolves each column of a sequence with its own window, which looks ahead: Out[t, d] is the sum over w of X[t+w, d]*Filter[w, d]. Rows beyond the end are " +
			"zeros.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [rows, D] of one LoD level, or [batch, rows, D]"},
			{Name: "Filter", Doc: "[window, D]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "as X"}},
		Infer: func(s *ops.Shapes) error {
			if err := checkStretches(s); err != nil {
				return err
			}
			if err := s.SameType("X", "Filter"); err != nil {
				return err
			}
			x := s.In("X").Dims
			if f := s.In("Filter").Dims; len(f) != 2 || !opkit.Agree(f[1], x[len(x)-1]) {
				return s.Errorf("Filter", "dims [window, %d]", x[len(x)-1])
			}
			s.Like("Out", "X")
			return nil
		},
		MixesRows: opkit.RowsOnlyIn("X"),
		Cost:      rowConvCost(2),
		Bind:      opkit.BindFloats("X", bindRowConv[float32], bindRowConv[float64]),
	}, opkit.Gradient{
		Doc:    "dX[t+w, d] is the sum over w of dOut[t, d]*Filter[w, d], dFilter[w, d] the sum over t of dOut[t, d]*X[t+w, d].",
		Inputs: []string{"X", "Filter"},
		Wrt:    []string{"X", "Filter"},
		Cost:   rowConvCost(4),
		Bind:   opkit.BindFloats("X", bindRowConvGrad[float32], bindRowConvGrad[float64]),
	})

	opkit.Register(ops.Def{
		Type: "add_position_encoding",
		Doc: "Adds waves that tell places apart: with h = D/2 and the angle a = t/10000**(k/(h-1)) of place t in its sequence, Out[t, k] = alpha*X[t, k] + beta*sin(a) and " +
			"Out[t, h+k] = alpha*X[t, h+k] + beta*cos(a). For h = 1, a = t/10000.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [rows, D] of one LoD level, or [batch, rows, D]; D is even"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "as X"}},
		Attrs: []ops.Attr{
			{Name: "alpha", Doc: "factor of X, at least 0", Kind: float32(0)},
			{Name: "beta", Doc: "factor of the waves, at least 0", Kind: float32(0)}},
		Infer: func(s *ops.Shapes) error {
			if err := checkStretches(s); err != nil {
				return err
			}
			if x := s.In("X").Dims; x[len(x)-1] >= 0 && x[len(x)-1]%2 != 0 {
				return s.Errorf("X", "an even number of columns")
			}
			s.Like("Out", "X")
			return nil
		},
		Cost:    opkit.PerElement(20),
		Bind:    opkit.BindFloats("X", bindPosition[float32], bindPosition[float64]),
		InPlace: map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX = alpha*dOut.",
		Inputs:  []string{"X"},
		Wrt:     []string{"X"},
		StandIn: map[string]string{"X": "Out@GRAD"},
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("Out@GRAD", bindPositionGrad[float32], bindPositionGrad[float64]),
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
	})
}

func rowConvCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		return ops.Cost{Flops: flops * opkit.Size([]int64{opkit.Size(s.In("X").Dims), max(0, s.In("Filter").Dims[0])}), Bytes: opkit.Bytes(s)}
	}
}

func bindRowConv[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, filter, out := stretchesIn(b, "X"), b.In("Filter"), b.Out("Out")
	d := int(filter.Dims()[1])
	return b.Loops(x.each(func(_, from, to int) {
		kernel.RowConv(tensor.Data[T](out)[from*d:to*d], tensor.Data[T](x.value)[from*d:to*d], tensor.Data[T](filter), d)
	}))
}

func bindRowConvGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, filter, dout := stretchesIn(b, "X"), b.In("Filter"), b.In("Out@GRAD")
	dx, dfilter, d := b.Out("X@GRAD"), b.Out("Filter@GRAD"), int(filter.Dims()[1])
	var loops []ops.Loop
	if dx != nil {
		loops = append(loops, x.each(func(_, from, to int) {
			kernel.RowConvGrad(tensor.Data[T](dx)[from*d:to*d], tensor.Data[T](dout)[from*d:to*d], tensor.Data[T](filter), d)
		}))
	}
	if dfilter != nil {
		all := x.each(func(_, from, to int) {
			kernel.RowConvFilterGrad(tensor.Data[T](dfilter), tensor.Data[T](x.value)[from*d:to*d], tensor.Data[T](dout)[from*d:to*d], d)
		})
		loops = append(loops, ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error { // one sum, in the order of the rows
			clear(tensor.Data[T](dfilter))
			return all.Run(0, 0, all.N)
		}})
	}
	return b.Loops(loops...)
}

func bindPosition[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out, alpha, beta := stretchesIn(b, "X"), b.Out("Out"), b.Float("alpha"), b.Float("beta")
	d := int(x.value.Dims()[len(x.value.Dims())-1])
	h, scale := d/2, b.Scratch(tensor.Float64, d/2)
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		for k, to := 0, scale.Float64s(); k < h; k++ {
			if to[k] = 10000; h > 1 {
				to[k] = math.Pow(10000, float64(k)/float64(h-1))
			}
		}
		return nil
	}}, x.each(func(_, from, to int) {
		for i := from; i < to; i++ {
			source, target := row(tensor.Data[T](x.value), i, d), row(tensor.Data[T](out), i, d)
			for k, divisor := range scale.Float64s() {
				sin, cos := math.Sincos(float64(i-from) / divisor)
				target[k] = T(float64(source[k])*alpha + sin*beta)
				target[h+k] = T(float64(source[h+k])*alpha + cos*beta)
			}
		}
	}))
}

func bindPositionGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx, alpha := b.In("Out@GRAD"), b.Out("X@GRAD"), T(b.Float("alpha"))
	return opkit.Loop(b, dx.Len(), func(from, to int) {
		kernel.Scale(tensor.Data[T](dx)[from:to], tensor.Data[T](dout)[from:to], alpha, 0, true)
	})
}
