package optim

import (
	"errors"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// scalingChunk is how many elements of a gradient one iteration works on.
const scalingChunk = 1 << 14

const foundSlot = "FoundInfinite"

// scalingCounters are the counters of update_loss_scaling: before and after the step.
var scalingCounters = [][2]string{{"InGoodSteps", "OutGoodSteps"}, {"InBadSteps", "OutBadSteps"}}

func init() {
	gradients := func(doc string) []ops.Slot {
		return []ops.Slot{{Name: "X", Doc: doc, Duplicable: true, Dispensable: true, Rows: true}}
	}
	results := func(doc string) []ops.Slot {
		return []ops.Slot{{Name: "Out", Doc: doc, Duplicable: true, Dispensable: true, Rows: true}}
	}
	for _, c := range []struct {
		name, doc string
		divides   bool
	}{
		{"check_finite_and_unscale", "Takes the scale of a loss out of its gradients: Out = X * (1/Scale). From the first gradient on that is not finite, Out = X * 0, which is no gradient.", true},
		{"amp_check_finite_and_scale", "Multiplies gradients by the reciprocal of the scale of their loss: Out = X * Scale. From the first gradient on that is not finite, Out = X.", false},
	} {
		ops.Register(ops.Def{
			Type:    c.name,
			Class:   ops.Optimize,
			Doc:     c.doc + " It is part of an update: a cluster runs it on the merged gradients of all trainers.",
			Inputs:  append(gradients("gradients, float32 or float64"), ops.Slot{Name: "Scale", Doc: "one element of their type"}),
			Outputs: append(results("X in place, or of its shape and type"), ops.Slot{Name: foundSlot, Doc: "bool, dims [1]: whether an element of any X is NaN or infinite"}),
			Infer:   inferCheck,
			Cost:    opkit.PerElement(2),
			Bind:    opkit.BindFloats("Scale", bindCheck[float32](c.divides), bindCheck[float64](c.divides)),
			InPlace: map[string]string{"Out": "X"},
		})
	}
	def := ops.Def{
		Type:  "update_loss_scaling",
		Class: ops.Optimize,
		Doc: "Adapts the scale of a loss to its gradients, and drops those that are not finite. If FoundInfinite, Out = 0, OutGoodSteps = 0, and OutBadSteps = InBadSteps + 1; " +
			"when this is decr_every_n_nan_or_inf, LossScaling = max(1, PrevLossScaling * decr_ratio) and OutBadSteps = 0. Otherwise Out = X, OutBadSteps = 0, and " +
			"OutGoodSteps = InGoodSteps + 1; when this is incr_every_n_steps, LossScaling = PrevLossScaling * incr_ratio, if that is finite, and OutGoodSteps = 0. " +
			"It is part of an update: all trainers of a cluster have one scale.",
		Inputs: append(gradients("gradients, float32 or float64"),
			ops.Slot{Name: foundSlot, Doc: "bool, one element: whether to drop the gradients"},
			ops.Slot{Name: "PrevLossScaling", Doc: "the scale of this step, one element of the type of X"},
			ops.Slot{Name: "StopUpdate", Doc: "bool, one element: whether to keep scale and counters, as the attribute says, too", Dispensable: true}),
		Outputs: append(results("X in place, or of its shape and type"), ops.Slot{Name: "LossScaling", Doc: "the scale of the next step"}),
		Attrs: []ops.Attr{
			{Name: "incr_every_n_steps", Kind: int32(0), Doc: "after how many finite steps in a row the scale grows"},
			{Name: "decr_every_n_nan_or_inf", Kind: int32(0), Doc: "after how many steps in a row that are not finite the scale shrinks"},
			{Name: "incr_ratio", Kind: float32(0), Doc: "what the scale grows by", Check: between("incr_ratio", 1, math.Inf(1), "above 1")},
			{Name: "decr_ratio", Kind: float32(0), Doc: "what the scale shrinks by", Check: between("decr_ratio", 0, 1, "between 0 and 1")},
			{Name: "stop_update", Default: false, Doc: "whether to keep scale and counters, and only drop gradients"},
		},
		Infer:   inferScaling,
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("PrevLossScaling", bindScaling[float32], bindScaling[float64]),
		InPlace: map[string]string{"Out": "X", "LossScaling": "PrevLossScaling"},
	}
	for _, slots := range scalingCounters {
		def.Inputs = append(def.Inputs, ops.Slot{Name: slots[0], Doc: "int32, one element, at first 0"})
		def.Outputs = append(def.Outputs, ops.Slot{Name: slots[1], Doc: "the new " + slots[0]})
		def.InPlace[slots[1]] = slots[0]
	}
	ops.Register(def)
}

// between checks a number that lies between two bounds and is neither of them.
func between(name string, low, high float64, want string) func(*program.Op) error {
	return func(op *program.Op) error {
		if v, ok := op.Float(name); ok && !(v > low && v < high) {
			return errors.New(want)
		}
		return nil
	}
}

func inferCheck(s *ops.Shapes) error {
	s.Set(foundSlot, tensor.Bool, 1)
	if ops.Product(s.In("Scale").Dims) != 1 {
		return s.Errorf("Scale", "one element")
	}
	return inferGradients(s, "Scale")
}

// inferGradients gives each Out the type of its X, and checks that they have the type of a scale.
func inferGradients(s *ops.Shapes, scale string) error {
	s.Like("Out", "X")
	if err := s.IsFloat(scale); err != nil {
		return err
	}
	if err := s.SameType(scale, "X"); err != nil {
		return err
	}
	if len(s.Ins("X")) != len(s.Outs("Out")) {
		return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Gotf("%d variables in X and %d in Out", len(s.Ins("X")), len(s.Outs("Out"))), fault.Want("equally many"))
	}
	for i, m := range s.Ins("X") {
		if m.Kind == program.SelectedRows && s.Op().Inputs["X"][i] != s.Op().Outputs["Out"][i] {
			return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().Inputs["X"][i]), fault.Got("a sparse gradient that gets another name"),
				fault.Want("the same variable in X and Out"))
		}
	}
	return nil
}

