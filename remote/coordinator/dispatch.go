package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
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
			return &rpc.GetTaskResponse{Task: grant.Task, Next: grant.Next, EndOfPass: grant.EndOfPass, EndOfData: grant.EndOfData, Pending: grant.Wait,
				EndRound: (*uint64)(grant.EndRound)}, nil
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
		rank, since := id.Rank(m.Id.Rank), id.Generation(m.Id.Generation)
		for _, task := range finished {
			if _, err := t.step(m.Dataset, queue.TaskFinished{Rank: rank, Since: since, Task: task}); err != nil {
				s.cfg.Log.Warn("task report refused", "task", task.GetId(), "trainer", rank, "reason", err.Error()) // it is another's by now
			}
		}
		if m.ReportOnly {
			return nil
		}
		effects, err := t.step(m.Dataset, queue.TaskWanted{Rank: rank, Since: since, Request: m.Id.Round, Pass: m.Pass, Position: m.Position,
			Records: m.Records, Round: id.Round(m.Id.Round)})
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
	fail := queue.TaskFailed{Rank: id.Rank(m.Id.Rank), Since: id.Generation(m.Id.Generation), Task: m.Task, Reason: m.Reason}
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

// ReportDataset hands the message that comes in pieces to TakeDataset.
func (s *Server) ReportDataset(stream grpc.ClientStreamingServer[rpc.Piece, rpc.ReportDatasetResponse]) error {
	m := &rpc.ReportDatasetRequest{}
	var sender *rpc.Identity
	if err := wire.ReceiveFrom("trainer", stream, m, wire.MaxDataset, s.admitFirst(stream.Context(), &sender)); err != nil {
		return err
	}
	m.Id = sender
	if err := s.TakeDataset(stream.Context(), m); err != nil {
		return err
	}
	return stream.SendAndClose(&rpc.ReportDatasetResponse{})
}

// TakeDataset takes the list of files of a dataset. Every trainer reports; the first call counts, for all coordinators of the job, and a later one
// that differs is an error that names both.
func (s *Server) TakeDataset(ctx context.Context, m *rpc.ReportDatasetRequest) error {
	if err := s.admit(ctx, m.Id); err != nil {
		return err
	}
	name := m.Dataset.GetName()
	return s.transact(ctx, func(t *txn) error {
		q, ok := t.queues[name]
		if !ok {
			return t.create(queue.Dataset{Name: name, Files: m.Dataset.GetFiles()})
		}
		if slices.EqualFunc(q.Files(), m.Dataset.GetFiles(), func(a, b *rpc.DataFile) bool { return proto.Equal(a, b) }) {
			return nil
		}
		return fault.E(fault.InvalidArgument, fault.At("dataset "+fault.Quote(name)),
			fault.Got(describe(m.Dataset.GetFiles(), q.Files())+" from "+trainerName(m.Id.Rank)),
			fault.Want(describe(q.Files(), m.Dataset.GetFiles())+", as first reported"), fault.Hint("give every trainer the same files"))
	})
}

// create makes a queue.
func (t *txn) create(d queue.Dataset) error {
	q, effects, err := queue.New(t.server.cfg.queuePolicy(t.server.epoch), d)
	if err != nil {
		return err
	}
	t.queues[d.Name] = q
	t.enter(d.Name, effects)
	return nil
}

// describe tells what files have that others do not.
func describe(files, others []*rpc.DataFile) string {
	records, first := int64(0), ""
	for i, f := range files {
		records += f.Records
		if first == "" && (i >= len(others) || !proto.Equal(f, others[i])) {
			first = fmt.Sprintf(", of which %s has %d records in %d bytes", fault.Quote(f.Path), f.Records, f.Bytes)
			if i < len(others) && f.Path == others[i].GetPath() && f.Records == others[i].Records && f.Bytes == others[i].Bytes {
				first += fmt.Sprintf(" with fingerprint %016x", f.Fingerprint)
			}
		}
	}
	return fmt.Sprintf("%d records in %d files%s", records, len(files), first)
}

// ledgerTime bounds a question about the ledger outside of a change of members.
const ledgerTime = 10 * time.Second

// committed asks pserver 0 which records of a pass updates were computed from, when it has applied all rounds before round.
func (s *Server) committed(ctx context.Context, pass int32, round uint64) (committed ranges.Set, err error) {
	err = wire.Retry(ctx, func(uint32) error {
		ledger, err := wire.Ledger(ctx, serverName(0), s.cfg.Servers[0], &rpc.LedgerRequest{Job: s.cfg.Identity.Job, Ranges: true, Pass: pass})
		for _, p := range ledger.GetPasses() {
			if p.Pass == pass {
				committed = ranges.Of(wire.RangesOf(p.Committed)...)
			}
		}
		if err == nil && ledger.Round < round {
			err = fault.E(fault.Unavailable, fault.Gotf("the ledger of %d rounds", ledger.Round), fault.Want(fmt.Sprint(round)))
		}
		return err
	})
	return committed, err
}

func serverName(i int) string { return fmt.Sprintf("pserver %d", i) }

// beginSegment begins a new segment in queues that have had a failure: the servers have told how far the data was trained.
func (s *Server) beginSegment(ctx context.Context, g generation.Generation) error {
	for name, q := range s.copyQueues() {
		if !q.Regrouping() {
			continue
		}
		segment := q.Segment(id.Round(g.Round))
		committed, err := s.committed(ctx, segment.GetPass(), g.Round)
		if err != nil {
			return err
		}
		if err := s.happen(name, queue.Regrouped{Round: id.Round(g.Round), Pass: segment.GetPass(), Committed: committed}); err != nil {
			return err
		}
	}
	return nil
}

// recoverTasks returns the tasks of trainers that are gone, but for what of them the ledger has. The servers take no more from those trainers by now.
func (s *Server) recoverTasks(ctx context.Context, g generation.Generation) error {
	for name, q := range s.copyQueues() {
		for _, rank := range q.Holders() {
			lost := queue.TrainerLost{Rank: rank, Since: id.Generation(g.Number)}
			if member, ok := g.Member(uint32(rank)); ok {
				lost.Since = id.Generation(member.Since - 1) // the processes before the one that is a member
			}
			if err := s.recoverFrom(ctx, name, lost); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Server) recoverFrom(ctx context.Context, name string, lost queue.TrainerLost) error {
	s.mu.Lock()
	lost.Drained, lost.Reason = s.members.drained[uint32(lost.Rank)], s.members.reasons[uint32(lost.Rank)]
	s.mu.Unlock()
	for {
		lost.Pass = s.copyQueues()[name].Pass()
		var err error
		if lost.Committed, err = s.committed(ctx, lost.Pass, 0); err != nil {
			return err
		}
		err = s.happen(name, lost)
		if !errors.Is(err, fault.Stale) || s.copyQueues()[name].Pass() == lost.Pass { // stale: a pass has begun since
			return err
		}
	}
}

// copyQueues returns the queues as they are durable now. They must not be changed.
func (s *Server) copyQueues() map[string]*queue.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues
}
