package coordinator

import (
	"context"
	"fmt"
	"slices"

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
	tasks, err := Partition(name, m.Dataset.GetFiles(), s.cfg.RecordsPerTask, s.cfg.Trainers)
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
	for _, c := range d.GetFiles() {
		files[c.Path] = true
		records += c.Records
	}
	return fmt.Sprintf("%d records in %d chunks of %d files", records, len(d.GetFiles()), len(files))
}

// GetTask reports finished tasks and returns the next one, waiting while what is left of the pass is pending elsewhere.
func (s *Server) GetTask(ctx context.Context, m *rpc.GetTaskRequest) (*rpc.GetTaskResponse, error) {
	if err := s.admit(m.Id); err != nil {
		return nil, err
	}
	asked, err := s.hearRequest(m)
	if err != nil {
		return nil, err
	}
	var reply *rpc.GetTaskResponse
	werr := s.await(ctx, fmt.Sprintf("the tasks of pass %d that others have", m.Pass), func() bool {
		reply, err = s.reply(m, asked)
		return reply != nil || err != nil
	})
	if werr != nil {
		return nil, werr
	}
	return reply, err
}

// request is the last one of a trainer to GetTask. A trainer that repeats it, because the answer was lost, is answered the same, or it would
// skip a task; its reports count once, though the call that was cut may still be waiting here.
type request struct {
	number   uint64 // id.round
	response *rpc.GetTaskResponse
}

// hearRequest enters the tasks that a request reports, unless it is repeated. A task that has meanwhile been given to another is refused, logged, and
// does no harm to the others.
func (s *Server) hearRequest(m *rpc.GetTaskRequest) (*request, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, ok := s.queues[m.Dataset]
	if !ok {
		return nil, &fault.Fault{Kind: fault.NotFound, Where: "dataset " + fault.Quote(m.Dataset), Got: "a request before the dataset was reported"}
	}
	last := s.requests[m.Id.Rank]
	switch {
	case last != nil && m.Id.Round == last.number:
		return last, nil
	case last != nil && m.Id.Round < last.number:
		return nil, &fault.Fault{Kind: fault.Stale, Got: fmt.Sprintf("request %d of trainer %d", m.Id.Round, m.Id.Rank), Want: fmt.Sprintf("request %d or later", last.number)}
	}
	for _, t := range m.Finished {
		if err := q.Finish(int(m.Id.Rank), t, s.now()); err != nil {
			s.cfg.Log.Warn("task report refused", "task", t.Id, "trainer", m.Id.Rank, "reason", err.Error())
			continue
		}
		s.timers.stop(m.Dataset, t.Id)
	}
	if len(m.Finished) > 0 {
		s.broadcast()
	}
	last = &request{number: m.Id.Round}
	s.requests[m.Id.Rank] = last
	return last, nil
}

// reply answers a request, or returns nil when it has to wait. s.mu is held.
func (s *Server) reply(m *rpc.GetTaskRequest, asked *request) (*rpc.GetTaskResponse, error) {
	switch {
	case asked.response != nil:
		return asked.response, nil
	case s.requests[m.Id.Rank] != asked:
		return nil, &fault.Fault{Kind: fault.Stale, Got: fmt.Sprintf("request %d of trainer %d, which has made another", m.Id.Round, m.Id.Rank)}
	case m.ReportOnly:
		asked.response = &rpc.GetTaskResponse{}
		return asked.response, nil
	}
	grant, err := s.queues[m.Dataset].Get(int(m.Id.Rank), m.Pass, s.now())
	if err != nil || grant.Wait && m.Wait {
		return nil, err
	}
	if grant.Timeout > 0 {
		s.watchTask(m.Dataset, grant)
	}
	asked.response = &rpc.GetTaskResponse{Task: grant.Task, EndOfPass: grant.EndOfPass, EndOfData: grant.EndOfData, Pending: grant.Wait}
	return asked.response, nil
}

// watchTask returns a task to the queue when its trainer takes too long. s.mu is held.
func (s *Server) watchTask(dataset string, g Grant) {
	s.timers.start(dataset, g.Task.Id, g.Timeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ended {
			return
		}
		q := s.queues[dataset]
		late, discarded := q.Timeout(g.Task.Id, g.Task.Epoch)
		if !late {
			return
		}
		s.cfg.Log.Warn("task took too long", "dataset", dataset, "task", g.Task.Id, "dispatch", g.Task.Epoch, "timeout", g.Timeout, "discarded", discarded)
		if q.Exhausted() {
			s.finish(exhausted(fault.DeadlineExceeded, dataset, fmt.Sprintf("the last one took longer than %v", g.Timeout)))
		}
		s.broadcast()
	})
}

// exhausted is why a job ends of whose dataset every task was discarded.
func exhausted(kind fault.Kind, dataset, last string) error {
	return &fault.Fault{Kind: kind, Where: "dataset " + fault.Quote(dataset), Got: "no task that any trainer could do; " + last, Hint: "look at the trainers' logs"}
}

// TaskFailed returns a task that its trainer cannot do.
func (s *Server) TaskFailed(_ context.Context, m *rpc.TaskFailedRequest) (*rpc.TaskFailedResponse, error) {
	if err := s.admit(m.Id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dataset := m.Task.GetDataset()
	q, ok := s.queues[dataset]
	if !ok {
		return nil, &fault.Fault{Kind: fault.NotFound, Where: "dataset " + fault.Quote(dataset), Got: "a task before the dataset was reported"}
	}
	discarded, err := q.Failed(int(m.Id.Rank), m.Task)
	if err != nil {
		return nil, err
	}
	s.timers.stop(dataset, m.Task.Id)
	s.cfg.Log.Warn("task failed", "task", m.Task.Id, "trainer", m.Id.Rank, "reason", m.Reason, "discarded", discarded)
	if q.Exhausted() {
		s.finish(exhausted(fault.Corrupt, dataset, fmt.Sprintf("trainer %d says of the last one: %s", m.Id.Rank, m.Reason)))
	}
	s.broadcast()
	return &rpc.TaskFailedResponse{}, nil
}

// Queues tells the length of each queue and what is waited for.
func (s *Server) Queues(_ context.Context, m *rpc.QueuesRequest) (*rpc.QueuesResponse, error) {
	if err := s.checkJob(m.Job); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &rpc.QueuesResponse{}
	for name, q := range s.queues {
		c := q.Counts()
		r.Queues = append(r.Queues, &rpc.QueueStatus{Dataset: name, Pass: int32(c.Pass), Todo: int64(c.Todo), Pending: int64(c.Pending), Done: int64(c.Done), Discarded: int64(c.Discarded)})
	}
	slices.SortFunc(r.Queues, func(a, b *rpc.QueueStatus) int {
		if a.Dataset < b.Dataset {
			return -1
		}
		return 1
	})
	return r, nil
}
