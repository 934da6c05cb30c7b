package coordinator

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// GetTask reports finished tasks and returns the next one, waiting, if it is asked to, while what is left of the pass is pending elsewhere.
func (s *Server) GetTask(ctx context.Context, m *rpc.GetTaskRequest) (*rpc.GetTaskResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	w := waiting{who: trainerName(m.Id.Rank), what: fmt.Sprintf("the tasks of pass %d that others have", m.Pass), by: func() (names []string) {
		for _, rank := range s.queues[m.Dataset].Holders() {
			names = append(names, trainerName(uint32(rank)))
		}
		return names
	}}
	if q := s.copyQueues()[m.Dataset]; q != nil && q.Following() {
		w.idle = "new files of dataset " + fault.Quote(m.Dataset)
	}
	for finished := m.Finished; ; finished = nil {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		grant, err := s.get(ctx, m, finished)
		switch {
		case err != nil:
			return nil, err
		case !grant.Wait || !m.Wait || m.ReportOnly:
			return &rpc.GetTaskResponse{Task: grant.Task, Next: grant.Next, EndOfPass: grant.EndOfPass, EndOfData: grant.EndOfData, Pending: grant.Wait}, nil
		}
		err = s.await(ctx, w, func() (bool, error) {
			select {
			case <-changed:
				return true, nil
			default:
				return false, nil
			}
		})
		if err != nil {
			return nil, err
		}
	}
}

// get is GetTask without waiting.
func (s *Server) get(ctx context.Context, m *rpc.GetTaskRequest, finished []*rpc.Task) (queue.Grant, error) {
	var grant queue.Grant
	err := s.transact(ctx, func(t *txn) error {
		s.mu.Lock()
		err := s.isMember(m.Id)
		s.mu.Unlock()
		if err != nil {
			return err
		}
		rank, incarnation := int(m.Id.Rank), m.Id.Generation
		for _, task := range finished {
			if _, err := t.step(m.Dataset, queue.TaskFinished{Rank: rank, Incarnation: incarnation, Task: task}); err != nil {
				s.cfg.Log.Warn("task report refused", "task", task.GetId(), "trainer", rank, "reason", err.Error()) // it is another's by now
			}
		}
		if m.ReportOnly {
			return nil
		}
		effects, err := t.step(m.Dataset, queue.TaskWanted{Rank: rank, Incarnation: incarnation, Request: m.Id.Round, Pass: m.Pass, Position: m.Position,
			Records: m.Records, Round: m.Id.Round})
		grant = effects.Grant
		return err
	})
	if err != nil { // the request may still be under way
		return queue.Grant{}, err
	}
	return grant, nil
}

// TaskFailed takes a task back that a trainer cannot do.
func (s *Server) TaskFailed(ctx context.Context, m *rpc.TaskFailedRequest) (*rpc.TaskFailedResponse, error) {
	if err := s.admit(ctx, m.Id); err != nil {
		return nil, err
	}
	fail := queue.TaskFailed{Rank: int(m.Id.Rank), Incarnation: m.Id.Generation, Task: m.Task, Reason: m.Reason}
	if !s.cfg.Sync {
		var err error
		if fail.Committed, err = s.committed(ctx, m.Task.GetPass(), 0); err != nil {
			return nil, err
		}
	}
	err := s.transact(ctx, func(t *txn) error {
		s.mu.Lock()
		err := s.isMember(m.Id)
		s.mu.Unlock()
		if err != nil {
			return err
		}
		effects, err := t.step(m.Task.GetDataset(), fail)
		if err == nil && effects.Regroup {
			t.then(func() { _ = s.step(generation.Change{}) })
		}
		return err
	})
	return &rpc.TaskFailedResponse{}, err
}
