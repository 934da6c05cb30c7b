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
		Type: "bilinear_tensor_product",
		Doc:  "Multiplies two vectors by matrices between them, for each row: Out[b, s] = X[b] Weight[s] Y[b] + Bias[s].",
		Inputs: []ops.Slot{{Name: "X", Doc: "float [B, M]"}, {Name: "Y", Doc: "[B, N]"}, {Name: "Weight", Doc: "[S, M, N]"},
			{Name: "Bias", Doc: "[1, S]; zeros when absent", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[B, S]"}},
		Infer:   inferBilinear,
		Cost:    bilinearCost(1),
		Bind:    opkit.BindFloats("X", bindBilinear[float32], bindBilinear[float64]),
		MixesRows: func(_ *ops.Shapes, divided func(string) bool) bool {
			return divided("Weight") || divided("Bias") || !divided("X") || !divided("Y")
		},
	}, opkit.Gradient{
		Doc: "dX[b] = sum over s of dOut[b, s]*Weight[s]*Y[b], dY[b] = sum over s of dOut[b, s]*X[b]*Weight[s], dWeight[s] = sum over b of dOut[b, s] times the outer product " +
			"of X[b] and Y[b], dBias = the sum of dOut over rows.",
		Inputs: []string{"X", "Y", "Weight", "Bias"},
		Wrt:    []string{"X", "Y", "Weight", "Bias"},
		Cost:   bilinearCost(3),
		Bind:   opkit.BindFloats("X", bindBilinearGrad[float32], bindBilinearGrad[float64]),
	})
}

func inferBilinear(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "Y", "Weight", "Bias"); err != nil {
		return err
	}
	for slot, rank := range opkit.InOrder(map[string]int{"X": 2, "Y": 2, "Weight": 3}) {
		if err := s.Rank(slot, rank); err != nil {
			return err
		}
	}
	x, y, w := s.In("X").Dims, s.In("Y").Dims, s.In("Weight").Dims
	if !opkit.Agree(x[0], y[0]) {
		return s.Errorf("Y", "%d rows as in X", x[0])
	}
	if !ops.Compatible(w, []int64{program.Unknown, x[1], y[1]}) {
		return s.Errorf("Weight", "dims [S, %d, %d]", x[1], y[1])
	}
	if s.Has("Bias") && !ops.Compatible(s.In("Bias").Dims, []int64{1, w[0]}) {
		return s.Errorf("Bias", "dims [1, %d]", w[0])
	}
	rows := x[0]
	if rows == program.Unknown {
		rows = y[0]
	}
	s.Set("Out", s.In("X").DType, rows, w[0])
	s.ShareLoD("Out", "X")
	return nil
}

// bilinearCost counts so many products of a row with all matrices.
func bilinearCost(products int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		rows := max(s.In("X").Dims[0], 1)
		return ops.Cost{Flops: 2 * products * opkit.Size([]int64{rows, opkit.Size(s.In("Weight").Dims)}), Bytes: opkit.Bytes(s)}
	}
}

// bilinearRows is the number of rows whose products are computed together.
const bilinearRows = 16

// A bilinear holds the extents of the op, and scratch memory of the parts of a loop.
type bilinear[T tensor.Float] struct {
	rows, outs, m, n int
	products, work   *tensor.Tensor
	each, workEach   int
}

func newBilinear[T tensor.Float](b *ops.Binding) *bilinear[T] {
	x, w := b.In("X").Dims(), b.In("Weight").Dims()
	p := &bilinear[T]{rows: int(x[0]), outs: int(w[0]), m: int(w[1]), n: int(w[2])}
	p.each = bilinearRows * p.outs * p.m
	p.workEach = max(kernel.GemmWorkspace(bilinearRows, p.outs*p.m, p.n), kernel.GemmWorkspace(bilinearRows, p.n, p.outs*p.m), kernel.GemmWorkspace(p.m, p.n, p.rows), kernel.GemmWorkspace(1, p.outs, p.m))
	dtype := tensor.Of[T]()
	p.products, p.work = b.Scratch(dtype, b.Parts()*p.each), b.Scratch(dtype, b.Parts()*p.workEach)
	return p
}

// times sets products to Weight[s]*Y[b] for all s and the rows [from, to), at most bilinearRows.
func (p *bilinear[T]) times(part int, weight, y []T, from, to int) (products []T) {
	products = ops.Part(tensor.Data[T](p.products), part, p.each)
	kernel.Gemm(false, true, to-from, p.outs*p.m, p.n, 1, y[from*p.n:], p.n, weight, p.n, 0, products, p.outs*p.m, ops.Part(tensor.Data[T](p.work), part, p.workEach))
	return products
}

