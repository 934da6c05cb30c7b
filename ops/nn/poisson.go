package nn

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// placedDoc says what the numbers of the ops of this file follow from.
const placedDoc = " What is drawn depends on the name of Out, the step and the place of the element in the whole batch, so it is new in every step and the same for any number of trainers."

func init() {
	like := func(s *ops.Shapes) error {
		s.Like("Out", "X")
		return s.IsFloat("X")
	}
	opkit.Register(ops.Def{
		Type:    "poisson",
		Class:   ops.Random,
		Doc:     "Draws how many events happen at the rate X, for each element, by the Poisson distribution." + placedDoc,
		Inputs:  []ops.Slot{{Name: "X", Doc: "float, rates, at least 0"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Infer:   like,
		Cost:    opkit.PerElement(200),
		Bind:    opkit.BindFloats("X", bindPoisson[float32], bindPoisson[float64]),
	}, opkit.Gradient{
		Doc: "dX = 0.", Wrt: []string{"X"}, StandIn: map[string]string{"X": program.GradName("Out")}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats(program.GradName("Out"), bindNoGrad[float32], bindNoGrad[float64]),
	})
	ops.Register(ops.Def{
		Type:    "dirichlet",
		Class:   ops.Random,
		Doc:     "Draws probabilities that add up to 1 along the last axis, by the Dirichlet distribution of the weights Alpha. No gradient flows through it." + placedDoc,
		Inputs:  []ops.Slot{{Name: "Alpha", Doc: "float, rank 1 or more, weights above 0"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of Alpha"}},
		Infer: func(s *ops.Shapes) error {
			s.Like("Out", "Alpha")
			if len(s.In("Alpha").Dims) == 0 {
				return s.Errorf("Alpha", "rank 1 or more")
			}
			return s.IsFloat("Alpha")
		},
		Cost:      opkit.PerElement(300),
		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool { return len(s.In("Alpha").Dims) == 1 },
		Bind:      opkit.BindFloats("Alpha", bindDirichlet[float32], bindDirichlet[float64]),
	})
}

// checkEach returns an error for the first element that is not valid.
func checkEach[T tensor.Float](op *program.Op, slot string, values []T, first int, valid func(T) bool, want string) error {
	for i, v := range values {
		if !valid(v) {
			return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In(slot)), fault.Gotf("%v in element %d", v, first+i), fault.Want(want))
		}
	}
	return nil
}

func bindPoisson[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, x, to, step, name := b.Op(), b.In("X"), b.Out("Out"), batchOf(b, "X"), kernel.StreamOf("poisson", b.Op().Out("Out"))
	return b.Loops(ops.Loop{N: x.Len(), Run: func(_, from, till int) error {
		if err := checkEach(op, "X", tensor.Data[T](x)[from:till], from, func(v T) bool { return v >= 0 && v-v == 0 }, "a rate: a finite number of at least 0"); err != nil {
			return err
		}
		stream := opkit.StreamAt(name, step.Step)
		eachRun(x, step, from, till, func(at, end int, place uint64) {
			kernel.Poisson(tensor.Data[T](to)[at:end], tensor.Data[T](x)[at:end], stream, place)
		})
		return nil
	}})
}

func bindNoGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dx := b.Out(program.GradName("X"))
	return opkit.Loop(b, dx.Len(), func(from, till int) { clear(tensor.Data[T](dx)[from:till]) })
}

func bindDirichlet[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, x, to, step, name := b.Op(), b.In("Alpha"), b.Out("Out"), batchOf(b, "Alpha"), kernel.StreamOf("dirichlet", b.Op().Out("Out"))
	width := int(x.Dims()[len(x.Dims())-1])
	room := b.Scratch(tensor.Float64, b.Parts()*width)
	return b.Loops(ops.Loop{N: x.Len() / max(1, width), Run: func(part, from, till int) error {
		from, till = from*width, till*width
		if err := checkEach(op, "Alpha", tensor.Data[T](x)[from:till], from, func(v T) bool { return v > 0 && v-v == 0 }, "a weight: a finite number above 0"); err != nil {
			return err
		}
		stream := opkit.StreamAt(name, step.Step)
		eachRun(x, step, from, till, func(at, end int, place uint64) {
			kernel.Dirichlet(tensor.Data[T](to)[at:end], tensor.Data[T](x)[at:end], ops.Part(room.Float64s(), part, width), stream, place)
		})
		return nil
	}})
}
