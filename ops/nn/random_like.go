package nn

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file give all elements of a variable other values, drawn at random. Paddle 2 has them for a variable that changes in place.

func init() {
	registerDrawnLike(drawnLike{name: "uniform_random_inplace", doc: "Fills Out with numbers between min and max, all equally likely", attrs: [2]string{"min", "max"}, defaults: [2]float32{-1, 1},
		valid: func(low, high float64) bool { return low <= high }, want: "at least min", f32: kernel.UniformFill[float32], f64: kernel.UniformFill[float64]})
	registerDrawnLike(drawnLike{name: "gaussian_random_inplace", doc: "Fills Out with numbers of the normal distribution with the deviation std around mean", attrs: [2]string{"mean", "std"}, defaults: [2]float32{0, 1},
		valid: func(_, std float64) bool { return std >= 0 }, want: "at least 0", f32: kernel.GaussianFill[float32], f64: kernel.GaussianFill[float64]})
	registerDrawnLike(drawnLike{name: "exponential", doc: "Fills Out with numbers of the exponential distribution, which are 1/lambda on average", attrs: [2]string{"", "lambda"}, defaults: [2]float32{0, 1},
		valid: func(_, rate float64) bool { return rate > 0 }, want: "above 0", f32: kernel.ExponentialFill[float32], f64: kernel.ExponentialFill[float64]})
}

// A drawnLike is an op that draws from a distribution of two parameters, the first of which may be missing.
type drawnLike struct {
	name, doc string
	attrs     [2]string
	defaults  [2]float32
	valid     func(a, b float64) bool
	want      string // of the second parameter
	f32       noiseFill[float32]
	f64       noiseFill[float64]
}

func registerDrawnLike(d drawnLike) {
	attrs := []ops.Attr{{Name: "seed", Doc: "key of the random numbers", Default: int32(0)}}
	for i, name := range d.attrs {
		if name != "" {
			attrs = append(attrs, ops.Attr{Name: name, Doc: "parameter of the distribution", Default: d.defaults[i]})
		}
	}
	opkit.Register(ops.Def{
		Type:    d.name,
		Class:   ops.Random,
		Doc:     d.doc + ", for each element of X, which it does not read." + placedDoc,
		Inputs:  []ops.Slot{{Name: "X", Doc: "float"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs:   attrs,
		Infer: func(s *ops.Shapes) error {
			a, b := d.parameters(s)
			if math.IsNaN(a-a) || math.IsNaN(b-b) || !d.valid(a, b) {
				return opkit.BadAttr(s, d.attrs[1], "a finite number, %s", d.want)
			}
			s.Like("Out", "X")
			return s.IsFloat("X")
		},
		InPlace: map[string]string{"Out": "X"},
		Cost:    opkit.PerElement(60),
		Bind:    opkit.BindFloats("X", bindDrawnLike(d, d.f32), bindDrawnLike(d, d.f64)),
	}, opkit.Gradient{
		Doc: "dX = 0.", Wrt: []string{"X"}, StandIn: map[string]string{"X": program.GradName("Out")}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats(program.GradName("Out"), bindNoGrad[float32], bindNoGrad[float64]),
	})
}

// parameters returns those of the distribution.
func (d drawnLike) parameters(s interface{ Float(string) float64 }) (a, b float64) {
	if d.attrs[0] != "" {
		a = s.Float(d.attrs[0])
	}
	return a, s.Float(d.attrs[1])
}

func bindDrawnLike[T tensor.Float](d drawnLike, fill noiseFill[T]) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		to, seed, name, step := b.Out("Out"), b.Int("seed"), kernel.StreamOf(d.name, b.Op().Out("Out")), batchOf(b, "Out")
		p, q := d.parameters(b)
		return b.Loops(ops.Loop{N: to.Len(), Reads: []string{}, Run: func(_, from, till int) error {
			stream := opkit.StreamAt(name, step.Step)
			eachRun(to, step, from, till, func(at, end int, place uint64) { fill(tensor.Data[T](to)[at:end], seed, stream, place, p, q) })
			return nil
		}})
	}
}