func inferScaling(s *ops.Shapes) error {
	for _, slot := range []string{foundSlot, "StopUpdate"} {
		if m := s.In(slot); s.Has(slot) && (m.DType != tensor.Bool || ops.Product(m.Dims) != 1) {
			return s.Errorf(slot, "one bool")
		}
	}
	for _, slots := range scalingCounters {
		if m := s.In(slots[0]); m.DType != tensor.Int32 || ops.Product(m.Dims) != 1 {
			return s.Errorf(slots[0], "one int32")
		}
		s.Like(slots[1], slots[0])
	}
	if ops.Product(s.In("PrevLossScaling").Dims) != 1 {
		return s.Errorf("PrevLossScaling", "one element")
	}
	s.Like("LossScaling", "PrevLossScaling")
	return inferGradients(s, "PrevLossScaling")
}

// A scalingPart is a run of elements of one gradient.
type scalingPart struct{ gradient, from, to int }

// scalingParts divides the gradients that have both an X and an Out into runs.
func scalingParts(xs []*tensor.Tensor) []scalingPart {
	var parts []scalingPart
	for i, x := range xs {
		if x == nil {
			continue
		}
		for from := 0; from < x.Len(); from += scalingChunk {
			parts = append(parts, scalingPart{i, from, min(from+scalingChunk, x.Len())})
		}
	}
	return parts
}

// elements returns the elements of a part that are in use, in X and in Out: a sparse gradient may have room for more rows. Out is nil if nobody wants it.
func elements[T tensor.Float](p scalingPart, xs, outs []*tensor.Tensor) (x, to []T) {
	t, end := xs[p.gradient], p.to
	if t.IsSelected() {
		width := t.Len() / max(1, int(t.Dims()[0]))
		end = max(p.from, min(end, len(tensor.UsedRows(t))*width))
	}
	x = tensor.Data[T](t)[p.from:end]
	if out := outs[p.gradient]; out != nil {
		to = tensor.Data[T](out)[p.from:end]
	}
	return x, to
}

