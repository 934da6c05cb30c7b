package comm

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:  "merge_devices",
		Class: ops.Dist,
		Doc: "Waits until all devices of the trainer have computed their parts of its rows, and merges their gradients X and their state State, in the order of " +
			"devices. A trainer with one device copies its own. What a trainer sends comes after it. Fluid has an all_reduce of the gradients of its places.",
		Inputs: []ops.Slot{{Name: "X", Doc: "gradients of this device, dense", Duplicable: true, Dispensable: true},
			{Name: "State", Doc: "persistable variables that the forward pass updates", Duplicable: true, Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the merge of each X", Duplicable: true, Dispensable: true},
			{Name: "StateOut", Doc: "the merge of each State", Duplicable: true, Dispensable: true}},
		Attrs: []ops.Attr{
			{Name: "merge", Default: int32(ops.MergeMean), Doc: "how gradients merge: 1 mean weighted by rows, 2 sum", Check: checkMerge},
			{Name: "state_merges", Default: []int32{}, Doc: "how each State merges: 1 mean weighted by rows, 2 sum of the changes, 3 the first"},
		},
		Infer: inferMergeDevices,
		Bind:  bindMergeDevices,
	})
}

func inferMergeDevices(s *ops.Shapes) error {
	for _, slots := range [][2]string{{"X", "Out"}, {"State", "StateOut"}} {
		in, out := s.Ins(slots[0]), s.Outs(slots[1])
		if len(in) != len(out) {
			return fault.E(fault.InvalidProgram, fault.Gotf("%d %s and %d %s", len(in), slots[0], len(out), slots[1]), fault.Want("one of each other"))
		}
		for i, m := range in {
			if m.Kind != program.LoDTensor {
				return s.Errorf(slots[0], "dense tensors")
			}
			s.SetAt(slots[1], i, m)
		}
	}
	if len(s.Ints("state_merges")) != len(s.Ins("State")) {
		return opkit.BadAttr(s, "state_merges", "%d numbers, one for each State", len(s.Ins("State")))
	}
	for _, merge := range s.Ints("state_merges") {
		if !mergeable(merge) {
			return opkit.BadAttr(s, "state_merges", "1, 2 or 3 for each State")
		}
	}
	return nil
}

func bindMergeDevices(b *ops.Binding) (ops.Kernel, error) {
	comm, err := wire(b)
	if err != nil {
		return nil, err
	}
	merger, ok := comm.(ops.DeviceMerger)
	if !ok {
		return nil, needsCluster("a connection without devices")
	}
	all := make([]ops.DeviceMessage, 0, len(b.Ins("X"))+len(b.Ins("State")))
	add := func(slot string, outs []*tensor.Tensor, merge func(i int) ops.Merge) error {
		for i, value := range b.Ins(slot) {
			if i >= len(outs) || outs[i] == nil || value == nil || outs[i].DType() != value.DType() || outs[i].Len() != value.Len() {
				return errors.New("an output that is not like its input")
			}
			all = append(all, ops.DeviceMessage{Name: b.Op().Inputs[slot][i], Merge: merge(i), State: slot == "State", Value: value, Into: outs[i]})
		}
		return nil
	}
	merges := b.Ints("state_merges")
	if err = add("X", b.Outs("Out"), func(int) ops.Merge { return ops.Merge(b.Int("merge")) }); err == nil {
		err = add("State", b.Outs("StateOut"), func(i int) ops.Merge { return ops.Merge(merges[i]) })
	}
	if err != nil {
		return nil, fault.E(fault.ShapeMismatch, fault.Cause(err))
	}
	step := b.Env.Step
	return func(ctx context.Context) error { return merger.MergeDevices(ctx, step, all) }, nil
}
