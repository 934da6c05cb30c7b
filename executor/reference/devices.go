package reference

import (
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/tensor"
)

// devicesOf is how many devices each trainer has in the round.
func (r *round) devicesOf() int64 {
	if !r.trains() || r.devices == nil {
		return 1
	}
	return int64(max(1, r.devices(r.number)))
}

// mergeDevices makes one share of those of the devices of each trainer. Devices without rows have no share.
func (r *round) mergeDevices(shares []share, old map[string]*tensor.Tensor, fetch []string) (out []share, err error) {
	for len(shares) > 0 {
		n := 1
		for n < len(shares) && shares[n].trainer == shares[0].trainer {
			n++
		}
		of := shares[:n]
		shares = shares[n:]
		one := share{trainer: of[0].trainer, void: true, values: map[string]*tensor.Tensor{}}
		for _, s := range of {
			one.rows, one.weight, one.void = one.rows+s.rows, one.weight+s.weight, one.void && s.void
		}
		for _, name := range r.wantedFromForward(fetch) {
			if one.values[name], err = r.ofDevices(name, of, one.rows); err != nil {
				return nil, err
			}
		}
		for _, s := range r.state {
			if one.values[s.name], err = s.of(of, old); err != nil {
				return nil, err
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// ofDevices merges what the devices of a trainer have computed of a variable: by the rule for gradients if the update reads it, and else by that for what is
// fetched. rows are those of the trainer.
func (r *round) ofDevices(name string, of []share, rows int64) (*tensor.Tensor, error) {
	if len(of) == 1 {
		return of[0].values[name], nil
	}
	if slices.Contains(r.crosses, name) {
		merged, err := r.forms.copyOf(name, of[0].values[name])
		if err != nil {
			return nil, err
		}
		if err := merge.Gradients(merged, sharesOf(of, name), r.merge); err != nil {
			return nil, fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
		}
		return merged, nil
	}
	declared, _ := r.program.Global().Find(name)
	parts := make([]executor.Part, len(of))
	for i, s := range of {
		parts[i] = executor.Part{Value: s.values[name], Rows: s.rows, Weight: s.weight}
	}
	return executor.MergeFetch(declared, r.fetches.Of(name), r.fetches.Along(name), rows, parts)
}
