package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "batch_fc",
		Doc:  "Multiplies the rows of each slot with a matrix of the slot, and adds a bias: Out[s] = Input[s]*W[s] + Bias[s].",
		Inputs: []ops.Slot{
			{Name: "Input", Doc: "float [slots, rows, M]"},
			{Name: "W", Doc: "[slots, M, N]"},
			{Name: "Bias", Doc: "[slots, N]"}},
		Outputs:   []ops.Slot{{Name: "Out", Doc: "[slots, rows, N]"}},
		Infer:     inferBatchFC,
		MixesRows: opkit.Mixes, RecordsAlong: map[string]int{"Input": 1, "Out": 1},
		Cost: batchFCCost(2),
		Bind: opkit.BindFloats("Input", bindBatchFC[float32], bindBatchFC[float64]),
	}, opkit.Gradient{
		Doc:    "dInput[s] = dOut[s]*transpose(W[s]), dW[s] = transpose(Input[s])*dOut[s], dBias[s] is the sum of the rows of dOut[s].",
		Inputs: []string{"Input", "W", "Bias"},
		Wrt:    []string{"Input", "W", "Bias"},
		Cost:   batchFCCost(4),
		Bind:   opkit.BindFloats("Input", bindBatchFCGrad[float32], bindBatchFCGrad[float64]),
	})
}

func inferBatchFC(s *ops.Shapes) error {
	if err := s.IsFloat("Input"); err != nil {
		return err
	}
	if err := s.SameType("Input", "W", "Bias"); err != nil {
		return err
	}
	for slot, rank := range opkit.InOrder(map[string]int{"Input": 3, "W": 3, "Bias": 2}) {
		if err := s.Rank(slot, rank); err != nil {
			return err
		}
	}
	x, w := s.In("Input").Dims, s.In("W").Dims
	if !opkit.Agree(x[0], w[0]) || !opkit.Agree(x[2], w[1]) {
		return s.Errorf("W", "dims [%d, %d, N]", x[0], x[2])
	}
	if !ops.Compatible(s.In("Bias").Dims, []int64{x[0], w[2]}) {
		return s.Errorf("Bias", "dims [%d, %d]", x[0], w[2])
	}
	s.Set("Out", s.In("Input").DType, x[0], x[1], w[2])
	s.ShareLoD("Out", "Input")
	return nil
}

func batchFCCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		return ops.Cost{Flops: flops * opkit.Size([]int64{s.In("Input").Dims[1], opkit.Size(s.In("W").Dims)}), Bytes: opkit.Bytes(s)}
	}
}

// slotExtents returns the slots, their rows, and the extents of their matrices.
func slotExtents(b *ops.Binding) (slots, rows, m, n int) {
	x, w := b.In("Input").Dims(), b.In("W").Dims()
	return int(x[0]), int(x[1]), int(x[2]), int(w[2])
}

func bindBatchFC[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, w, bias, out := b.In("Input"), b.In("W"), b.In("Bias"), b.Out("Out")
	slots, rows, m, n := slotExtents(b)
	each := kernel.GemmWorkspace(rows, n, m)
	work := b.Scratch(tensor.Of[T](), b.Parts()*each)
	return b.Loops(ops.Loop{N: slots, Run: func(part, from, to int) error {
		for s := from; s < to; s++ {
			y := tensor.Data[T](out)[s*rows*n:][:rows*n]
			kernel.Gemm(false, false, rows, n, m, 1, tensor.Data[T](x)[s*rows*m:], m, tensor.Data[T](w)[s*m*n:], n, 0, y, n, ops.Part(tensor.Data[T](work), part, each))
			kernel.Add(y, y, tensor.Data[T](bias)[s*n:][:n], rows, n, 1)
		}
		return nil
	}})
}

func bindBatchFCGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, w, dout := b.In("Input"), b.In("W"), b.In(program.GradName("Out"))
	dx, dw, dbias := b.Out(program.GradName("Input")), b.Out(program.GradName("W")), b.Out(program.GradName("Bias"))
	slots, rows, m, n := slotExtents(b)
	each := max(kernel.GemmWorkspace(rows, m, n), kernel.GemmWorkspace(m, n, rows))
	work := b.Scratch(tensor.Of[T](), b.Parts()*each)
	return b.Loops(ops.Loop{N: slots, Run: func(part, from, to int) error {
		space := ops.Part(tensor.Data[T](work), part, each)
		for s := from; s < to; s++ {
			g := tensor.Data[T](dout)[s*rows*n:][:rows*n]
			if dx != nil {
				kernel.Gemm(false, true, rows, m, n, 1, g, n, tensor.Data[T](w)[s*m*n:], n, 0, tensor.Data[T](dx)[s*rows*m:], m, space)
			}
			if dw != nil {
				kernel.Gemm(true, false, m, n, rows, 1, tensor.Data[T](x)[s*rows*m:], m, g, n, 0, tensor.Data[T](dw)[s*m*n:], n, space)
			}
			if dbias != nil {
				kernel.AddGrad(nil, tensor.Data[T](dbias)[s*n:][:n], nil, nil, nil, g, rows, n, 1)
			}
		}
		return nil
	}})
}
