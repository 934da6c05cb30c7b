package coordinator_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
)

func async(trainers int) coordinator.Config {
	cfg := config(trainers)
	cfg.Sync = false
	return cfg
}

// ask asks for a task of pass 0 as of a generation.
func (s trainerCalls) ask(generation uint64, rank uint32, number uint64, finished ...*rpc.Task) (*rpc.GetTaskResponse, error) {
	return s.client.GetTask(s.home.t.Context(), &rpc.GetTaskRequest{Id: idOf(generation, rank, number), Dataset: "d", Finished: finished})
}

func (s trainerCalls) mustAsk(generation uint64, rank uint32, number uint64, finished ...*rpc.Task) *rpc.Task {
	s.home.t.Helper()
	r, err := s.ask(generation, rank, number, finished...)
	if err != nil || r.Task == nil {
		s.home.t.Fatalf("trainer %d, request %d: %v, %v", rank, number, r, err)
	}
	return r.Task
}

// A dataset is what the first report says, for the next coordinator, too; a report that differs names both.
func TestReportDataset(t *testing.T) {
	h := newHome(t, async(1))
	s := h.start()
	s.joinAll(0, 0)
	s.reportDataset(t, 30, 12)
	s.reportDataset(t, 30, 12)
	for range 2 {
		other := filesOf(30, 12)
		other[1].Fingerprint = 77
		err := wire.ReportDataset(t.Context(), s.client, &rpc.ReportDatasetRequest{Id: firstID(0, 0), Dataset: &rpc.Dataset{Name: "d", Files: other}})
		if !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), `"f1" has 12 records in 96 bytes with fingerprint 000000000000004d`) ||
			!strings.Contains(err.Error(), "fingerprint 0000000000000001") {
			t.Error(err)
		}
		s.stop()
		<-s.ended
		s = h.start()
		s.status(func(q *rpc.QueuesResponse) bool { return len(q.Queues) == 1 && q.Queues[0].Records == 42 })
	}
}

// B1 row 10: a request whose change cannot be made durable has changed nothing, and the next one is right.
func TestFailedWriteChangesNothing(t *testing.T) {
	h := newHome(t, async(1))
	s := h.start()
	s.joinAll(0, 0)
	s.reportDataset(t, 100)
	first := s.mustAsk(1, 0, 0)
	before := h.store.copy()
	h.store.failing(func([]cluster.Change) error { return fault.New(fault.Unavailable, "no store") })
	for range 3 {
		if _, err := s.ask(1, 0, 1, first); !errors.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
	}
	if q := s.status(func(*rpc.QueuesResponse) bool { return true }).Queues[0]; q.Done != 0 || q.Pending != 1 || q.Todo != 9 {
		t.Errorf("after failed writes the queue is %v", q)
	}
	h.store.failing(nil)
	if after := h.store.copy(); len(after) != len(before) {
		t.Errorf("%d entries, %d before", len(after), len(before))
	}
	if next := s.mustAsk(1, 0, 1, first); next.Id != first.Id+1 || next.Epoch != 1 {
		t.Errorf("then task %v", next)
	}
	s.status(func(q *rpc.QueuesResponse) bool {
		return q.Queues[0].Done == 1 && q.Queues[0].Pending == 1 && q.Queues[0].Todo == 8
	})
}

// B1 row 11: who has taken too long cannot finish what another has now. Row 15: the next coordinator waits for a task only as long as was left.
func TestTaskThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHome(t, async(2))
		h.cfg.TaskTimeout = [2]time.Duration{time.Minute, time.Minute}
		run := func() (*coordinator.Server, chan error) {
			s, ended := coordinator.New(h.cfg), make(chan error, 1)
			go func() { ended <- s.Run(t.Context(), h.store.lead()) }()
			return s, ended
		}
		ask := func(s *coordinator.Server, rank uint32, number uint64, finished ...*rpc.Task) *rpc.Task {
			r, err := s.GetTask(t.Context(), &rpc.GetTaskRequest{Id: firstID(rank, number), Dataset: "d", Finished: finished})
			if err != nil || r.Task == nil {
				t.Fatal(r, err)
			}
			return r.Task
		}
		s, ended := run()
		for rank := range uint32(2) {
			h.live.set(rank, incarnation(rank))
			go func() {
				_, _ = s.Join(t.Context(), &rpc.JoinRequest{Id: idOf(0, rank, 0), Incarnation: incarnation(rank)})
			}()
		}
		synctest.Wait()
		if err := s.TakeDataset(t.Context(), &rpc.ReportDatasetRequest{Id: firstID(0, 0), Dataset: &rpc.Dataset{Name: "d", Files: filesOf(20)}}); err != nil {
			t.Fatal(err)
		}
		late := ask(s, 0, 0)
		time.Sleep(40 * time.Second)
		s.Fail(fault.New(fault.Fenced, "crashed"))
		<-ended
		s, ended = run()
		synctest.Wait()
		for _, server := range h.servers {
			server.enter(0, &rpc.RecordRange{From: 2, To: 4})
		}
		other := ask(s, 1, 0)
		if other.Id == late.Id {
			t.Errorf("task %d is given twice", other.Id)
		}
		time.Sleep(20*time.Second + time.Millisecond)
		synctest.Wait()
		again := ask(s, 1, 1, other)
		if again.Id != late.Id || again.Epoch != late.Epoch+1 || len(again.Records) != 2 || again.Records[0].To != 2 || again.Records[1].From != 4 {
			t.Errorf("%v came back as %v", late, again)
		}
		if _, err := s.GetTask(t.Context(), &rpc.GetTaskRequest{Id: firstID(0, 1), Dataset: "d", Finished: []*rpc.Task{late}, ReportOnly: true}); err != nil {
			t.Error(err)
		}
		q, err := s.ShowQueues(t.Context(), &rpc.QueuesRequest{Job: pstest.Identity.Job})
		if err != nil || q.Queues[0].Done != 1 || q.Queues[0].Pending != 1 {
			t.Errorf("%v, %v", q, err)
		}
		s.Fail(nil)
		<-ended
	})
}

