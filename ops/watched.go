package ops

import (
	"github.com/edl-go/edl/program"
)

// A metric over chosen rows, and what such rows do to the moving statistics of batch_norm, weigh by how many rows a trainer has chosen. That is no number by which all that
// trainers send could be weighed. The same holds for moving statistics over words beside ones over records, as those of DeepSpeech2. So trainers share these, too, with the totals of the loss: all have the metric of the batch then, and the same moving statistics.
//
//	batch_norm -> mean    becomes    batch_norm -> mean.part -> share_totals -> mean.total -> assign -> mean

// watched returns the totals over chosen rows that an op makes and that the loss, which is computed from needed, does not go through.
func (r totalling) watched(op *program.Op, needed map[string]bool) (totals []total) {
	if r.shares == nil && !r.apart {
		return nil
	}
	watch := func(over, out string, mean bool) {
		m, ok := r.typeOf(out)
		if choiceOf(r.reductions, over) == "" && !(r.apart && op.Type == "batch_norm" && !isRecords(r.reductions, over)) || out == "" || out == program.Empty || !ok || !m.DType.IsFloat() || Product(m.Dims) < 1 || !r.records.once(out) {
			return
		}
		totals = append(totals, total{op: op, over: over, out: out, mean: mean, late: true, watched: true})
	}
	switch op.Type {
	case "batch_norm":
		def, _ := Lookup(op.Type)
		if def.Leaves(op) != nil {
			return nil // they stay as they are
		}
		for _, slot := range []string{"MeanOut", "VarianceOut"} {
			if r.isState(op.Out(slot)) {
				watch(op.In("X"), op.Out(slot), true)
			}
		}
	case "accuracy":
		if !needed[op.Out("Accuracy")] {
			watch(op.In("Label"), op.Out("Accuracy"), true)
		}
	default:
		if t, ok := r.totalBy(op); ok && !needed[t.out] && r.isScalar(t.out) && choiceOf(r.reductions, t.over) != "" && !r.isState(t.out) {
			watch(t.over, t.out, t.mean)
		}
	}
	return totals
}

// watches reports whether there are such totals.
func (r totalling) watches() bool {
	for _, op := range r.forward {
		if len(r.watched(op, nil)) > 0 {
			return true
		}
	}
	return false
}

// isState reports whether a variable lives from step to step.
func (r totalling) isState(name string) bool {
	v, ok := r.block.Find(name)
	return ok && v.Persistable
}

// drawn names the chosen rows for which dropout draws.
func (r totalling) drawn() map[string]bool {
	rows := map[string]bool{}
	for _, op := range r.forward {
		if op.Type == "dropout" && choiceOf(r.reductions, op.In("X")) != "" {
			rows[op.In("X")] = true
		}
	}
	return rows
}