// bindCheck binds three loops: they look for elements that are not finite, find the first gradient that has one, and write.
func bindCheck[T tensor.Float](divides bool) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		xs, outs, scale, found := b.Ins("X"), b.Outs("Out"), b.In("Scale"), b.Out(foundSlot)
		parts := scalingParts(xs)
		infinite := b.Scratch(tensor.Bool, len(parts))
		first := b.Scratch(tensor.Int64, 1) // gradient that is not finite
		return b.Loops(
			ops.Loop{N: len(parts), Apart: true, Reads: []string{"X"}, Run: func(_, from, to int) error {
				for i, p := range parts[from:to] {
					x, _ := elements[T](p, xs, outs)
					infinite.Bools()[from+i] = kernel.FirstNonFinite(x) >= 0
				}
				return nil
			}},
			ops.Loop{N: 1, Apart: true, Reads: []string{}, Run: func(int, int, int) error {
				at := slices.Index(infinite.Bools(), true)
				first.Int64s()[0] = math.MaxInt64
				if at >= 0 {
					first.Int64s()[0] = int64(parts[at].gradient)
				}
				if found != nil {
					found.Bools()[0] = at >= 0
				}
				return nil
			}},
			ops.Loop{N: len(parts), Apart: true, Whole: []string{"Scale"}, Writes: []string{"Out"}, Run: func(_, from, to int) error {
				factor := tensor.Data[T](scale)[0]
				if divides {
					factor = 1 / factor
				}
				for _, p := range parts[from:to] {
					x, out := elements[T](p, xs, outs)
					switch {
					case out == nil:
					case int64(p.gradient) < first.Int64s()[0]:
						kernel.Scale(out, x, factor, 0, true)
					case divides:
						kernel.Scale(out, x, 0, 0, true)
					default:
						copy(out, x)
					}
				}
				return nil
			}})
	}
}

func bindScaling[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	xs, outs, found, stop := b.Ins("X"), b.Outs("Out"), b.In(foundSlot), b.In("StopUpdate")
	parts := scalingParts(xs)
	s := scalingState[T]{scale: [2]*tensor.Tensor{b.In("PrevLossScaling"), b.Out("LossScaling")}, stop: b.Bool("stop_update"),
		every: [2]int32{int32(b.Int("incr_every_n_steps")), int32(b.Int("decr_every_n_nan_or_inf"))}, ratio: [2]float32{float32(b.Float("incr_ratio")), float32(b.Float("decr_ratio"))}}
	written := []string{"LossScaling"}
	for i, slots := range scalingCounters {
		s.counters[i] = [2]*tensor.Tensor{b.In(slots[0]), b.Out(slots[1])}
		written = append(written, slots[1])
	}
	return b.Loops(
		ops.Loop{N: len(parts), Apart: true, Reads: []string{"X", foundSlot}, Whole: []string{foundSlot}, Writes: []string{"Out"}, Run: func(_, from, to int) error {
			for _, p := range parts[from:to] {
				x, out := elements[T](p, xs, outs)
				switch {
				case out == nil:
				case found.Bools()[0]:
					clear(out)
				default:
					copy(out, x)
				}
			}
			return nil
		}},
		ops.Loop{N: 1, Apart: true, Writes: written, Run: func(int, int, int) error {
			s.update(found.Bools()[0], stop != nil && stop.Bools()[0])
			return nil
		}})
}

// A scalingState is what update_loss_scaling keeps from step to step. Pairs of tensors are before and after the step, often the same.
type scalingState[T tensor.Float] struct {
	scale    [2]*tensor.Tensor
	counters [2][2]*tensor.Tensor // of good and of bad steps
	every    [2]int32             // the scale changes when the counter is so large
	ratio    [2]float32
	stop     bool
}

// update counts a step, and changes the scale when it is time.
func (s *scalingState[T]) update(found, stop bool) {
	scale := tensor.Data[T](s.scale[0])[0]
	counts := [2]int32{s.counters[0][0].Int32s()[0], s.counters[1][0].Int32s()[0]}
	if !stop && !s.stop {
		kind := 0
		if found {
			kind = 1
		}
		counts[kind]++
		counts[1-kind] = 0
		if counts[kind] == s.every[kind] {
			counts[kind] = 0
			next := scale * T(s.ratio[kind])
			switch {
			case found:
				scale = max(1, next)
			case next-next == 0: // finite
				scale = next
			}
		}
	}
	if s.scale[1] != nil {
		tensor.Data[T](s.scale[1])[0] = scale
	}
	for i, c := range s.counters {
		if c[1] != nil {
			c[1].Int32s()[0] = counts[i]
		}
	}
}
