package transpiler

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A trainer may have several devices, which share its rows of a batch. Each runs the first half of the trainer's program on its part of the rows, and the first
// one alone the rest:
//
//	forward, backward        all devices; prefetch of rows of tables, and split_selected_rows, which ends it
//	merge_devices            dense gradients G -> G.merged, forward state S -> S.merged
//	clip, compress, split    the first device, of what is merged
//	send                     what is merged; rows of tables, which the trainer merges when it sends them
//	barriers, recv, concat   as with one device: all devices have the same parameters in the same memory
//
// So a gradient is clipped, rounded or selected from once, after it is merged. Nothing is sent before all devices have ended their backward passes.

// mergeDevices writes the trainer's program up to its sends. originals are copies of the ops of the nodes.
func (w *trainerWriter) mergeDevices(originals []*program.Op) error {
	var after []int // nodes that run on what is merged
	for i, n := range w.nodes {
		if originals[i].Role().Has(program.RoleOptimize) && staysOnTrainer(w.state, n) {
			after = append(after, i)
			continue
		}
		if err := w.checkDevices(n); err != nil {
			return err
		}
		if err := w.write(n, originals[i]); err != nil {
			return err
		}
	}
	first := len(w.block.Ops)
	if err := w.appendMerge(after); err != nil {
		return err
	}
	for _, i := range after {
		for _, names := range originals[i].Inputs {
			for k := range names {
				names[k] = w.own(names[k])
			}
		}
		if err := w.write(w.nodes[i], originals[i]); err != nil {
			return err
		}
	}
	for _, n := range w.nodes {
		if err := w.sendsAfter(n); err != nil {
			return err
		}
	}
	var split, rest []*program.Op // each device sums the rows of its own sparse gradients
	for _, op := range w.block.Ops[first:] {
		if op.Type == "split_selected_rows" {
			split = append(split, op)
		} else {
			rest = append(rest, op)
		}
	}
	w.block.Ops = slices.Concat(w.block.Ops[:first], split, rest)
	return nil
}

// checkDevices refuses an op of the first half that reads what an update before it has computed.
func (w *trainerWriter) checkDevices(n *node) error {
	if !staysOnTrainer(w.state, n) {
		return nil
	}
	for _, name := range n.reads {
		for _, by := range w.use(name).writers {
			if by.duty == dutyUpdate && by.at < n.at {
				return unsupported(n, name, "an op after the update that reads a parameter, in a job with devices", "all ops that read parameters before the update",
					"leave out --devices, or evaluate with a program of its own")
			}
		}
	}
	return nil
}

// appendMerge appends the op that merges what the devices have computed: contributions, and what nodes read that run after it.
func (w *trainerWriter) appendMerge(after []int) error {
	op := newOp("merge_devices", program.RoleDist, "", slots{}, slots{})
	runsAfter := func(n *node) bool { return slices.ContainsFunc(after, func(i int) bool { return w.nodes[i] == n }) }
	add := func(in, out, name string) {
		v := w.variable(name).Copy(w.state.names.free(name + ".merged"))
		v.Persistable, v.IsParameter, v.StopGradient = false, false, true
		w.block.EnsureVar(v)
		w.merged[name] = v.Name
		op.Inputs[in], op.Outputs[out] = append(op.Inputs[in], name), append(op.Outputs[out], v.Name)
	}
	for _, n := range w.nodes {
		for _, c := range w.produced[n] {
			if c.forward == nil && !runsAfter(n) && w.merged[c.gradient] == "" && !w.travelsByRows(c.gradient) {
				add("X", "Out", c.gradient)
			}
		}
	}
	for _, i := range after {
		for _, name := range w.nodes[i].reads {
			writers := w.use(name).writers
			if len(writers) == 0 || w.merged[name] != "" || slices.ContainsFunc(writers, runsAfter) {
				continue
			}
			if w.travelsByRows(name) {
				return unsupported(w.nodes[i], name, "a sparse gradient that trainers with devices clip", "sync mode, in which servers clip, or dense gradients",
					"leave out --devices, or look the table up without layers.Sparse")
			}
			add("X", "Out", name)
		}
	}
	var merges []int32
	for _, f := range w.forward {
		add("State", "StateOut", f.name)
		merges = append(merges, int32(f.merge))
	}
	op.SetAttr("merge", int32(max(w.state.merge, ops.MergeMean))) // no gradients: any
	op.SetAttr("state_merges", merges)
	w.block.Append(op)
	return nil
}
