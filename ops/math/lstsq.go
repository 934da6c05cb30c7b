package math

import (
	"errors"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	drivers := []string{"gels", "gelsy", "gelsd", "gelss"}
	ops.Register(ops.Def{
		Type: "lstsq",
		Doc: "Solves systems as well as it can: Solution has the least sum of squares of X*Solution - Y, and of several the one with the least sum of its own squares. A singular value of at most rcond times " +
			"the largest counts as 0; with the driver gels none does but 0 itself. No gradient flows through it.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float [..., m, n]"}, {Name: "Y", Doc: "of the type of X [..., m, k]: a column for each right side"}},
		Outputs: []ops.Slot{{Name: "Solution", Doc: "[..., n, k]"},
			{Name: "Residuals", Doc: "[..., k], the least sums of squares, where m is above n and the driver is not gelsy; else [..., 0]"},
			{Name: "Rank", Doc: "int32, dims of X without the last two, [1] if none is left: how many singular values count; empty with gels"},
			{Name: "SingularValues", Doc: "[..., min(m, n)] in descending order; empty with gels and gelsy"}},
		Attrs: []ops.Attr{{Name: "rcond", Doc: "which part of the largest singular value counts as 0", Default: float32(0)},
			{Name: "driver", Doc: "gels, gelsy, gelsd or gelss", Default: "gels", Check: func(op *program.Op) error {
				if driver, _ := op.Str("driver"); !slices.Contains(drivers, driver) {
					return errors.New("gels, gelsy, gelsd or gelss")
				}
				return nil
			}}},
		Infer: inferLeast,
		Cost:  factorCost(64),
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return len(s.In("X").Dims) == 2 || opkit.MixesUnlike(s, divided)
		},
		Bind: opkit.BindFloats("X", bindLeast[float32], bindLeast[float64]),
	})
}

func inferLeast(s *ops.Shapes) error {
	before, m, n, k, err := factorOf(s)
	if err != nil {
		return err
	}
	if err := s.SameType("X", "Y"); err != nil {
		return err
	}
	y, rank := s.In("Y").Dims, len(before)
	if len(y) != rank+2 || !ops.Compatible(y[:rank+1], append(slices.Clone(before), m)) {
		return s.Errorf("Y", "dims %v and a number of right sides", append(slices.Clone(before), m))
	}
	driver, dtype := s.Str("driver"), s.In("X").DType
	set := func(slot string, dtype tensor.DType, has bool, dims ...int64) {
		if has {
			s.Set(slot, dtype, dims...)
		} else {
			s.Set(slot, dtype, 0)
		}
	}
	s.Set("Solution", dtype, slices.Concat(before, []int64{n, y[rank+1]})...)
	sides := int64(0)
	switch {
	case driver == "gelsy":
	case m < 0 || n < 0:
		sides = program.Unknown
	case m > n:
		sides = y[rank+1]
	}
	s.Set("Residuals", dtype, append(slices.Clone(before), sides)...)
	set("SingularValues", dtype, driver == "gelsd" || driver == "gelss", append(slices.Clone(before), k)...)
	if rank == 0 {
		before = []int64{1}
	}
	set("Rank", tensor.Int32, driver != "gels", before...)
	return nil
}

func bindLeast[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, to := b.In("X"), b.In("Y"), b.Out("Solution")
	residuals, ranks, singulars := unlessEmpty(b.Out("Residuals")), unlessEmpty(b.Out("Rank")), unlessEmpty(b.Out("SingularValues"))
	count, m, n := extents(x)
	_, _, columns := extents(y)
	rcond := b.Float("rcond")
	if b.Str("driver") == "gels" {
		rcond = 0
	}
	if to == nil {
		to = b.Scratch(tensor.Of[T](), count*n*columns)
	}
	each := kernel.SVDWorkspace(m, n, false)
	work, room := b.Scratch(tensor.Float64, b.Parts()*each), b.Scratch(tensor.Float64, b.Parts()*n)
	return b.Loops(ops.Loop{N: count, Apart: true, Run: func(part, from, till int) error {
		for i := from; i < till; i++ {
			own, sides, solution := nth[T](x, i, m*n), nth[T](y, i, m*columns), nth[T](to, i, n*columns)
			left, values, right := kernel.SVD(own, m, n, false, ops.Part(work.Float64s(), part, each))
			rank := kernel.LeastSquares(solution, sides, left, values, right, ops.Part(room.Float64s(), part, n), rcond, m, n, columns)
			if residuals != nil {
				kernel.SquaredErrors(nth[T](residuals, i, columns), own, solution, sides, m, n, columns)
			}
			if ranks != nil {
				ranks.Int32s()[i] = int32(rank)
			}
			if singulars != nil {
				store(nth[T](singulars, i, len(values)), values)
			}
		}
		return nil
	}})
}