// The tasks of an async trainer that is lost go to others without what is committed of them, and count as failures only if nothing is; those of one
// that drains never do.
func TestTasksOfThoseWhoAreGone(t *testing.T) {
	for name, gone := range map[string]func(s running){
		"lost": func(s running) { s.lose(1) },
		"drained": func(s running) {
			_, _ = s.client.Leave(s.home.t.Context(), &rpc.LeaveRequest{Id: firstID(1, 0), Drained: true})
		},
		"failed": func(s running) {
			_, _ = s.client.Leave(s.home.t.Context(), &rpc.LeaveRequest{Id: firstID(1, 0), Failure: failure(fault.Unavailable)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := async(2)
			cfg.MaxFailures = 0
			h := newHome(t, cfg)
			s := h.start()
			s.joinAll(0, 0, 1)
			s.reportDataset(t, 30)
			mine, other := s.mustAsk(1, 0, 0), s.mustAsk(1, 1, 0)
			h.servers[0].enter(0, &rpc.RecordRange{From: other.Records[0].From, To: other.Records[0].From + 3})
			gone(s)
			s.status(func(q *rpc.QueuesResponse) bool { return q.Queues[0].Todo == 2 && q.Generation == 2 })
			third := s.mustAsk(1, 0, 1, mine)
			back := s.mustAsk(1, 0, 2, third)
			if back.Id != other.Id || back.Records[0].From != other.Records[0].From+3 || back.Epoch != 2 {
				t.Errorf("%v came back as %v", other, back)
			}
			if _, err := s.ask(1, 1, 1, other); !errors.Is(err, fault.Stale) {
				t.Errorf("one that is gone is told %v", err)
			}
			r, err := s.join(1, 300, 1)
			if err != nil || r.Generation != 3 || r.Trainers != 2 {
				t.Errorf("it comes back as %v, %v", r, err)
			}
			if _, err := s.ask(3, 1, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// manyFiles are so many that neither the report of them nor the entries that it makes fit into one message of the transport.
func manyFiles() []*rpc.DataFile {
	var files []*rpc.DataFile
	for i := range int64(200_000) {
		path := fmt.Sprintf("s3://a-bucket/a/folder/with/a/long/name/of/many/parts/train-%09d.rec", i)
		files = append(files, &rpc.DataFile{Path: path, FirstRecord: 5 * i, Records: 5, Bytes: 400, Fingerprint: uint64(i)})
	}
	return files
}

// A dataset may have as many files as one likes: it is reported, told again, compared, written, read and shown.
func TestDatasetOfManyFiles(t *testing.T) {
	cfg := async(1)
	cfg.RecordsPerTask = 1
	h := newHome(t, cfg)
	s := h.start()
	s.joinAll(0, 0)
	files := manyFiles()
	report := func() error {
		return wire.ReportDataset(t.Context(), s.client, &rpc.ReportDatasetRequest{Id: firstID(0, 0), Dataset: &rpc.Dataset{Name: "d", Files: files}})
	}
	for range 2 {
		if err := report(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := wire.Queues(t.Context(), s.client, &rpc.QueuesRequest{Job: pstest.Identity.Job, Entries: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Queues[0].Records != 1_000_000 || r.Queues[0].Todo != 1_000_000 || len(r.Entries) < len(files) {
		t.Errorf("%d tasks of %d records, %d entries", r.Queues[0].Todo, r.Queues[0].Records, len(r.Entries))
	}
	files[199_999].Bytes = 401
	err = report()
	if !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), `train-000199999.rec" has 5 records in 401 bytes`) ||
		!strings.Contains(err.Error(), "has 5 records in 400 bytes") {
		t.Error(err)
	}
}
