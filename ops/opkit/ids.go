package opkit

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
)

// CheckIDs reports the first id of variable that is no row of a table with so many rows. ids[0] belongs to row first of the batch. Kernels on rows call it
// when they run, because ids come from outside.
func CheckIDs(op *program.Op, variable string, ids []int64, first int, rows int64) error {
	at := kernel.FirstBadID(ids, rows)
	if at < 0 {
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(variable),
		fault.Gotf("id %d in row %d", ids[at], first+at), fault.Wantf("0 to %d, the rows of the table", rows-1))
}
