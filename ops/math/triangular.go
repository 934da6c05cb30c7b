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

// The ops of this file solve systems of equations whose matrices are triangles.

func init() {
	upper := func(doc string, value bool) ops.Attr { return ops.Attr{Name: "upper", Doc: doc, Default: value} }
	triangles{matrix: "X", sides: "Y"}.register(ops.Def{
		Type: "triangular_solve",
		Doc: "Solves systems of linear equations X*Out = Y, of which only one triangle of X counts. Axes before the last two number the systems; one of X and Y may lack them, and is then the same " +
			"for all. A 0 on the diagonal is an error.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float, the last two extents equal"}, {Name: "Y", Doc: "of the type of X: [..., n, k]"}},
		Outputs: out("Out", "of the type of X: the solutions, a column for each of Y"),
		Attrs: []ops.Attr{upper("whether the upper triangle counts, not the lower", true), {Name: "transpose", Doc: "whether transpose(X)*Out = Y is solved", Default: false},
			{Name: "unitriangular", Doc: "whether the diagonal counts as 1", Default: false}},
	}, "transpose(X)*dY = dOut, and dX is the triangle of -dY*transpose(Out), or of its transposed one with transpose. What is the same for all systems gets the sum.")
	triangles{matrix: "Y", sides: "X", factors: true}.register(ops.Def{
		Type: "cholesky_solve",
		Doc: "Solves systems of linear equations A*Out = X, where Y has the Cholesky factors of A: A = Y*transpose(Y), or transpose(Y)*Y with upper. Axes before the last two number the systems; " +
			"one of X and Y may lack them, and is then the same for all. A 0 on the diagonal is an error.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "of the type of Y: [..., n, k]"}, {Name: "Y", Doc: "float, the last two extents equal"}},
		Outputs: out("Out", "of the type of X: the solutions, a column for each of X"),
		Attrs:   []ops.Attr{upper("whether Y has upper triangles", false)},
	}, "A*dX = dOut, and dY is the triangle of -(dX*transpose(Out) + Out*transpose(dX))*Y, or of -Y*(...) with upper. What is the same for all systems gets the sum.")
}

// triangles is an op that solves systems.
type triangles struct {
	matrix, sides string // slots
	factors       bool   // the triangles are Cholesky factors of the matrices
}

func (t triangles) register(def ops.Def, grad string) {
	cost := func(s *ops.Shapes) ops.Cost {
		matrix, sides := s.In(t.matrix).Dims, s.In(t.sides).Dims
		n, k := max(1, matrix[len(matrix)-1]), max(1, sides[len(sides)-1])
		return ops.Cost{Flops: opkit.Size([]int64{2, max(opkit.Size(matrix[:len(matrix)-2]), opkit.Size(sides[:len(sides)-2])), n, n, k}), Bytes: opkit.Bytes(s)}
	}
	def.Infer = t.infer
	def.Cost = cost
	def.MixesRows = func(s *ops.Shapes, divided func(string) bool) bool {
		matrix, sides := len(s.In(t.matrix).Dims) == 2, len(s.In(t.sides).Dims) == 2
		return divided(t.matrix) && (matrix || !sides && !divided(t.sides)) || divided(t.sides) && (sides || !matrix && !divided(t.matrix))
	}
	def.Bind = opkit.BindFloats(t.matrix, bindTriangles[float32](t), bindTriangles[float64](t))
	opkit.Register(def, opkit.Gradient{
		Doc: grad, Inputs: []string{"X", "Y"}, Outputs: []string{"Out"}, Wrt: []string{"X", "Y"}, Cost: cost,
		Bind: opkit.BindFloats(t.matrix, bindTrianglesGrad[float32](t), bindTrianglesGrad[float64](t)),
	})
}

func (t triangles) infer(s *ops.Shapes) error {
	if err := isSquare(s, t.matrix); err != nil {
		return err
	}
	if err := s.SameType(t.matrix, t.sides); err != nil {
		return err
	}
	matrix, sides := s.In(t.matrix).Dims, s.In(t.sides).Dims
	if len(sides) < 2 || !opkit.Agree(sides[len(sides)-2], matrix[len(matrix)-1]) {
		return s.Errorf(t.sides, "[..., n, k] with the rows of %s %v", t.matrix, matrix)
	}
	numbers, ofSides := matrix[:len(matrix)-2], sides[:len(sides)-2]
	if len(numbers) > 0 && len(ofSides) > 0 && !ops.Compatible(numbers, ofSides) {
		return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In(t.sides)), fault.Gotf("%v", sides),
			fault.Wantf("as many systems as %s %v has, or none of its axes", t.matrix, matrix), fault.Hint("expand it"))
	}
	if len(numbers) == 0 {
		numbers = ofSides
	}
	s.Set("Out", s.In(t.matrix).DType, slices.Concat(numbers, sides[len(sides)-2:])...)
	return nil
}

