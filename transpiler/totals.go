package transpiler

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// shareTotals makes trainers of a sync job share the sums and means over the batch that the loss is a function of. Rounds whose contributions may be dropped, and
// devices of one trainer, share none: a loss that needs them is refused there.
func shareTotals(s *state) error {
	if !slices.ContainsFunc(s.source.Global().Ops, func(op *program.Op) bool { return op.Role().Has(program.RoleOptimize) }) {
		return nil
	}
	setting := ""
	switch {
	case s.cfg.Mode != Sync:
		setting = "async mode"
	case s.cfg.Devices:
		setting = "trainers with devices"
	case s.cfg.Backups:
		setting = "backup trainers"
	default:
		var err error
		s.source, err = ops.ShareTotals(s.source)
		return err
	}
	op, err := ops.NeedsTotals(s.source)
	if op != nil {
		err = fault.E(fault.Unsupported, fault.On(op), fault.Got("a loss for which trainers share sums and means over the batch, with "+setting),
			fault.Want("a sync job without devices and backup trainers"), fault.Hint("leave out that setting, or end the loss with one mean over the batch"))
	}
	return err
}
