package transpiler

import (
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// shareTotals makes those who have parts of a batch share the sums and means over it that the loss is a function of: trainers of a sync job, and devices of a trainer. An
// async trainer without devices has whole batches of its own, and shares nothing. Where backup trainers may drop contributions, nobody knows before the backward pass
// which rows the totals have to be of. A loss that needs them is refused there.
func shareTotals(s *state) error {
	if !dividesBatches(s) || !slices.ContainsFunc(s.source.Global().Ops, func(op *program.Op) bool { return op.Role().Has(program.RoleOptimize) }) {
		return nil
	}
	if !s.cfg.Backups {
		shared, err := ops.ShareTotals(s.source)
		if err != nil {
			return hintWhole(s, err)
		}
		s.source = shared
		return nil
	}
	op, err := ops.NeedsTotals(s.source)
	if err != nil {
		return hintWhole(s, err)
	}
	if op != nil {
		err = fault.E(fault.Unsupported, fault.On(op), fault.Got("a loss for which trainers share sums and means over the batch, with backup trainers: which rows count is not known before the backward pass"),
			fault.Want("a job without backup trainers"), fault.Hint("leave out --backup-trainers, or end the loss with one mean over the batch"))
	}
	return err
}

// dividesBatches reports whether trainers, or devices of a trainer, have parts of a batch. An async trainer without devices has whole batches of its own: there a loss may be
// whatever one machine trains.
func dividesBatches(s *state) bool { return s.cfg.Mode == Sync || s.cfg.Devices }

// hintWhole adds to the refusal of a program whose batches cannot be divided how a cluster trains it.
func hintWhole(s *state, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Unsupported {
		return err
	}
	hint := "train it in async mode (--mode async), in which each trainer has whole batches of its own"
	switch {
	case s.cfg.Mode == Async:
		hint = "leave out --devices: each trainer of an async job has whole batches then"
	case s.cfg.Devices:
		hint = "train it in async mode without devices (--mode async, no --devices), in which each trainer has whole batches of its own"
	}
	hinted := *f
	if hinted.Hint = hint; f.Hint != "" {
		hinted.Hint += "; or " + f.Hint
	}
	return &hinted
}
