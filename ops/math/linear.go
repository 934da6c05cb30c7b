package math

import (
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:      "kron",
		Doc:       "The Kronecker product: each element of X times the whole of Y, so that every extent of Out is the product of those of X and Y. The shorter list of dims gets ones in front.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "float"}, {Name: "Y", Doc: "of the type of X"}},
		Outputs:   out("Out", "of the type of X"),
		Infer:     inferKron,
		Cost:      opkit.PerElement(1),
		MixesRows: opkit.Mixes,
		Bind:      opkit.BindFloats("X", bindKron[float32], bindKron[float64]),
	}, opkit.Gradient{
		Doc:    "dX is the sum of dOut*Y over the elements of Y, and dY that of dOut*X over the elements of X.",
		Inputs: []string{"X", "Y"},
		Wrt:    []string{"X", "Y"},
		Cost:   opkit.PerElement(2),
		Bind:   opkit.BindFloats("X", bindKronGrad[float32], bindKronGrad[float64]),
	})
	ops.Register(ops.Def{
		Type: "addmm",
		Doc:  "A matrix and a product of matrices: Out = Beta*Input + Alpha*X*Y.",
		Inputs: []ops.Slot{{Name: "Input", Doc: "float [m, n]"}, {Name: "X", Doc: "[m, k]"},
			{Name: "Y", Doc: "[k, n]"}},
		Outputs: out("Out", "[m, n]"),
		Attrs: []ops.Attr{{Name: "Alpha", Doc: "factor of the product", Default: float32(1)},
			{Name: "Beta", Doc: "factor of Input", Default: float32(1)}},
		Infer: inferAddMM,
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			var made []*program.Op
			add := func(opType string, in map[string][]string, out []string, attrs map[string]program.Attr) {
				if len(out) == 0 || out[0] == program.Empty {
					return
				}
				op := g.GradOp(opType)
				op.Inputs, op.Outputs["Out"] = in, out
				for name, v := range attrs {
					op.SetAttr(name, v)
				}
				made = append(made, op)
			}
			alpha, beta := floatAttr(g, "Alpha"), floatAttr(g, "Beta")
			dout := g.OutGrad("Out")
			add("scale", map[string][]string{"X": dout}, g.InGrad("Input"), map[string]program.Attr{"scale": beta})
			add("matmul", map[string][]string{"X": dout, "Y": g.In("Y")}, g.InGrad("X"), map[string]program.Attr{"transpose_Y": true, "alpha": alpha})
			add("matmul", map[string][]string{"X": g.In("X"), "Y": dout}, g.InGrad("Y"), map[string]program.Attr{"transpose_X": true, "alpha": alpha})
			return made, nil
		},
		Cost: func(s *ops.Shapes) ops.Cost {
			return ops.Cost{Flops: opkit.Size([]int64{2, opkit.Size(s.In("X").Dims), opkit.Size(s.In("Y").Dims[1:])}), Bytes: opkit.Bytes(s)}
		},
		Bind:      opkit.BindFloats("X", bindAddMM[float32], bindAddMM[float64]),
		MixesRows: opkit.RowsTogether("Input", "X"),
	})
	opkit.Register(ops.Def{
		Type:      "inverse",
		Doc:       "The inverse of the matrices on the last two axes. A matrix that has none is an error.",
		Inputs:    in("Input", "float, the last two extents equal"),
		Outputs:   out("Output", "of the shape and type of Input"),
		Infer:     inferInverse,
		Cost:      inverseCost,
		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool { return len(s.In("Input").Dims) == 2 },
		Bind:      opkit.BindFloats("Input", bindInverse[float32], bindInverse[float64]),
	}, opkit.Gradient{
		Doc:     "dInput = -transpose(Output)*dOutput*transpose(Output).",
		Outputs: []string{"Output"},
		Wrt:     []string{"Input"},
		StandIn: map[string]string{"Input": "Output"},
		Bind:    opkit.BindFloats("Output", bindInverseGrad[float32], bindInverseGrad[float64]),
	})
}

