package math

import (
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
		Type: "solve",
		Doc: "Solves systems of linear equations X*Out = Y. Axes before the last two number the systems. One of X and Y may lack them, and is then the same for all. A Y of one axis, or with the dims " +
			"of X without the last one, has one right side for each matrix. A matrix that has no inverse is an error.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "float, the last two extents equal"}, {Name: "Y", Doc: "of the type of X: [..., n, k], or [..., n]"}},
		Outputs:   out("Out", "of the type of X: the solutions, a column for each of Y"),
		Infer:     inferSolve,
		Cost:      solveCost,
		MixesRows: mixesSystems,
		Bind:      opkit.BindFloats("X", bindSolve[float32], bindSolve[float64]),
	}, opkit.Gradient{
		Doc:     "transpose(X)*dY = dOut, and dX = -dY*transpose(Out). What is the same for all systems gets the sum.",
		Inputs:  []string{"X", "Y"},
		Outputs: []string{"Out"},
		Wrt:     []string{"X", "Y"},
		Cost:    solveCost,
		Bind:    opkit.BindFloats("X", bindSolveGrad[float32], bindSolveGrad[float64]),
	})
}

// systems are the equations of a solve op.
type systems struct {
	count, n, k      int
	sharesX, sharesY bool // one for all
}

// solves tells the axes of Y. columns is program.Unknown for an open extent and 1 for a Y without columns; ofX and ofY number the systems.
func solves(x, y []int64) (ofX, ofY []int64, columns int64, vector bool) {
	ofX = x[:len(x)-2]
	vector = len(y) == 1 || ops.Compatible(y, x[:len(x)-1])
	if vector {
		return ofX, y[:len(y)-1], 1, true
	}
	return ofX, y[:len(y)-2], y[len(y)-1], false
}

func inferSolve(s *ops.Shapes) error {
	if err := isSquare(s, "X"); err != nil {
		return err
	}
	if err := s.SameType("X", "Y"); err != nil {
		return err
	}
	x, y := s.In("X").Dims, s.In("Y").Dims
	if len(y) == 0 {
		return s.Errorf("Y", "rank 1 or more")
	}
	n := x[len(x)-1]
	ofX, ofY, _, vector := solves(x, y)
	rows := y[len(ofY)]
	if !opkit.Agree(rows, n) {
		return s.Errorf("Y", "%d rows, as X %v has", n, x)
	}
	if len(ofX) > 0 && len(ofY) > 0 && !ops.Compatible(ofX, ofY) {
		return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In("Y")), fault.Gotf("Y %v", y), fault.Wantf("as many systems as X %v has, or none of its axes", x),
			fault.Hint("expand it"))
	}
	numbers := ofX
	if len(ofX) == 0 {
		numbers = ofY
	}
	dims := slices.Concat(numbers, y[len(ofY):])
	if vector {
		dims = append(slices.Clone(numbers), rows)
	}
	s.Set("Out", s.In("X").DType, dims...)
	return nil
}

func solveCost(s *ops.Shapes) ops.Cost {
	x, y := s.In("X").Dims, s.In("Y").Dims
	n := max(1, x[len(x)-1])
	ofX, ofY, columns, _ := solves(x, y)
	count := max(opkit.Size(ofX), opkit.Size(ofY))
	return ops.Cost{Flops: opkit.Size([]int64{2, count, n, n, n + max(1, columns)}), Bytes: opkit.Bytes(s)}
}

// mixesSystems is the MixesRows of solve: rows of the batch are systems of both, or of one beside another that is the same for all.
func mixesSystems(s *ops.Shapes, divided func(string) bool) bool {
	x, y := s.In("X").Dims, s.In("Y").Dims
	ofX, ofY, _, _ := solves(x, y)
	return divided("X") && (len(ofX) == 0 || len(ofY) > 0 && !divided("Y")) || divided("Y") && (len(ofY) == 0 || len(ofX) > 0 && !divided("X"))
}

func systemsOf(x, y *tensor.Tensor) systems {
	ofX, ofY, columns, _ := solves(x.Dims(), y.Dims())
	t := systems{n: int(x.Dims()[len(x.Dims())-1]), k: int(columns), sharesX: len(ofX) == 0, sharesY: len(ofY) == 0}
	t.count = opkit.Count(ofX)
	if t.sharesX {
		t.count = opkit.Count(ofY)
	}
	return t
}

// systemOf returns what system i has of a tensor of size elements for each system, or for all.
func systemOf[T tensor.Float](t *tensor.Tensor, i, size int, shared bool) []T {
	if shared {
		i = 0
	}
	return tensor.Data[T](t)[i*size:][:size]
}

func bindSolve[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, to := b.In("X"), b.In("Y"), b.Out("Out")
	t := systemsOf(x, y)
	size := t.n * (t.n + t.k)
	work := b.Scratch(tensor.Float64, b.Parts()*size)
	var whole []string
	if t.sharesX {
		whole = append(whole, "X")
	}
	if t.sharesY {
		whole = append(whole, "Y")
	}
	return b.Loops(ops.Loop{N: t.count, Whole: whole, Run: func(at, from, till int) error {
		for i := from; i < till; i++ {
			if !kernel.Solve(systemOf[T](to, i, t.n*t.k, false), systemOf[T](x, i, t.n*t.n, t.sharesX), systemOf[T](y, i, t.n*t.k, t.sharesY),
				ops.Part(work.Float64s(), at, size), t.n, t.k, false) {
				return singular(b, "X", i, "has no inverse", "matrices of full rank")
			}
		}
		return nil
	}})
}

func bindSolveGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, made, dout, dx, dy := b.In("X"), b.In("Out"), b.In("Out"+program.GradSuffix), b.Out("X"+program.GradSuffix), b.Out("Y"+program.GradSuffix)
	t := systemsOf(x, b.In("Y"))
	size := t.n * (t.n + t.k)
	work, solved := b.Scratch(tensor.Float64, size), b.Scratch(tensor.Of[T](), t.n*t.k)
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		if dx != nil {
			tensor.Zero(dx)
		}
		if dy != nil {
			tensor.Zero(dy)
		}
		of := tensor.Data[T](solved)
		for i := range t.count {
			if !kernel.Solve(of, systemOf[T](x, i, t.n*t.n, t.sharesX), systemOf[T](dout, i, t.n*t.k, false), work.Float64s(), t.n, t.k, true) {
				return singular(b, "X", i, "has no inverse", "matrices of full rank")
			}
			if dy != nil {
				kernel.Axpy(systemOf[T](dy, i, t.n*t.k, t.sharesY), of, 1)
			}
			if dx != nil {
				kernel.SolveGrad(systemOf[T](dx, i, t.n*t.n, t.sharesX), of, systemOf[T](made, i, t.n*t.k, false), t.n, t.k)
			}
		}
		return nil
	}})
}
