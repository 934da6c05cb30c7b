package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	bothRows := func(_ *ops.Shapes, divided func(string) bool) bool { return !divided("X") || !divided("Y") }
	opkit.Register(ops.Def{
		Type:      "fsp",
		Doc:       "How channels of two feature maps go together (Yim et al. 2017): Out[n, i, j] is the mean of X[n, i]*Y[n, j] over all places.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "float [N, C, H, W]"}, {Name: "Y", Doc: "[N, D, H, W]"}},
		Outputs:   []ops.Slot{{Name: "Out", Doc: "[N, C, D]"}},
		Infer:     inferFSP,
		Cost:      fspCost,
		Bind:      opkit.BindFloats("X", bindFSP[float32], bindFSP[float64]),
		MixesRows: bothRows,
	}, opkit.Gradient{
		Doc:    "dX[n, i] = the sum over j of dOut[n, i, j]*Y[n, j], over the number of places; dY likewise.",
		Inputs: []string{"X", "Y"},
		Wrt:    []string{"X", "Y"},
		Cost:   fspCost,
		Bind:   opkit.BindFloats("X", bindFSPGrad[float32], bindFSPGrad[float64]),
	})

	opkit.Register(ops.Def{
		Type: "conv_shift",
		Doc: "The circular convolution of each row of X with a row of Y (Graves et al. 2014): Out[b, j] = sum over k from -n to n of X[b, (j + k) mod M]*Y[b, k + n], where a row of Y " +
			"has 2n + 1 elements.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "float [B, M]"}, {Name: "Y", Doc: "[B, N] with an odd N up to M"}},
		Outputs:   []ops.Slot{{Name: "Out", Doc: "[B, M]"}},
		Infer:     inferConvShift,
		Bind:      opkit.BindFloats("X", bindConvShift[float32], bindConvShift[float64]),
		MixesRows: bothRows,
	}, opkit.Gradient{
		Doc:    "each product gives dOut*Y to dX and dOut*X to dY.",
		Inputs: []string{"X", "Y"},
		Wrt:    []string{"X", "Y"},
		Bind:   opkit.BindFloats("X", bindConvShiftGrad[float32], bindConvShiftGrad[float64]),
	})
}

func inferFSP(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "Y"); err != nil {
		return err
	}
	if err := s.Rank("X", 4); err != nil {
		return err
	}
	x, y := s.In("X").Dims, s.In("Y").Dims
	if len(y) != 4 || !opkit.Agree(y[0], x[0]) || !ops.Compatible(x[2:], y[2:]) {
		return s.Errorf("Y", "dims [%d, channels, %d, %d]", x[0], x[2], x[3])
	}
	s.Set("Out", s.In("X").DType, x[0], x[1], y[1])
	return nil
}

func fspCost(s *ops.Shapes) ops.Cost {
	x, y := s.In("X").Dims, s.In("Y").Dims
	return ops.Cost{Flops: 2 * opkit.Size([]int64{opkit.Size(x), max(y[1], 1)}), Bytes: opkit.Bytes(s)}
}

// productOfImages is a loop over images that sets out[n] to factor times the product of the matrices of two tensors. a is [n, rows, depth], or transposed
// [n, depth, rows]; b is [n, depth, columns], or transposed.
func productOfImages[T tensor.Float](b *ops.Binding, transA, transB bool, images, rows, columns, depth int, out, x, y *tensor.Tensor, reads, writes []string, factor T) ops.Loop {
	each := kernel.GemmWorkspace(rows, columns, depth)
	work := b.Scratch(tensor.Of[T](), b.Parts()*each)
	lda, ldb := depth, columns
	if transA {
		lda = rows
	}
	if transB {
		ldb = depth
	}
	return ops.Loop{N: images, Reads: reads, Writes: writes, Run: func(part, from, to int) error {
		for i := from; i < to; i++ {
			kernel.Gemm(transA, transB, rows, columns, depth, factor, tensor.Data[T](x)[i*rows*depth:][:rows*depth], lda, tensor.Data[T](y)[i*depth*columns:][:depth*columns], ldb, 0,
				tensor.Data[T](out)[i*rows*columns:][:rows*columns], columns, ops.Part(tensor.Data[T](work), part, each))
		}
		return nil
	}}
}