// floatAttr reads a number of the forward op, 1 if it is not set.
func floatAttr(g *ops.Grad, name string) float32 {
	if v, ok := g.GradOp("").Float(name); ok {
		return float32(v)
	}
	return 1
}

// kronDims returns the dims of X and Y, of equal rank.
func kronDims(x, y []int64) (a, b []int64) {
	ones := func(dims []int64) []int64 {
		return slices.Concat(slices.Repeat([]int64{1}, max(len(x), len(y))-len(dims)), dims)
	}
	return ones(x), ones(y)
}

func inferKron(s *ops.Shapes) error {
	if err := opkit.FloatSoFar(s, "X"); err != nil {
		return err
	}
	if err := s.SameType("X", "Y"); err != nil {
		return err
	}
	x, y := kronDims(s.In("X").Dims, s.In("Y").Dims)
	dims := make([]int64, len(x))
	for axis := range dims {
		dims[axis] = ops.Product([]int64{x[axis], y[axis]})
	}
	if _, ok := tensor.Count(dims); !ok && !slices.Contains(dims, program.Unknown) {
		return s.Errorf("Y", "dims whose products with those of X %v fit into memory", x)
	}
	s.Set("Out", s.In("X").DType, dims...)
	return nil
}

func bindKron[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, to := b.In("X"), b.In("Y"), b.Out("Out")
	ofX, ofY := kernel.KronPlaces(kronDims(x.Dims(), y.Dims()))
	return b.Loops(ops.Loop{N: len(ofX), Least: max(1, 4096/max(1, len(ofY))), Apart: true, Run: func(_, from, till int) error {
		values, result := tensor.Data[T](y), tensor.Data[T](to)
		for i := from; i < till; i++ {
			v := tensor.Data[T](x)[i]
			for j, at := range ofY {
				result[ofX[i]+at] = v * values[j]
			}
		}
		return nil
	}})
}

func bindKronGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, dout := b.In("X"), b.In("Y"), b.In("Out@GRAD")
	ofX, ofY := kernel.KronPlaces(kronDims(x.Dims(), y.Dims()))
	var loops []ops.Loop
	add := func(slot string, own, others []int, other *tensor.Tensor) {
		if to := b.Out(slot); to != nil {
			loops = append(loops, ops.Loop{N: len(own), Apart: true, Writes: []string{slot}, Run: func(_, from, till int) error {
				for i := from; i < till; i++ {
					sum := 0.0
					for j, at := range others {
						sum += float64(tensor.Data[T](dout)[own[i]+at]) * float64(tensor.Data[T](other)[j])
					}
					tensor.Data[T](to)[i] = T(sum)
				}
				return nil
			}})
		}
	}
	add("X@GRAD", ofX, ofY, y)
	add("Y@GRAD", ofY, ofX, x)
	return b.Loops(loops...)
}

func inferAddMM(s *ops.Shapes) error {
	for _, slot := range []string{"Input", "X", "Y"} {
		if err := s.Rank(slot, 2); err != nil {
			return err
		}
	}
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("Input", "X", "Y"); err != nil {
		return err
	}
	input, x, y := s.In("Input").Dims, s.In("X").Dims, s.In("Y").Dims
	if !opkit.Agree(x[1], y[0]) {
		return s.Errorf("Y", "%d rows, as X %v has columns", x[1], x)
	}
	dims := []int64{x[0], y[1]}
	if !ops.Compatible(input, dims) {
		if len(input) == 2 && (input[0] == 1 || input[1] == 1) {
			return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In("Input")), fault.Gotf("Input %v", input), fault.Wantf("dims %v", dims),
				fault.Hint("expand it, or add it to the product"))
		}
		return s.Errorf("Input", "dims %v", dims)
	}
	s.Set("Out", s.In("X").DType, dims...)
	s.ShareLoD("Out", "X")
	return nil
}

