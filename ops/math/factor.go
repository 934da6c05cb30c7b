package math

import (
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file factor the matrices on the last two axes, which need not be square.

func init() {
	opkit.Register(ops.Def{
		Type: "qr",
		Doc: "The QR factors of matrices: X = Q*R with orthogonal columns of length 1 in Q, and an R that is 0 below the diagonal. The signs are those of LAPACK. Q is empty with the " +
			"mode r.",
		Inputs:  in("X", "float [..., m, n]"),
		Outputs: []ops.Slot{{Name: "Q", Doc: "[..., m, k]; k is min(m, n), or m with the mode complete"}, {Name: "R", Doc: "[..., k, n]"}},
		Attrs: []ops.Attr{{Name: "mode", Doc: "reduced, complete or r", Default: "reduced", Check: func(op *program.Op) error {
			if mode, _ := op.Str("mode"); !slices.Contains([]string{"reduced", "complete", "r"}, mode) {
				return errors.New("reduced, complete or r")
			}
			return nil
		}}},
		Infer:     inferQR,
		Cost:      factorCost(4),
		MixesRows: mixesMatrices("X"),
		Bind:      opkit.BindFloats("X", bindQR[float32], bindQR[float64]),
	}, opkit.Gradient{
		Doc: "dX = (dQ + Q*L)*inverse(transpose(R)) with L the lower triangle of R*transpose(dR) - transpose(dQ)*Q and its mirror image; columns behind a square have Q*dR. It needs " +
			"an R that has an inverse, and no complete Q of more rows than columns.",
		Inputs: []string{"X"}, Outputs: []string{"Q", "R"}, Wrt: []string{"X"}, Cost: factorCost(8), Bind: opkit.BindFloats("X", bindQRGrad[float32], bindQRGrad[float64]),
	})
	opkit.Register(ops.Def{
		Type: "svd",
		Doc: "The singular values of matrices: X = U*diag(S)*VH, with S in descending order, and with orthogonal vectors of length 1 in the columns of U and the rows of VH. The largest " +
			"element of a column of U is positive, where Fluid leaves the sign open.",
		Inputs: in("X", "float [..., m, n]"),
		Outputs: []ops.Slot{{Name: "U", Doc: "[..., m, k]; k is min(m, n), or m with full_matrices"}, {Name: "S", Doc: "[..., min(m, n)]"},
			{Name: "VH", Doc: "[..., k, n]; k is min(m, n), or n with full_matrices"}},
		Attrs:     []ops.Attr{{Name: "full_matrices", Doc: "whether U and VH are square", Default: false}},
		Infer:     inferSVD,
		Cost:      factorCost(64),
		MixesRows: mixesMatrices("X"),
		Bind:      opkit.BindFloats("X", bindSVD[float32], bindSVD[float64]),
	}, opkit.Gradient{
		Doc:    "dX of Townsend (2016), of the first min(m, n) vectors. What a difference of equal values, or a value of 0, would divide counts as 0.",
		Inputs: []string{"X"}, Outputs: []string{"U", "S", "VH"}, Wrt: []string{"X"}, Cost: factorCost(16), Bind: opkit.BindFloats("X", bindSVDGrad[float32], bindSVDGrad[float64]),
	})
	ops.Register(ops.Def{
		Type: "matrix_rank",
		Doc: "The ranks of matrices: how many singular values are above the tolerance. That is the largest value times the larger extent times the precision of the type, or what " +
			"tol or TolTensor gives.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [..., m, n]"}, {Name: "TolTensor", Doc: "of the type of X: one number, or one for each matrix, in place of tol", Dispensable: true}},
		Outputs: out("Out", "int64, dims of X without the last two; [1] if none is left"),
		Attrs: []ops.Attr{{Name: "tol", Doc: "the tolerance", Default: float32(0)}, {Name: "use_default_tol", Doc: "whether tol does not count", Default: true},
			{Name: "hermitian", Doc: "that the matrices are symmetric; it changes nothing here", Default: false}},
		Infer: inferRank,
		Cost:  factorCost(32),
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return len(s.In("X").Dims) == 2 || divided("TolTensor") && ops.Product(s.In("TolTensor").Dims) != 1
		},
		Bind: opkit.BindFloats("X", bindRank[float32], bindRank[float64]),
	})
}

