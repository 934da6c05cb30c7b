package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

const (
	downgradeInInfer = "downgrade_in_infer"
	upscaleInTrain   = "upscale_in_train"
)

func init() {
	opkit.Register(opkit.ByVariables(ops.Def{
		Type:  "dropout",
		Class: ops.Random,
		Doc: "Sets elements to zero at random: Out = X*Mask, or X*Mask/(1 - dropout_prob) with upscale_in_train. With is_test it " +
			"is X*(1 - dropout_prob), or X. What is drawn depends on seed, the name of Out, the step and the place of the " +
			"element in the whole batch, so it is new in every step and the same for any number of trainers.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float"},
			{Name: "Seed", Doc: "one number that the program computes from constants, in place of seed", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "of the shape and type of X"},
			{Name: "Mask", Doc: "of the shape and type of X: 0 for dropped elements, 1 for the others", Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "dropout_prob", Doc: "probability of zero, in [0, 1]", Default: float32(0.5)},
			{Name: "is_test", Doc: "whether to drop nothing", Default: false},
			{Name: "fix_seed", Doc: "ignored; in Fluid, whether seed counts, which it always does here", Default: false},
			{Name: "seed", Doc: "key of the random numbers", Default: int32(0), Tensor: "Seed"},
			{Name: "dropout_implementation", Doc: downgradeInInfer + " or " + upscaleInTrain, Default: downgradeInInfer},
			{Name: "chosen_rows", Doc: "for trainers: data has chosen the rows of X, so their place in the whole batch is not known. Each trainer draws numbers of its own", Default: false}},
		Infer:   inferDropout,
		Cost:    opkit.PerElement(30),
		Bind:    opkit.BindFloats("X", bindDropout[float32], bindDropout[float64]),
		InPlace: map[string]string{"Out": "X"},
	}, "dropout_prob"), opkit.Gradient{
		Doc:     "dX is computed from dOut as Out is from X.",
		Outputs: []string{"Mask"},
		From:    []string{"Out"},
		Wrt:     []string{"X"},
		StandIn: map[string]string{"X": "Out@GRAD"},
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("Out@GRAD", bindDropoutGrad[float32], bindDropoutGrad[float64]),
	})
}

func inferDropout(s *ops.Shapes) error {
	if p := s.Float("dropout_prob"); !(p >= 0 && p <= 1) {
		return opkit.BadAttr(s, "dropout_prob", "in [0, 1]")
	}
	if way := s.Str("dropout_implementation"); way != downgradeInInfer && way != upscaleInTrain {
		return opkit.BadAttr(s, "dropout_implementation", "%s or %s", downgradeInInfer, upscaleInTrain)
	}
	s.Like("Out", "X")
	s.Like("Mask", "X")
	return s.IsFloat("X")
}

func bindDropout[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x := b.In("X")
	to, mask := orScratch[T](b, "Out", x.Len()), orScratch[T](b, "Mask", x.Len())
	apply, probability := dropout[T](b), b.Float("dropout_prob")
	if b.Bool("is_test") {
		return b.Loops(ops.Loop{N: x.Len(), Reads: []string{"X"}, Run: func(_, from, till int) error {
			kernel.Fill(tensor.Data[T](mask)[from:till], 1)
			apply(tensor.Data[T](to)[from:till], tensor.Data[T](x)[from:till], nil)
			return nil
		}})
	}
	seed, name, step := b.Int("seed"), kernel.StreamOf("dropout", b.Op().Out("Out")), batchOf(b, "X")
	chosen := b.Bool("chosen_rows")
	return b.Loops(ops.Loop{N: x.Len(), Reads: []string{"X"}, Run: func(_, from, till int) error {
		m := tensor.Data[T](mask)[from:till]
		stream := opkit.StreamAt(name, step.Step)
		eachDraw(x, chosen, step, from, till, func(at, end int, place uint64) {
			kernel.DropoutMask(m[at-from:end-from], probability, seed, stream, place)
		})
		apply(tensor.Data[T](to)[from:till], tensor.Data[T](x)[from:till], m)
		return nil
	}})
}

func bindDropoutGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	mask, dout, dx := b.In("Mask"), b.In("Out@GRAD"), b.Out("X@GRAD")
	apply := dropout[T](b)
	return b.Loops(ops.Loop{N: dout.Len(), Reads: []string{"Mask", "Out@GRAD"}, Run: func(_, from, to int) error {
		apply(tensor.Data[T](dx)[from:to], tensor.Data[T](dout)[from:to], tensor.Data[T](mask)[from:to])
		return nil
	}})
}

// dropout returns the function of the op and of its gradient. With is_test it does not read the mask.
func dropout[T tensor.Float](b *ops.Binding) func(out, x, mask []T) {
	probability, upscale := b.Float("dropout_prob"), b.Str("dropout_implementation") == upscaleInTrain
	switch {
	case b.Bool("is_test") && upscale:
		return func(out, x, _ []T) { kernel.Scale(out, x, 1, 0, true) }
	case b.Bool("is_test"):
		return func(out, x, _ []T) { kernel.Scale(out, x, T(1-probability), 0, true) }
	case upscale:
		return func(out, x, mask []T) { kernel.DropoutUpscale(out, x, mask, probability) }
	default:
		return kernel.DropoutDowngrade[T]
	}
}