func bindAddMM[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	input, x, y, to := b.In("Input"), b.In("X"), b.In("Y"), b.Out("Out")
	alpha, beta := T(b.Float("Alpha")), T(b.Float("Beta"))
	m, k, n := int(x.Dims()[0]), int(x.Dims()[1]), int(y.Dims()[1])
	size := kernel.GemmWorkspace(m, n, k)
	work := b.Scratch(tensor.Of[T](), b.Parts()*size)
	return b.Loops(ops.Loop{N: m, Least: 16, Whole: []string{"Y"}, Run: func(part, from, till int) error {
		rows := tensor.Data[T](to)[from*n : till*n]
		kernel.Gemm(false, false, till-from, n, k, alpha, tensor.Data[T](x)[from*k:till*k], k, tensor.Data[T](y), n, 0, rows, n, ops.Part(tensor.Data[T](work), part, size))
		kernel.Axpy(rows, tensor.Data[T](input)[from*n:till*n], beta)
		return nil
	}})
}

func inferInverse(s *ops.Shapes) error {
	if err := s.IsFloat("Input"); err != nil {
		return err
	}
	dims := s.In("Input").Dims
	if rank := len(dims); rank < 2 || !opkit.Agree(dims[rank-1], dims[rank-2]) {
		return s.Errorf("Input", "square matrices on the last two axes")
	}
	s.Like("Output", "Input")
	return nil
}

func inverseCost(s *ops.Shapes) ops.Cost {
	dims := s.In("Input").Dims
	return ops.Cost{Flops: opkit.Size([]int64{2, max(1, dims[len(dims)-1]), opkit.Size(dims)}), Bytes: opkit.Bytes(s)}
}

// matrices returns how many square matrices a tensor has, and their extent.
func matrices(t *tensor.Tensor) (count, n int) {
	n = int(t.Dims()[len(t.Dims())-1])
	return t.Len() / max(1, n*n), n
}

func bindInverse[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, x, to := b.Op(), b.In("Input"), b.Out("Output")
	count, n := matrices(x)
	work := b.Scratch(tensor.Float64, b.Parts()*2*n*n)
	return b.Loops(ops.Loop{N: count, Run: func(part, from, till int) error {
		memory := ops.Part(work.Float64s(), part, 2*n*n)
		for i := from; i < till; i++ {
			if !kernel.Invert(tensor.Data[T](to)[i*n*n:][:n*n], tensor.Data[T](x)[i*n*n:][:n*n], memory[:n*n], memory[n*n:], n) {
				return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("Input")), fault.Gotf("matrix %d, which has no inverse", i), fault.Want("matrices of full rank"))
			}
		}
		return nil
	}})
}

func bindInverseGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	inverse, dout, dx := b.In("Output"), b.In("Output@GRAD"), b.Out("Input@GRAD")
	count, n := matrices(inverse)
	work := b.Scratch(tensor.Float64, b.Parts()*n*n)
	return b.Loops(ops.Loop{N: count, Run: func(part, from, till int) error {
		for i := from; i < till; i++ {
			kernel.InvertGrad(tensor.Data[T](dx)[i*n*n:][:n*n], tensor.Data[T](inverse)[i*n*n:][:n*n], tensor.Data[T](dout)[i*n*n:][:n*n], ops.Part(work.Float64s(), part, n*n), n)
		}
		return nil
	}})
}

func init() {
	opkit.Register(ops.Def{
		Type:      "atan2",
		Doc:       "The angle of points, from -pi to pi: Out = atan(X1/X2) in the quadrant of (X2, X1), for each element.",
		Inputs:    []ops.Slot{{Name: "X1", Doc: "float"}, {Name: "X2", Doc: "of the shape and type of X1"}},
		Outputs:   out("Out", "likewise"),
		RowSliced: true,
		MixesRows: opkit.MixesUnlike,
		Infer: func(s *ops.Shapes) error {
			if err := opkit.FloatSoFar(s, "X1"); err != nil {
				return err
			}
			s.Like("Out", "X1")
			return opkit.SameShape(s, "X1", "X2")
		},
		Cost: opkit.PerElement(20),
		Bind: opkit.BindFloats("X1", bindAtan2[float32], bindAtan2[float64]),
	}, opkit.Gradient{
		Doc:    "dX1 = dOut*X2/(X1*X1 + X2*X2), dX2 = -dOut*X1/(X1*X1 + X2*X2).",
		Inputs: []string{"X1", "X2"},
		Wrt:    []string{"X1", "X2"},
		Cost:   opkit.PerElement(8),
		Bind:   opkit.BindFloats("X1", bindAtan2Grad[float32], bindAtan2Grad[float64]),
	})
}