func bindFSP[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y := b.In("X"), b.In("Y")
	n, c, d, places := int(x.Dims()[0]), int(x.Dims()[1]), int(y.Dims()[1]), opkit.Count(x.Dims()[2:])
	return b.Loops(productOfImages(b, false, true, n, c, d, places, b.Out("Out"), x, y, nil, nil, 1/T(max(places, 1))))
}

func bindFSPGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, dout, dx, dy := b.In("X"), b.In("Y"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Out("Y@GRAD")
	n, c, d, places := int(x.Dims()[0]), int(x.Dims()[1]), int(y.Dims()[1]), opkit.Count(x.Dims()[2:])
	factor := 1 / T(max(places, 1))
	var loops []ops.Loop
	if dx != nil && dx.Len() > 0 {
		loops = append(loops, productOfImages(b, false, false, n, c, places, d, dx, dout, y, []string{"Y", "Out@GRAD"}, []string{"X@GRAD"}, factor))
	}
	if dy != nil && dy.Len() > 0 {
		loops = append(loops, productOfImages(b, true, false, n, d, places, c, dy, dout, x, []string{"X", "Out@GRAD"}, []string{"Y@GRAD"}, factor))
	}
	return b.Loops(loops...)
}

func inferConvShift(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "Y"); err != nil {
		return err
	}
	if err := s.Rank("X", 2); err != nil {
		return err
	}
	x, y := s.In("X").Dims, s.In("Y").Dims
	if len(y) != 2 || !opkit.Agree(x[0], y[0]) || y[1] >= 0 && (y[1]%2 == 0 || x[1] >= 0 && y[1] > x[1]) {
		return s.Errorf("Y", "%d rows of an odd number of elements, up to %d", x[0], x[1])
	}
	s.Like("Out", "X")
	return nil
}

// shifts calls do for each product of row i: the places in X, Y and Out.
func shifts(i, m, n int, do func(x, y, out int)) {
	for j := range m {
		for k := range n {
			do(i*m+(j+k-n/2+m)%m, i*n+k, i*m+j)
		}
	}
}

func bindConvShift[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, out := b.In("X"), b.In("Y"), b.Out("Out")
	m, n := int(x.Dims()[1]), int(y.Dims()[1])
	add := func(i, k, j int) { tensor.Data[T](out)[j] += tensor.Data[T](x)[i] * tensor.Data[T](y)[k] }
	return b.Loops(ops.Loop{N: int(x.Dims()[0]), Run: func(_, from, to int) error {
		clear(tensor.Data[T](out)[from*m : to*m])
		for row := from; row < to; row++ {
			shifts(row, m, n, add)
		}
		return nil
	}})
}

func bindConvShiftGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, dout, dx, dy := b.In("X"), b.In("Y"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Out("Y@GRAD")
	m, n := int(x.Dims()[1]), int(y.Dims()[1])
	add := func(i, k, j int) {
		g := tensor.Data[T](dout)[j]
		if dx != nil {
			tensor.Data[T](dx)[i] += g * tensor.Data[T](y)[k]
		}
		if dy != nil {
			tensor.Data[T](dy)[k] += g * tensor.Data[T](x)[i]
		}
	}
	return b.Loops(ops.Loop{N: int(x.Dims()[0]), Run: func(_, from, to int) error {
		if dx != nil {
			clear(tensor.Data[T](dx)[from*m : to*m])
		}
		if dy != nil {
			clear(tensor.Data[T](dy)[from*n : to*n])
		}
		for row := from; row < to; row++ {
			shifts(row, m, n, add)
		}
		return nil
	}})
}
