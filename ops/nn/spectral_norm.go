package nn

import (
	"context"
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// mostPowerSteps bounds the steps of a power iteration.
const mostPowerSteps = 1 << 10

func init() {
	opkit.Register(ops.Def{
		Type: "spectral_norm",
		Doc: "Divides a weight by an estimate of its largest singular value (Miyato et al. 2018): Out = Weight/(u W v), where W is the weight as a matrix whose rows axis dim counts, and u and v " +
			"come from U and V by power_iters steps v = W'u/|W'u|, u = Wv/|Wv|. U and V stay as they are, as in Fluid.",
		Inputs: []ops.Slot{{Name: "Weight", Doc: "float, rank 2 to 5"}, {Name: "U", Doc: "one number for each row of W"},
			{Name: "V", Doc: "one number for each column of W"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of Weight"}},
		Attrs: []ops.Attr{
			{Name: "dim", Doc: "axis of the rows of W", Default: int32(0)},
			{Name: "power_iters", Doc: "number of steps, at least 0", Default: int32(1)},
			{Name: "eps", Doc: "added to each length", Default: float32(1e-12)}},
		Infer:     inferSpectralNorm,
		Cost:      opkit.PerElement(6),
		Bind:      opkit.BindFloats("Weight", bindSpectralNorm[float32], bindSpectralNorm[float64]),
		MixesRows: opkit.Mixes,
	}, opkit.Gradient{
		Doc:    "with s = u W v, dWeight = (dOut - sum(dOut*Out)*(outer product of u and v))/s; u and v count as constants.",
		Inputs: []string{"Weight", "U", "V"},
		Wrt:    []string{"Weight"},
		Cost:   opkit.PerElement(8),
		Bind:   opkit.BindFloats("Weight", bindSpectralNormGrad[float32], bindSpectralNormGrad[float64]),
	})
}

func inferSpectralNorm(s *ops.Shapes) error {
	w := s.In("Weight").Dims
	if err := s.IsFloat("Weight"); err != nil {
		return err
	}
	if err := s.SameType("Weight", "U", "V"); err != nil {
		return err
	}
	if len(w) < 2 || len(w) > 5 {
		return s.Errorf("Weight", "rank 2 to 5")
	}
	dim, err := opkit.AxisAttr(s, "dim", s.Int("dim"), len(w))
	if err != nil {
		return err
	}
	if n := s.Int("power_iters"); n < 0 || n > mostPowerSteps {
		return opkit.BadAttr(s, "power_iters", "0 to %d", mostPowerSteps)
	}
	columns := ops.Product(append(append([]int64{}, w[:dim]...), w[dim+1:]...))
	if !ops.Compatible(s.In("U").Dims, w[dim:dim+1]) {
		return s.Errorf("U", "dims [%d]", w[dim])
	}
	if !ops.Compatible(s.In("V").Dims, []int64{columns}) {
		return s.Errorf("V", "dims [%d]", columns)
	}
	s.Like("Out", "Weight")
	return nil
}

// A spectrum is a weight as a matrix: element (r, c) stands at place r*inner + c/inner*(rows*inner) + c%inner of the weight.
type spectrum struct {
	rows, columns, inner int
	steps                int
	eps                  float64
	scratchU, scratchV   *tensor.Tensor
	u, v                 []float64 // of the current run
}

func newSpectrum(b *ops.Binding, w []int64) *spectrum {
	dim := int(b.Int("dim"))
	if dim < 0 {
		dim += len(w)
	}
	s := &spectrum{rows: int(w[dim]), inner: opkit.Count(w[dim+1:]), steps: int(b.Int("power_iters")), eps: b.Float("eps")}
	s.columns = opkit.Count(w[:dim]) * s.inner
	s.scratchU, s.scratchV = b.Scratch(tensor.Float64, s.rows), b.Scratch(tensor.Float64, s.columns)
	return s
}

func (s *spectrum) place(r, c int) int { return (c/s.inner*s.rows+r)*s.inner + c%s.inner }

// length divides x by its length.
func (s *spectrum) length(x []float64) {
	total := 0.0
	for _, v := range x {
		total += v * v
	}
	total = math.Sqrt(total) + s.eps
	for i := range x {
		x[i] /= total
	}
}

// singularValue runs the power iteration from u and v, and returns u W v.
func singularValue[T tensor.Float](s *spectrum, w, u, v []T) (sigma float64) {
	s.u, s.v = s.scratchU.Float64s(), s.scratchV.Float64s()
	kernel.Cast(s.u, u)
	kernel.Cast(s.v, v)
	for range s.steps {
		clear(s.v)
		for r := range s.rows {
			for c := range s.columns {
				s.v[c] += float64(w[s.place(r, c)]) * s.u[r]
			}
		}
		s.length(s.v)
		for r := range s.rows {
			s.u[r] = product(s, w, r)
		}
		s.length(s.u)
	}
	for r := range s.rows {
		sigma += s.u[r] * product(s, w, r)
	}
	return sigma
}

// product returns row r of W times v.
func product[T tensor.Float](s *spectrum, w []T, r int) (total float64) {
	for c := range s.columns {
		total += float64(w[s.place(r, c)]) * s.v[c]
	}
	return total
}

func bindSpectralNorm[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	w, u, v, out := b.In("Weight"), b.In("U"), b.In("V"), b.Out("Out")
	s := newSpectrum(b, w.Dims())
	return func(context.Context) error {
		sigma := singularValue(s, tensor.Data[T](w), tensor.Data[T](u), tensor.Data[T](v))
		kernel.Scale(tensor.Data[T](out), tensor.Data[T](w), T(1/sigma), 0, true)
		return nil
	}, nil
}

func bindSpectralNormGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	w, u, v, dout, dw := b.In("Weight"), b.In("U"), b.In("V"), b.In("Out@GRAD"), b.Out("Weight@GRAD")
	s := newSpectrum(b, w.Dims())
	return func(context.Context) error {
		g, weight, to := tensor.Data[T](dout), tensor.Data[T](w), tensor.Data[T](dw)
		sigma, total := singularValue(s, weight, tensor.Data[T](u), tensor.Data[T](v)), 0.0
		for i, x := range g {
			total += float64(x) * float64(weight[i])
		}
		for r := range s.rows {
			for c := range s.columns {
				at := s.place(r, c)
				to[at] = T((float64(g[at]) - total/sigma*s.u[r]*s.v[c]) / sigma)
			}
		}
		return nil
	}, nil
}