func bindAtan2[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	y, x, to := b.In("X1"), b.In("X2"), b.Out("Out")
	return opkit.Loop(b, to.Len(), func(from, till int) {
		for i := from; i < till; i++ {
			tensor.Data[T](to)[i] = T(math.Atan2(float64(tensor.Data[T](y)[i]), float64(tensor.Data[T](x)[i])))
		}
	})
}

func bindAtan2Grad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	y, x, dout, dy, dx := b.In("X1"), b.In("X2"), b.In("Out@GRAD"), b.Out("X1@GRAD"), b.Out("X2@GRAD")
	return opkit.Loop(b, dout.Len(), func(from, till int) {
		for i := from; i < till; i++ {
			u, v, d := float64(tensor.Data[T](y)[i]), float64(tensor.Data[T](x)[i]), float64(tensor.Data[T](dout)[i])
			share := d / (u*u + v*v)
			if dy != nil {
				tensor.Data[T](dy)[i] = T(share * v)
			}
			if dx != nil {
				tensor.Data[T](dx)[i] = T(-share * u)
			}
		}
	})
}

// mostBins bounds the memory of a histogram.
const mostBins = 1 << 24

func init() {
	ops.Register(ops.Def{
		Type: "histogram",
		Doc: "Counts elements in bins of equal width from min to max; with both 0, from the smallest element to the largest. Elements beyond are left out, and the last bin has its end. No " +
			"gradient flows through it.",
		Inputs:  in("X", "numbers"),
		Outputs: out("Out", "int64 [bins]"),
		Attrs: []ops.Attr{{Name: "bins", Doc: "number of bins, from 1", Default: int64(100)}, {Name: "min", Doc: "lower end", Default: int32(0)},
			{Name: "max", Doc: "upper end, at least min", Default: int32(0)}},
		Infer: func(s *ops.Shapes) error {
			if bins := s.Int("bins"); bins < 1 || bins > mostBins {
				return opkit.BadAttr(s, "bins", "1 to %d", mostBins)
			}
			if s.Int("max") < s.Int("min") {
				return opkit.BadAttr(s, "max", "at least min")
			}
			s.Set("Out", tensor.Int64, s.Int("bins"))
			return opkit.CheckType(s, "X", s.In("X").DType != tensor.Bool, "numbers")
		},
		Cost:      opkit.PerElement(2),
		MixesRows: opkit.Mixes,
		Bind:      opkit.BindNumbers("X", bindHistogram[float32], bindHistogram[float64], bindHistogram[int32], bindHistogram[int64]),
	})
}

func bindHistogram[T tensor.Float | int32 | int64](b *ops.Binding) (ops.Kernel, error) {
	op, x, to, bins := b.Op(), b.In("X"), b.Out("Out"), int(b.Int("bins"))
	low, high := float64(b.Int("min")), float64(b.Int("max"))
	return b.Loops(ops.Loop{N: 1, Apart: true, Whole: []string{"X"}, Run: func(int, int, int) error {
		counts, from, till := to.Int64s(), low, high
		clear(counts)
		if from == 0 && till == 0 && x.Len() > 0 {
			from, till = math.Inf(1), math.Inf(-1)
			for _, v := range tensor.Data[T](x) {
				from, till = min(from, float64(v)), max(till, float64(v))
			}
		}
		if math.IsNaN(till-from) || math.IsInf(till-from, 0) {
			return fault.E(fault.NotFinite, fault.On(op), fault.Var(op.In("X")), fault.Gotf("elements from %v to %v", from, till), fault.Want("finite ones, or min and max"))
		}
		if from == till {
			from, till = from-1, till+1
		}
		for _, v := range tensor.Data[T](x) {
			if u := float64(v); u >= from && u <= till {
				counts[min(int((u-from)/(till-from)*float64(bins)), bins-1)]++
			}
		}
		return nil
	}})
}