func bindBilinear[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, weight, bias, out := b.In("X"), b.In("Y"), b.In("Weight"), b.In("Bias"), b.Out("Out")
	p := newBilinear[T](b)
	return b.Loops(ops.Loop{N: p.rows, Whole: []string{"Weight", "Bias"}, Run: func(part, from, to int) error {
		for first := from; first < to; first += bilinearRows {
			end := min(first+bilinearRows, to)
			products := p.times(part, tensor.Data[T](weight), tensor.Data[T](y), first, end)
			for i := first; i < end; i++ {
				row, sums := tensor.Data[T](x)[i*p.m:][:p.m], tensor.Data[T](out)[i*p.outs:][:p.outs]
				kernel.Gemm(false, true, 1, p.outs, p.m, 1, row, p.m, products[(i-first)*p.outs*p.m:][:p.outs*p.m], p.m, 0, sums, p.outs,
					ops.Part(tensor.Data[T](p.work), part, p.workEach))
				if bias != nil {
					kernel.Accumulate(sums, tensor.Data[T](bias))
				}
			}
		}
		return nil
	}})
}

func bindBilinearGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, weight, dout := b.In("X"), b.In("Y"), b.In("Weight"), b.In("Out@GRAD")
	dx, dy, dweight, dbias := b.Out("X@GRAD"), b.Out("Y@GRAD"), b.Out("Weight@GRAD"), b.Out("Bias@GRAD")
	p := newBilinear[T](b)
	var loops []ops.Loop
	if dx != nil || dy != nil {
		loops = append(loops, ops.Loop{N: p.rows, Reads: []string{"X", "Y", "Weight", "Out@GRAD"}, Whole: []string{"Weight"}, Writes: []string{"X@GRAD", "Y@GRAD"},
			Run: func(part, from, to int) error {
				for first := from; first < to; first += bilinearRows {
					p.rowGradients(part, dx, dy, x, y, weight, dout, first, min(first+bilinearRows, to))
				}
				return nil
			}})
	}
	if dweight != nil || dbias != nil {
		scaled := b.Scratch(tensor.Of[T](), b.Parts()*p.rows*p.m)
		reads := []string{"X", "Y", "Out@GRAD"}
		loops = append(loops, ops.Loop{N: p.outs, Apart: true, Reads: reads, Whole: reads, Writes: []string{"Weight@GRAD", "Bias@GRAD"},
			Run: func(part, from, to int) error {
				g, z := tensor.Data[T](dout), ops.Part(tensor.Data[T](scaled), part, p.rows*p.m)
				for s := from; s < to; s++ {
					total := 0.0
					for i := range p.rows {
						factor := g[i*p.outs+s]
						total += float64(factor)
						for k, v := range tensor.Data[T](x)[i*p.m:][:p.m] {
							z[i*p.m+k] = v * factor
						}
					}
					if dbias != nil {
						tensor.Data[T](dbias)[s] = T(total)
					}
					if dweight != nil {
						kernel.Gemm(true, false, p.m, p.n, p.rows, 1, z, p.m, tensor.Data[T](y), p.n, 0, tensor.Data[T](dweight)[s*p.m*p.n:][:p.m*p.n], p.n,
							ops.Part(tensor.Data[T](p.work), part, p.workEach))
					}
				}
				return nil
			}})
	}
	return b.Loops(loops...)
}

// rowGradients computes the gradients of X and Y for the rows [from, to), at most bilinearRows.
func (p *bilinear[T]) rowGradients(part int, dx, dy, x, y, weight, dout *tensor.Tensor, from, to int) {
	g, w := tensor.Data[T](dout), tensor.Data[T](weight)
	if dx != nil {
		products := p.times(part, w, tensor.Data[T](y), from, to)
		for i := from; i < to; i++ {
			row := tensor.Data[T](dx)[i*p.m:][:p.m]
			clear(row)
			for s := range p.outs {
				kernel.Axpy(row, products[((i-from)*p.outs+s)*p.m:][:p.m], g[i*p.outs+s])
			}
		}
	}
	if dy == nil {
		return
	}
	scaled := ops.Part(tensor.Data[T](p.products), part, p.each)
	for i := from; i < to; i++ {
		for s := range p.outs {
			for k, v := range tensor.Data[T](x)[i*p.m:][:p.m] {
				scaled[((i-from)*p.outs+s)*p.m+k] = v * g[i*p.outs+s]
			}
		}
	}
	kernel.Gemm(false, false, to-from, p.n, p.outs*p.m, 1, scaled, p.outs*p.m, w, p.n, 0, tensor.Data[T](dy)[from*p.n:], p.n,
		ops.Part(tensor.Data[T](p.work), part, p.workEach))
}
