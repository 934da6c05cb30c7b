package coordinator

import (
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// A request that fails when it has changed everything that a transaction has leaves nothing of that to the requests after it.
func TestFailedRequestChangesNothing(t *testing.T) {
	first, second := uint32(1), uint32(2)
	elect := func(rank *uint32, err error) *op {
		return &op{apply: func(t *txn) error {
			t.saver = rank
			t.queues["d"] = nil
			t.notes = append(t.notes, note{})
			t.then(func() {})
			if err := t.put(saverKey, &state.Saver{Rank: *rank}); err != nil {
				return err
			}
			return err
		}}
	}
	for name, before := range map[string][]*op{"alone": nil, "after another": {elect(&first, nil)}} {
		txn := &txn{queues: map[string]*queue.Queue{}, keys: map[string]bool{}}
		for _, o := range before {
			txn.apply(o)
		}
		saver, n := txn.saver, len(before)
		failing := elect(&second, fault.New(fault.Internal, "failed"))
		if txn.apply(failing); failing.err == nil {
			t.Errorf("%s: the request did not fail", name)
		}
		if txn.saver != saver || len(txn.changes) != n || len(txn.notes) != n || len(txn.after) != n || len(txn.queues) != n || len(txn.keys) != n {
			t.Errorf("%s: the request that failed has left %+v", name, txn)
		}
		var last []cluster.Change = distinct(txn.changes)
		if len(last) != n {
			t.Errorf("%s: %d changes are written", name, len(last))
		}
	}
}
