package sparse

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:  "lookup_sparse_table_shrink",
		Class: ops.Optimize,
		Doc: "Ends a round of a table that grows: counts the keys of its gradient that have no row yet, and evicts keys that were not seen for long, with their rows. " +
			"The last row takes the place of one that goes, in Param and in Moments. In Paddle 2, shrink is a call of its own.",
		Inputs: slices.Concat(tableSlots, []ops.Slot{{Name: "Moments", Doc: "the state of the optimizer that has a row for each row of Param", Duplicable: true, Dispensable: true}}),
		Outputs: slices.Concat(outSlots, []ops.Slot{{Name: "RoundsOut", Doc: "the variable of Rounds"},
			{Name: "HoursOut", Doc: "the variable of Hours", Dispensable: true},
			{Name: "MomentsOut", Doc: "the variables of Moments", Duplicable: true, Dispensable: true}}),
		Attrs: slices.Concat(regionAttrs, initialAttrs, []ops.Attr{{Name: "moments_initial", Default: []float32{}, Doc: "what each of Moments has in a row that is free"}}),
		Infer: inferShrink,
		Cost:  opkit.PerElement(1),
		Bind:  bindShrink,

		RowSliced: true,
		InPlace: map[string]string{"ParamOut": "Param", "KeysOut": "Keys", "IndexOut": "Index", "CountsOut": "Counts", "RoundsOut": "Rounds", "HoursOut": "Hours",
			"MomentsOut": "Moments"},
		TellsRows: []string{"Param", "Keys", "Index", "Counts", "Moments"},
	})
}

func inferShrink(s *ops.Shapes) error {
	if err := inferInsert(s); err != nil {
		return err
	}
	if !s.Has("Rounds") {
		return s.Errorf("Rounds", "a table that counts rounds")
	}
	s.Like("RoundsOut", "Rounds")
	if s.Has("Hours") {
		s.Like("HoursOut", "Hours")
	}
	initial, _ := s.Op().Floats("moments_initial")
	if len(initial) != len(s.Ins("Moments")) {
		return opkit.BadAttr(s, "moments_initial", "%d numbers, one for each of Moments", len(s.Ins("Moments")))
	}
	for i, m := range s.Ins("Moments") {
		s.SetAt("MomentsOut", i, m)
	}
	return nil
}

func bindShrink(b *ops.Binding) (ops.Kernel, error) {
	u, err := bindUpdate(b)
	if err != nil {
		return nil, err
	}
	rounds, hoursOut, moments := b.Out("RoundsOut"), b.Out("HoursOut"), b.Outs("MomentsOut")
	initial, _ := u.op.Floats("moments_initial")
	if u.rounds == nil || rounds == nil || rounds.Len() != 1 || len(initial) != len(moments) {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%d of Moments with %d first values", len(moments), len(initial)), fault.Want("one for each, and Rounds"))
	}
	if u.days > 0 && (hoursOut == nil || hoursOut.Len() != 2) {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("HoursOut %v", hoursOut), fault.Want("the variable of Hours"))
	}
	for _, m := range moments {
		if m.DType() != tensor.Float32 || m.Len() != u.param.Len() {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("Moments %v", m), fault.Wantf("%v, like Param", u.param))
		}
	}
	move := func(from, to int) {
		u.changes(from)
		u.changes(to)
		moveRow(u.param, u.width, from, to, 0)
		for i, m := range moments {
			moveRow(m, u.width, from, to, float32(initial[i]))
		}
	}
	fails := b.Str("at_bound") == "error"
	return func(context.Context) error {
		w, round := u.writer()
		if u.counts() {
			for _, key := range u.without(&w, false) {
				if !w.Count(key) && fails {
					return u.full(key)
				}
			}
		}
		begins := false // another time span of hours
		if u.days > 0 {
			hours := hoursOut.Int64s()
			latest, span := u.at(hours, u.step.Hour)
			begins = span != hours[1]
			hours[0], hours[1] = latest, span
		}
		keep := w.Region
		if u.evict {
			keep = w.Keep()
		}
		for region := w.First; region < w.First+w.Regions(); region++ {
			if begins || u.due(round, region) || u.evict && w.Full(region) {
				w.Evict(region, u.age(), keep, move)
			}
		}
		rounds.Int64s()[0] = round + 1
		return nil
	}, nil
}

// moveRow moves a row of a table to another one, and gives all elements of its own the value of a free row.
func moveRow(table *tensor.Tensor, width, from, to int, free float32) {
	if table.DType() == tensor.BFloat16 { // the values of a table, whose free rows are zeros
		moveElements(tensor.Data[uint16](table), width, from, to, 0)
		return
	}
	moveElements(table.Float32s(), width, from, to, free)
}

func moveElements[T kernel.Stored](elements []T, width, from, to int, free T) {
	last := elements[from*width:][:width]
	if from != to {
		copy(elements[to*width:][:width], last)
	}
	kernel.Fill(last, free)
}
