package comm

import (
	"context"
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:  "share_totals",
		Class: ops.Dist,
		Asks:  true,
		Doc: "Makes sums and means over the whole batch of those that each trainer has made of its rows, for a loss that is a function of them, such as the quotient of " +
			"two means. It waits for the trainers, and the devices of the trainer, that have the other rows. Who has the whole batch waits for nobody.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float32 or float64: sums and means over the trainer's rows", Duplicable: true},
			{Name: "Over", Doc: "what each X reduces, of which only the number of elements is read; or that number, int64 [1]", Duplicable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "for each X the sum or mean over the batch", Duplicable: true},
			{Name: "Scale", Doc: "[1], for each X: what the gradient of Out is multiplied by before it goes on to the trainer's rows", Duplicable: true}},
		Attrs: []ops.Attr{{Name: "means", Kind: []int32{}, Doc: "for each X: 1 for a mean, 0 for a sum"},
			{Name: "place", Kind: int32(0), Doc: "how many such ops come before", Check: checkPlace}},
		Infer: inferShareTotals,
		Bind:  bindShareTotals,
	})
}

func checkPlace(op *program.Op) error {
	if n, ok := op.Int("place"); ok && (n < 0 || n >= ops.MaxTotalsPlaces) {
		return fmt.Errorf("0 to %d", ops.MaxTotalsPlaces-1)
	}
	return nil
}

func inferShareTotals(s *ops.Shapes) error {
	x, means := s.Ins("X"), s.Ints("means")
	if len(x) == 0 || len(s.Ins("Over")) != len(x) || len(s.Outs("Out")) != len(x) || len(s.Outs("Scale")) != len(x) || len(means) != len(x) {
		return fault.E(fault.InvalidProgram, fault.Gotf("%d X, %d Over, %d Out, %d Scale and %d means", len(x), len(s.Ins("Over")), len(s.Outs("Out")), len(s.Outs("Scale")),
			len(means)), fault.Want("one of each for each X"))
	}
	numbers := int64(0)
	for i, m := range x {
		n := ops.Product(m.Dims)
		if m.Kind != program.LoDTensor || m.DType != tensor.Float32 && m.DType != tensor.Float64 || n > ops.MaxTotals {
			return s.Errorf("X", "float32 or float64, of at most %d numbers", ops.MaxTotals)
		}
		if means[i] != 0 && means[i] != 1 {
			return opkit.BadAttr(s, "means", "0 or 1 for each X")
		}
		if over := s.Ins("Over")[i]; over.DType == tensor.Int64 && !slices.Equal(over.Dims, []int64{1}) {
			return s.Errorf("Over", "float32 or float64, or the number of elements, int64 [1]")
		}
		numbers += max(n, 1)
		m.LoDLevel, m.LoDOf = 0, ""
		s.SetAt("Out", i, m)
		s.SetAt("Scale", i, ops.Meta{Kind: program.LoDTensor, DType: m.DType, Dims: []int64{1}})
	}
	if numbers > ops.MaxTotals {
		return s.Errorf("X", "at most %d numbers together", ops.MaxTotals)
	}
	return nil
}

func bindShareTotals(b *ops.Binding) (ops.Kernel, error) {
	comm, err := wire(b)
	if err != nil {
		return nil, err
	}
	sharer, ok := comm.(ops.TotalsSharer)
	if !ok {
		return nil, needsCluster("a connection over which no totals are shared")
	}
	x, over, out, scale := b.Ins("X"), b.Ins("Over"), b.Outs("Out"), b.Outs("Scale")
	for _, all := range [][]*tensor.Tensor{x, over, out, scale} {
		if slices.Contains(all, nil) {
			return nil, fault.E(fault.InvalidProgram, fault.Got("a variable without a value"), fault.Want("a tensor"))
		}
	}
	means := make([]bool, len(x))
	for i, mean := range b.Ints("means") {
		means[i] = mean == 1
	}
	numbers := 0
	for _, t := range x {
		numbers += t.Len()
	}
	step, place := b.Env.Step, int(b.Int("place"))
	own := ops.Totals{Over: make([]int64, len(x)), Values: make([]float64, 0, numbers)}
	alone := make([]ops.Totals, 1)
	join := func(parts []ops.Totals) (ops.Totals, error) { return merge.JoinTotals(out, scale, means, parts) }
	return func(ctx context.Context) (err error) {
		own.Rows, own.Values = step.Rows, own.Values[:0]
		for i, t := range x {
			own.Over[i] = merge.Reduced(over[i])
			if own.Values, err = merge.AppendNumbers(own.Values, t); err != nil {
				return err
			}
		}
		if !step.Part {
			alone[0] = own
			return merge.Totals(out, scale, means, own, alone)
		}
		parts, err := sharer.ShareTotals(ctx, place, own, join)
		if err != nil {
			return err
		}
		return merge.Totals(out, scale, means, own, parts)
	}, nil
}
