package transpiler

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// shareTotals makes those who have parts of a batch share the sums and means over it that the loss is a function of: trainers of a sync job, and devices of a trainer. An
// async trainer without devices has whole batches of its own, and shares nothing. Where backup trainers may drop contributions, nobody knows before the backward pass
// which rows the totals have to be of. A loss that needs them is refused there.
func shareTotals(s *state) error {
	if !slices.ContainsFunc(s.source.Global().Ops, func(op *program.Op) bool { return op.Role().Has(program.RoleOptimize) }) {
		return nil
	}
	if !s.cfg.Backups {
		var err error
		s.source, err = ops.ShareTotals(s.source)
		return err
	}
	op, err := ops.NeedsTotals(s.source)
	if op != nil {
		err = fault.E(fault.Unsupported, fault.On(op), fault.Got("a loss for which trainers share sums and means over the batch, with backup trainers: which rows count is not known before the backward pass"),
			fault.Want("a job without backup trainers"), fault.Hint("leave out --backup-trainers, or end the loss with one mean over the batch"))
	}
	return err
}
