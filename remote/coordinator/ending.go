package coordinator

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/waits"
)

// ending decides when a job that is not failed ends, and who saves its model.
type ending struct {
	*core
	store   *store
	members *members
	steps   *steps
	feeds   *feeds
}

// finishJob lets the job end in good order.
func (e *ending) finishJob(ctx context.Context, m *rpc.FinishDataRequest) (*rpc.FinishDataResponse, error) {
	err := e.await(ctx, waitFor("the user", "the first generation"), func() (bool, error) { return e.feeds.generation.Number > 0, nil })
	if err != nil {
		return nil, err
	}
	r := &rpc.FinishDataResponse{}
	err = e.store.transact(ctx, func(t *txn) error {
		t.then(func() {
			e.feeds.finished = true
			r.Steps = e.feeds.first + e.feeds.accepted
		})
		return t.put(finishedKey, &state.Finished{})
	})
	return r, err
}

// requestSave elects the first trainer that asks, and answers it when all others have left: then nothing changes the model any more. The same trainer
// asking again is told the same, so that a repeated message does no harm. When the one that was elected is lost for good another is.
func (e *ending) requestSave(ctx context.Context, m *rpc.SaveModelRequest) (*rpc.SaveModelResponse, error) {
	rank := m.Id.Rank
	granted := false
	err := e.store.transact(ctx, func(t *txn) error {
		e.monitor.Lock()
		defer e.monitor.Unlock()
		if err := e.members.isMember(m.Id); err != nil {
			return err
		}
		saver := e.members.saver
		if t.saver != nil { // elected by a request before this one
			saver = t.saver
		}
		if saver != nil && (*saver == rank || e.members.machine.Saves(*saver)) {
			granted = *saver == rank
			return nil
		}
		granted, t.saver = true, &rank
		t.then(func() { e.members.saver = &rank })
		return t.put(saverKey, &state.Saver{Rank: rank})
	})
	if err != nil || !granted {
		return &rpc.SaveModelResponse{}, err
	}
	others := func() []uint32 { return e.members.machine.Others(rank) }
	reason := func() waits.Wait {
		w := waits.Wait{Who: trainerName(rank), What: "the other trainers to finish, before the model is saved"}
		for _, other := range others() {
			w.By = append(w.By, trainerName(other))
		}
		return w
	}
	err = e.await(ctx, reason, func() (bool, error) { return len(others()) == 0, e.members.isMember(m.Id) })
	return &rpc.SaveModelResponse{Granted: true}, err
}

var _ = fault.OK