// factorOf returns the extents of the matrices of X, and the axes before them.
func factorOf(s *ops.Shapes) (before []int64, m, n, k int64, err error) {
	if err := s.IsFloat("X"); err != nil {
		return nil, 0, 0, 0, err
	}
	dims := s.In("X").Dims
	if len(dims) < 2 {
		return nil, 0, 0, 0, s.Errorf("X", "rank 2 or more")
	}
	before, m, n = dims[:len(dims)-2], dims[len(dims)-2], dims[len(dims)-1]
	if k = min(m, n); m < 0 || n < 0 {
		k = program.Unknown
	}
	return before, m, n, k, nil
}

func factorCost(each int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		dims := s.In("X").Dims
		m, n := max(1, dims[len(dims)-2]), max(1, dims[len(dims)-1])
		return ops.Cost{Flops: opkit.Size([]int64{each, opkit.Size(dims[:len(dims)-2]), m, n, min(m, n)}), Bytes: opkit.Bytes(s)}
	}
}

func inferQR(s *ops.Shapes) error {
	before, m, n, k, err := factorOf(s)
	if err != nil {
		return err
	}
	mode, dtype := s.Str("mode"), s.In("X").DType
	if mode == "complete" {
		k = m
	}
	if s.Set("R", dtype, slices.Concat(before, []int64{k, n})...); mode == "r" {
		s.Set("Q", dtype, 0)
	} else {
		s.Set("Q", dtype, slices.Concat(before, []int64{m, k})...)
	}
	return nil
}

func inferSVD(s *ops.Shapes) error {
	before, m, n, k, err := factorOf(s)
	if err != nil {
		return err
	}
	ofU, ofV, dtype := k, k, s.In("X").DType
	if s.Bool("full_matrices") {
		ofU, ofV = m, n
	}
	s.Set("U", dtype, slices.Concat(before, []int64{m, ofU})...)
	s.Set("S", dtype, slices.Concat(before, []int64{k})...)
	s.Set("VH", dtype, slices.Concat(before, []int64{ofV, n})...)
	return nil
}

func inferRank(s *ops.Shapes) error {
	before, _, _, _, err := factorOf(s)
	if err != nil {
		return err
	}
	if s.Has("TolTensor") {
		if err := s.SameType("X", "TolTensor"); err != nil {
			return err
		}
		if of := s.In("TolTensor").Dims; !opkit.Agree(ops.Product(of), 1) && !ops.Compatible(of, before) {
			return s.Errorf("TolTensor", "one number, or dims %v", before)
		}
	}
	if len(before) == 0 {
		before = []int64{1}
	}
	s.Set("Out", tensor.Int64, before...)
	return nil
}

// extents returns how many matrices a tensor has, and their extents.
func extents(t *tensor.Tensor) (count, m, n int) {
	dims := t.Dims()
	rank := len(dims)
	return opkit.Count(dims[:rank-2]), int(dims[rank-2]), int(dims[rank-1])
}

// nth returns element i of those that a tensor consists of, each of size numbers; nil of a nil tensor.
func nth[T tensor.Float](t *tensor.Tensor, i, size int) []T {
	if t == nil {
		return nil
	}
	return tensor.Data[T](t)[i*size:][:size]
}

func bindQR[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, ofQ, ofR := b.In("X"), b.Out("Q"), b.Out("R")
	count, m, n := extents(x)
	rows, columns := min(m, n), 0
	switch mode := b.Str("mode"); {
	case mode == "complete":
		rows, columns = m, m
	case mode == "reduced":
		columns = rows
	}
	if ofQ == nil {
		columns = 0
	}
	each := kernel.QRWorkspace(m, n, columns)
	work := b.Scratch(tensor.Float64, b.Parts()*each)
	return b.Loops(ops.Loop{N: count, Apart: b.Str("mode") == "r", Run: func(at, from, till int) error {
		for i := from; i < till; i++ {
			q, r := kernel.QR(nth[T](x, i, m*n), m, n, columns, ops.Part(work.Float64s(), at, each))
			for k, v := range q {
				nth[T](ofQ, i, m*columns)[k] = T(v)
			}
			to := nth[T](ofR, i, rows*n)
			for k := range to {
				if to[k] = 0; k%n >= k/n {
					to[k] = T(r[k])
				}
			}
		}
		return nil
	}})
}

func bindQRGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, q, r, dq, dr, dx := b.In("X"), b.In("Q"), b.In("R"), b.In(program.GradName("Q")), b.In(program.GradName("R")), b.Out(program.GradName("X"))
	count, m, n := extents(x)
	k := min(m, n)
	if mode := b.Str("mode"); mode == "r" || mode == "complete" && m > n {
		return nil, fault.E(fault.Unsupported, fault.On(b.Op()), fault.Gotf("the mode %s for X %v", mode, x.Dims()), fault.Want("the mode reduced, where a gradient flows"))
	}
	each := kernel.QRWorkspace(m, n, k)
	work := b.Scratch(tensor.Float64, b.Parts()*each)
	return b.Loops(ops.Loop{N: count, Run: func(at, from, till int) error {
		for i := from; i < till; i++ {
			if !kernel.QRGrad(nth[T](dx, i, m*n), nth[T](q, i, m*k), nth[T](r, i, k*n), nth[T](dq, i, m*k), nth[T](dr, i, k*n), m, n, ops.Part(work.Float64s(), at, each)) {
				return singular(b, "X", i, "has dependent columns", "matrices of full rank")
			}
		}
		return nil
	}})
}

func bindSVD[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, u, s, vh, full := b.In("X"), b.Out("U"), b.Out("S"), b.Out("VH"), b.Bool("full_matrices")
	count, m, n := extents(x)
	each := kernel.SVDWorkspace(m, n, full)
	work := b.Scratch(tensor.Float64, b.Parts()*each)
	return b.Loops(ops.Loop{N: count, Run: func(at, from, till int) error {
		for i := from; i < till; i++ {
			left, values, right := kernel.SVD(nth[T](x, i, m*n), m, n, full, ops.Part(work.Float64s(), at, each))
			if u != nil {
				columns := len(left) / max(1, m)
				to := nth[T](u, i, len(left))
				for k, v := range left {
					to[k%m*columns+k/m] = T(v)
				}
			}
			if s != nil {
				store(nth[T](s, i, len(values)), values)
			}
			if vh != nil {
				store(nth[T](vh, i, len(right)), right)
			}
		}
		return nil
	}})
}

func store[T tensor.Float](to []T, from []float64) {
	for i, v := range from {
		to[i] = T(v)
	}
}

func bindSVDGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	u, s, vh := b.In("U"), b.In("S"), b.In("VH")
	du, ds, dvh, dx := b.In(program.GradName("U")), b.In(program.GradName("S")), b.In(program.GradName("VH")), b.Out(program.GradName("X"))
	count, m, n := extents(dx)
	_, _, columns := extents(u)
	_, rows, _ := extents(vh)
	k := min(m, n)
	each := 2*k*k + max(m, n)
	work := b.Scratch(tensor.Float64, b.Parts()*each)
	return b.Loops(ops.Loop{N: count, Run: func(at, from, till int) error {
		for i := from; i < till; i++ {
			kernel.SVDGrad(nth[T](dx, i, m*n), nth[T](u, i, m*columns), nth[T](s, i, k), nth[T](vh, i, rows*n), nth[T](du, i, m*columns), nth[T](ds, i, k),
				nth[T](dvh, i, rows*n), m, n, columns, ops.Part(work.Float64s(), at, each))
		}
		return nil
	}})
}

func bindRank[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, given, to := b.In("X"), b.In("TolTensor"), b.Out("Out")
	count, m, n := extents(x)
	epsilon := 0x1p-52
	if x.DType() == tensor.Float32 {
		epsilon = 0x1p-23
	}
	each := kernel.SVDWorkspace(m, n, false)
	work := b.Scratch(tensor.Float64, b.Parts()*each)
	return b.Loops(ops.Loop{N: count, Whole: []string{"TolTensor"}, Run: func(at, from, till int) error {
		for i := from; i < till; i++ {
			_, values, _ := kernel.SVD(nth[T](x, i, m*n), m, n, false, ops.Part(work.Float64s(), at, each))
			tolerance := b.Float("tol")
			switch {
			case given != nil:
				tolerance = float64(tensor.Data[T](given)[i%given.Len()])
			case b.Bool("use_default_tol") && len(values) > 0:
				tolerance = values[0] * epsilon * float64(max(m, n))
			}
			rank := int64(0)
			for _, v := range values {
				if v > tolerance {
					rank++
				}
			}
			to.Int64s()[i] = rank
		}
		return nil
	}})
}
