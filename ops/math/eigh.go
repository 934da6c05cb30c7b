package math

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "eigh",
		Doc: "The eigenvalues and eigenvectors of symmetric matrices: X = V*diag(w)*transpose(V), with the eigenvalues w in ascending order, and the eigenvectors as the columns of V. The " +
			"largest element of an eigenvector is positive, where Fluid leaves the sign open.",
		Inputs: in("X", "float, the last two extents equal; only one triangle is read"),
		Outputs: []ops.Slot{
			{Name: "Eigenvalues", Doc: "dims of X without the last"},
			{Name: "Eigenvectors", Doc: "dims of X"}},
		Attrs: []ops.Attr{{Name: "UPLO", Doc: "L or U: the triangle of X that is read", Default: "L"}},
		Infer: func(s *ops.Shapes) error {
			if err := isSquare(s, "X"); err != nil {
				return err
			}
			if part := s.Str("UPLO"); part != "L" && part != "U" {
				return opkit.BadAttr(s, "UPLO", "L or U")
			}
			x := s.In("X")
			s.Set("Eigenvalues", x.DType, x.Dims[:len(x.Dims)-1]...)
			s.Like("Eigenvectors", "X")
			return nil
		},
		Cost:      opkit.PerElement(64),
		MixesRows: mixesMatrices("X"),
		Bind:      opkit.BindFloats("X", bindEigh[float32], bindEigh[float64]),
	}, opkit.Gradient{
		Doc: "with S[i,j] the element of transpose(V)*dV over w[j]-w[i], 0 for equal eigenvalues and dw on the diagonal, dX is the sum of V*S*transpose(V) and its mirror image in the " +
			"triangle that is read, once on the diagonal, and 0 in the other. Fluid gives half of it to both triangles.",
		Outputs: []string{"Eigenvalues", "Eigenvectors"},
		Wrt:     []string{"X"},
		StandIn: map[string]string{"X": "Eigenvectors"},
		Cost:    opkit.PerElement(64),
		Bind:    opkit.BindFloats("Eigenvectors", bindEighGrad[float32], bindEighGrad[float64]),
	})
}

func bindEigh[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, values, vectors, upper := b.In("X"), b.Out("Eigenvalues"), b.Out("Eigenvectors"), b.Str("UPLO") == "U"
	count, n := matrices(x)
	each := kernel.EighWorkspace(n)
	work := b.Scratch(tensor.Float64, b.Parts()*each)
	return b.Loops(ops.Loop{N: count, Run: func(part, from, to int) error {
		for i := from; i < to; i++ {
			w, v := kernel.Eigh(matrixOf[T](x, i, n), n, upper, ops.Part(work.Float64s(), part, each))
			if values != nil {
				for k, value := range w {
					tensor.Data[T](values)[i*n+k] = T(value)
				}
			}
			if vectors != nil {
				for k, value := range v {
					tensor.Data[T](vectors)[i*n*n+k] = T(value)
				}
			}
		}
		return nil
	}})
}

func bindEighGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	values, vectors, dvalues, dvectors := b.In("Eigenvalues"), b.In("Eigenvectors"), b.In(program.GradName("Eigenvalues")), b.In(program.GradName("Eigenvectors"))
	dx := b.Out(program.GradName("X"))
	count, n := matrices(vectors)
	upper := b.Str("UPLO") == "U"
	work := b.Scratch(tensor.Float64, b.Parts()*3*n*n)
	return b.Loops(ops.Loop{N: count, Run: func(part, from, to int) error {
		for i := from; i < to; i++ {
			var dw, dv []T
			if dvalues != nil {
				dw = tensor.Data[T](dvalues)[i*n:][:n]
			}
			if dvectors != nil {
				dv = matrixOf[T](dvectors, i, n)
			}
			kernel.EighGrad(matrixOf[T](dx, i, n), tensor.Data[T](values)[i*n:][:n], matrixOf[T](vectors, i, n), dw, dv, ops.Part(work.Float64s(), part, 3*n*n), n, upper)
		}
		return nil
	}})
}
