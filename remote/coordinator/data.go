package coordinator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// ReportDataset takes the list of chunks of a dataset. Every trainer reports; the first call makes the tasks, and a later one that differs is
// an error that names both.
func (s *Server) ReportDataset(_ context.Context, m *rpc.ReportDatasetRequest) (*rpc.ReportDatasetResponse, error) {
	if err := s.admit(m.Id); err != nil {
		return nil, err
	}
	name := m.Dataset.GetName()
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.reports[name]; ok {
		if !proto.Equal(have, m.Dataset) {
			return nil, &fault.Fault{Kind: fault.InvalidArgument, Where: "dataset " + fault.Quote(name), Got: fmt.Sprintf("%s from trainer %d", describe(m.Dataset), m.Id.Rank),
				Want: describe(have) + ", as first reported", Hint: "give every trainer the same files"}
		}
		return &rpc.ReportDatasetResponse{}, nil
	}
	tasks, err := Partition(name, m.Dataset.GetChunks(), s.cfg.RecordsPerTask, s.cfg.Trainers)
	if err != nil {
		return nil, err
	}
	s.reports[name] = m.Dataset
	s.queues[name] = NewQueue(Policy{Broadcast: s.cfg.Sync, Trainers: s.cfg.Trainers, Passes: max(s.cfg.Passes, 1), MaxFailures: s.cfg.MaxFailures,
		MinTimeout: s.cfg.TaskTimeout[0], MaxTimeout: s.cfg.TaskTimeout[1]}, tasks)
	s.broadcast()
	return &rpc.ReportDatasetResponse{}, nil
}

func describe(d *rpc.Dataset) string {
	files, records := map[string]bool{}, int64(0)
	for _, c := range d.GetChunks() {
		files[c.Path] = true
		records += c.Records
	}
	return fmt.Sprintf("%d records in %d chunks of %d files", records, len(d.GetChunks()), len(files))
}

// finished enters the tasks that a trainer reports. One that has meanwhile been given to another is refused, logged, and does no
// harm to the others.
func (s *Server) finished(m *rpc.GetTaskRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, ok := s.queues[m.Dataset]
	if !ok {
		return &fault.Fault{Kind: fault.NotFound, Where: "dataset " + fault.Quote(m.Dataset), Got: "a request before the dataset was reported"}
	}
	for _, t := range m.Finished {
		if err := q.Finish(int(m.Id.Rank), t, s.now()); err != nil {
			s.cfg.Log.Warn("task report refused", "task", t.Id, "trainer", m.Id.Rank, "reason", err.Error())
		}
	}
	if len(m.Finished) > 0 {
		s.broadcast()
	}
	return nil
}

// GetTask reports finished tasks and returns the next one, waiting while what is left of the pass is pending elsewhere.
func (s *Server) GetTask(ctx context.Context, m *rpc.GetTaskRequest) (*rpc.GetTaskResponse, error) {
	if err := s.admit(m.Id); err != nil {
		return nil, err
	}
	if r := s.answered(m); r != nil {
		return r, nil
	}
	if err := s.finished(m); err != nil || m.ReportOnly {
		return s.answer(m, &rpc.GetTaskResponse{}), err
	}
	var grant Grant
	var err error
	werr := s.await(ctx, fmt.Sprintf("the tasks of pass %d that others have", m.Pass), func() bool {
		q, ok := s.queues[m.Dataset]
		if !ok {
			err = &fault.Fault{Kind: fault.NotFound, Where: "dataset " + fault.Quote(m.Dataset), Got: "a request before the dataset was reported"}
			return true
		}
		grant, err = q.Get(int(m.Id.Rank), m.Pass, s.now())
		return err != nil || !grant.Wait || !m.Wait
	})
	if werr != nil {
		return nil, werr
	}
	if err != nil {
		return nil, err
	}
	if grant.Timeout > 0 {
		s.watchTask(m.Dataset, grant)
	}
	return s.answer(m, &rpc.GetTaskResponse{Task: grant.Task, EndOfPass: grant.EndOfPass, EndOfData: grant.EndOfData, Pending: grant.Wait}), nil
}

// lastAnswer is what a trainer was last answered to GetTask. A trainer that repeats a request because the answer was lost is answered the
// same, or it would skip a task.
type lastAnswer struct {
	number   uint64 // of the request: id.round
	response *rpc.GetTaskResponse
}

func (s *Server) answered(m *rpc.GetTaskRequest) *rpc.GetTaskResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.answers[m.Id.Rank]; last.response != nil && last.number == m.Id.Round {
		return last.response
	}
	return nil
}

func (s *Server) answer(m *rpc.GetTaskRequest, r *rpc.GetTaskResponse) *rpc.GetTaskResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[m.Id.Rank] = lastAnswer{m.Id.Round, r}
	return r
}

// watchTask returns a task to the queue when its trainer takes too long.
func (s *Server) watchTask(dataset string, g Grant) {
	time.AfterFunc(g.Timeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ended {
			return
		}
		late, discarded := s.queues[dataset].Timeout(g.Task.Id, g.Task.Epoch)
		if late {
			s.cfg.Log.Warn("task took too long", "dataset", dataset, "task", g.Task.Id, "dispatch", g.Task.Epoch, "timeout", g.Timeout, "discarded", discarded)
			s.broadcast()
		}
	})
}

// TaskFailed returns a task that its trainer cannot do.
func (s *Server) TaskFailed(_ context.Context, m *rpc.TaskFailedRequest) (*rpc.TaskFailedResponse, error) {
	if err := s.admit(m.Id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, ok := s.queues[m.Task.GetDataset()]
	if !ok {
		return nil, &fault.Fault{Kind: fault.NotFound, Where: "dataset " + fault.Quote(m.Task.GetDataset())}
	}
	discarded, err := q.Failed(int(m.Id.Rank), m.Task)
	if err == nil {
		s.cfg.Log.Warn("task failed", "task", m.Task.Id, "trainer", m.Id.Rank, "reason", m.Reason, "discarded", discarded)
		s.broadcast()
	}
	return &rpc.TaskFailedResponse{}, err
}

// Queues tells the length of each queue and what is waited for.
func (s *Server) Queues(context.Context, *rpc.QueuesRequest) (*rpc.QueuesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &rpc.QueuesResponse{}
	for name, q := range s.queues {
		c := q.Counts()
		r.Queues = append(r.Queues, &rpc.QueueStatus{Dataset: name, Pass: int32(c.Pass), Todo: int64(c.Todo), Pending: int64(c.Pending), Done: int64(c.Done), Discarded: int64(c.Discarded)})
	}
	for reason, since := range s.waits {
		r.Waiting = append(r.Waiting, fmt.Sprintf("%s, for %v", *reason, time.Since(since).Round(time.Millisecond)))
	}
	slices.Sort(r.Waiting)
	slices.SortFunc(r.Queues, func(a, b *rpc.QueueStatus) int {
		if a.Dataset < b.Dataset {
			return -1
		}
		return 1
	})
	return r, nil
}
