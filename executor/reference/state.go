package reference

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// snapshot copies the state that the forward half writes.
func (e *Executor) snapshot() map[string]*tensor.Tensor {
	values := map[string]*tensor.Tensor{}
	for _, s := range e.split.state {
		if t, ok := e.Scope().Find(s.name); ok {
			values[s.name] = t.Clone()
		}
	}
	return values
}

func (e *Executor) restore(old map[string]*tensor.Tensor) error {
	for name, t := range old {
		if err := e.Scope().Set(name, t); err != nil {
			return err
		}
	}
	return nil
}

// mergeState makes one state of what the ranks computed. State that its op gives no rule for is that of the first rank.
func (e *Executor) mergeState(shares []share, old map[string]*tensor.Tensor) error {
	for _, s := range e.split.state {
		merged := shares[0].values[s.name]
		if s.merge != ops.MergeNone && len(shares) > 1 {
			merged = merged.Clone()
			if err := merge.State(merged, old[s.name], sharesOf(shares, s.name), s.merge); err != nil {
				return fault.E(fault.KindOf(err), fault.Var(s.name), fault.Cause(err))
			}
		}
		if err := e.Scope().Set(s.name, merged); err != nil {
			return err
		}
	}
	return nil
}

func sharesOf(shares []share, name string) []merge.Share {
	list := make([]merge.Share, len(shares))
	for i, s := range shares {
		list[i] = merge.Share{Value: s.values[name], Rows: s.rows}
	}
	return list
}
