package nn

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:   "rrelu",
		Class:  ops.Random,
		Doc:    "Multiplies elements below 0 by slopes between lower and upper, all equally likely. With is_test the slope is the mean of both." + placedDoc,
		Inputs: []ops.Slot{{Name: "X", Doc: "float"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"},
			{Name: "Noise", Doc: "of the shape and type of X: the slope where X is below 0, else 1", Intermediate: true}},
		Attrs: []ops.Attr{{Name: "lower", Doc: "the least slope", Default: float32(1. / 8)}, {Name: "upper", Doc: "the largest slope", Default: float32(1. / 3)},
			{Name: "is_test", Doc: "whether nothing is drawn", Default: false}},
		Infer: func(s *ops.Shapes) error {
			if low, high := s.Float("lower"), s.Float("upper"); !(low <= high) || math.IsInf(low, 0) || math.IsInf(high, 0) {
				return opkit.BadAttr(s, "upper", "a finite number, at least lower, which is %v", low)
			}
			s.Like("Out", "X")
			s.Like("Noise", "X")
			return s.IsFloat("X")
		},
		Cost: opkit.PerElement(30),
		Bind: opkit.BindFloats("X", bindRandomRelu[float32], bindRandomRelu[float64]),
	}, opkit.Gradient{
		Doc: "dX = dOut*Noise.", Outputs: []string{"Noise"}, From: []string{"Out"}, Wrt: []string{"X"}, StandIn: map[string]string{"X": program.GradName("Out")}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats(program.GradName("Out"), bindRandomReluGrad[float32], bindRandomReluGrad[float64]),
	})
}

func bindRandomRelu[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, low, high, test := b.In("X"), b.Float("lower"), b.Float("upper"), b.Bool("is_test")
	to, slopes := orScratch[T](b, "Out", x.Len()), orScratch[T](b, "Noise", x.Len())
	step, name := batchOf(b, "X"), kernel.StreamOf("rrelu", b.Op().Out("Out"))
	return b.Loops(ops.Loop{N: x.Len(), Reads: []string{"X"}, Run: func(_, from, till int) error {
		values, drawn := tensor.Data[T](x), tensor.Data[T](slopes)
		if test {
			kernel.Fill(drawn[from:till], T((low+high)/2))
		} else {
			stream := opkit.StreamAt(name, step.Step)
			eachRun(x, step, from, till, func(at, end int, place uint64) { kernel.UniformFill(drawn[at:end], 0, stream, place, low, high) })
		}
		for i := from; i < till; i++ {
			if !(values[i] < 0) {
				drawn[i] = 1
			}
			tensor.Data[T](to)[i] = values[i] * drawn[i]
		}
		return nil
	}})
}

func bindRandomReluGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	slopes, dout, dx := b.In("Noise"), b.In(program.GradName("Out")), b.Out(program.GradName("X"))
	return opkit.Loop(b, dout.Len(), func(from, till int) {
		for i := from; i < till; i++ {
			tensor.Data[T](dx)[i] = tensor.Data[T](dout)[i] * tensor.Data[T](slopes)[i]
		}
	})
}