// of returns how many systems the op has, and their extents.
func (t triangles) of(b *ops.Binding) systems {
	matrices, n, _ := extents(b.In(t.matrix))
	sides, _, k := extents(b.In(t.sides))
	m := systems{n: n, k: k, sharesX: len(b.In(t.matrix).Dims()) == 2, sharesY: len(b.In(t.sides).Dims()) == 2}
	if m.count = matrices; m.sharesX {
		m.count = sides
	}
	return m
}

// triangle is what the op reads of its matrix.
func (t triangles) triangle(b *ops.Binding) kernel.Triangle {
	read := kernel.Triangle{Upper: b.Bool("upper")}
	if !t.factors {
		read.Transposed, read.Unit = b.Bool("transpose"), b.Bool("unitriangular")
	}
	return read
}

// solveTriangles solves one system, of the forward op or with transposed of the backward one.
func solveTriangles[T tensor.Float](t triangles, read kernel.Triangle, out, matrix, sides []T, work []float64, n, k int, transposed bool) bool {
	if !t.factors {
		read.Transposed = read.Transposed != transposed
		return kernel.SolveTriangular(out, matrix, sides, work, n, k, read)
	}
	read.Transposed = read.Upper // the left factor first
	if !kernel.SolveTriangular(out, matrix, sides, work, n, k, read) {
		return false
	}
	read.Transposed = !read.Transposed
	return kernel.SolveTriangular(out, matrix, out, work, n, k, read)
}

func bindTriangles[T tensor.Float](t triangles) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		matrix, sides, to, m, read := b.In(t.matrix), b.In(t.sides), b.Out("Out"), t.of(b), t.triangle(b)
		size := m.n * m.k
		work := b.Scratch(tensor.Float64, b.Parts()*size)
		var whole []string
		if m.sharesX {
			whole = append(whole, t.matrix)
		}
		if m.sharesY {
			whole = append(whole, t.sides)
		}
		return b.Loops(ops.Loop{N: m.count, Whole: whole, Run: func(at, from, till int) error {
			for i := from; i < till; i++ {
				if !solveTriangles(t, read, systemOf[T](to, i, size, false), systemOf[T](matrix, i, m.n*m.n, m.sharesX), systemOf[T](sides, i, size, m.sharesY),
					ops.Part(work.Float64s(), at, size), m.n, m.k, false) {
					return singular(b, t.matrix, i, "has a 0 on the diagonal", "triangles that have none")
				}
			}
			return nil
		}})
	}
}

func bindTrianglesGrad[T tensor.Float](t triangles) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		matrix, made, dout := b.In(t.matrix), b.In("Out"), b.In(program.GradName("Out"))
		dm, ds := b.Out(program.GradName(t.matrix)), b.Out(program.GradName(t.sides))
		m, read := t.of(b), t.triangle(b)
		size := m.n * m.k
		work, sum, solved := b.Scratch(tensor.Float64, size), b.Scratch(tensor.Float64, m.n*m.n), b.Scratch(tensor.Of[T](), size)
		return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
			clear(opkit.Data[T](dm))
			clear(opkit.Data[T](ds))
			of := tensor.Data[T](solved)
			for i := range m.count {
				own, result := systemOf[T](matrix, i, m.n*m.n, m.sharesX), systemOf[T](made, i, size, false)
				if !solveTriangles(t, read, of, own, systemOf[T](dout, i, size, false), work.Float64s(), m.n, m.k, true) {
					return singular(b, t.matrix, i, "has a 0 on the diagonal", "triangles that have none")
				}
				if ds != nil {
					kernel.Axpy(systemOf[T](ds, i, size, m.sharesY), of, 1)
				}
				switch {
				case dm == nil:
				case t.factors:
					kernel.CholeskySolveGrad(systemOf[T](dm, i, m.n*m.n, m.sharesX), own, of, result, sum.Float64s(), m.n, m.k, read.Upper)
				default:
					kernel.SolveTriangularGrad(systemOf[T](dm, i, m.n*m.n, m.sharesX), of, result, m.n, m.k, read)
				}
			}
			return nil
		}})
	}
}
