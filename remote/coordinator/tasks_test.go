package coordinator_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/rig"
)

// The first report of a dataset counts; an equal one does no harm, and a different one is an error that describes both.
func TestReportDataset(t *testing.T) {
	s := start(t, config(2))
	if _, err := s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: id(0, 0), Dataset: "d"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("a task before the dataset: %v", err)
	}
	s.reportDataset(t, 7, 8)
	s.reportDataset(t, 7, 8)
	_, err := s.client.ReportDataset(t.Context(), &rpc.ReportDatasetRequest{Id: id(1, 0), Dataset: &rpc.Dataset{Name: "d", Chunks: chunksOf(7, 9)}})
	if !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "16 records in 2 chunks of 1 files from trainer 1") || !strings.Contains(err.Error(), "15 records in 2 chunks") {
		t.Error(err)
	}
	if _, err := s.client.ReportDataset(t.Context(), &rpc.ReportDatasetRequest{Id: id(0, 0), Dataset: &rpc.Dataset{Name: "empty"}}); !errors.Is(err, fault.NotFound) {
		t.Errorf("a dataset without records: %v", err)
	}
	r, err := s.client.Queues(t.Context(), &rpc.QueuesRequest{Job: rig.Identity.Job})
	want := &rpc.QueueStatus{Dataset: "d", Todo: 2}
	if err != nil || len(r.Queues) != 1 || !proto.Equal(r.Queues[0], want) {
		t.Errorf("queues %v, %v", r, err)
	}
}

// takeAll is a trainer that takes tasks until its data ends, two at a time, and asks everything twice. It returns the first records of the
// tasks of each pass.
func takeAll(t *testing.T, s running, rank uint32) (passes [][]int64, err error) {
	var open []*rpc.Task
	var mine []int64
	pass, number := int32(0), uint64(0)
	ask := func(m *rpc.GetTaskRequest) (*rpc.GetTaskResponse, error) {
		m.Id, m.Dataset, m.Pass = id(rank, number), "d", pass
		number++
		first, err := s.client.GetTask(t.Context(), m)
		if err != nil {
			return nil, err
		}
		again, err := s.client.GetTask(t.Context(), m)
		if err == nil && !proto.Equal(first, again) {
			t.Errorf("trainer %d was answered %v, and then %v", rank, first, again)
		}
		return first, err
	}
	for {
		m := &rpc.GetTaskRequest{Wait: len(open) == 0}
		if len(open) == 2 {
			m.Finished, open = open, nil
		}
		r, err := ask(m)
		if err != nil {
			return nil, err
		}
		if r.Task != nil {
			open, mine = append(open, r.Task), append(mine, r.Task.Records.From)
			continue
		}
		if len(open) > 0 {
			if _, err := ask(&rpc.GetTaskRequest{Finished: open, ReportOnly: true}); err != nil {
				return nil, err
			}
			open = nil
		}
		if r.EndOfPass {
			passes, mine = append(passes, mine), nil
			pass++
		}
		if r.EndOfData {
			return passes, nil
		}
	}
}

// In sync mode every trainer is given every task of every pass; in async mode one of them is, and what one cannot do another does.
func TestTasksOfManyTrainers(t *testing.T) {
	for _, sync := range []bool{true, false} {
		cfg := config(3)
		cfg.Sync, cfg.Passes = sync, 3
		s := start(t, cfg)
		s.reportDataset(t, 25, 0, 46)
		var all []int64
		for from := int64(0); from < 71; from += 10 {
			all = append(all, from)
		}
		taken := make([][][]int64, 3)
		if err := rig.Each(3, func(rank int) (err error) {
			taken[rank], err = takeAll(t, s, uint32(rank))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for pass := range 3 {
			var joint []int64
			for rank := range 3 {
				if sync && !slices.Equal(taken[rank][pass], all) {
					t.Errorf("trainer %d was given %v in pass %d", rank, taken[rank][pass], pass)
				}
				if !sync && pass < len(taken[rank]) {
					joint = append(joint, taken[rank][pass]...)
				}
			}
			if slices.Sort(joint); !sync && !slices.Equal(joint, all) {
				t.Errorf("pass %d was trained on %v", pass, joint)
			}
		}
	}
}

// A request that is repeated while the first waits, because its call was cut without the server's knowing, is answered with the same task.
func TestRepeatedRequestWhileTheFirstWaits(t *testing.T) {
	cfg := config(2)
	cfg.Sync = false
	s := start(t, cfg)
	s.reportDataset(t, 10)
	held, err := s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: id(0, 0), Dataset: "d"})
	if err != nil || held.Task == nil {
		t.Fatal(held, err)
	}
	answers := make(chan *rpc.GetTaskResponse, 2)
	for range 2 {
		go func() {
			r, err := s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: id(1, 5), Dataset: "d", Wait: true})
			if err != nil {
				t.Error(err)
			}
			answers <- r
		}()
	}
	waiting(t, s, 2)
	if _, err := s.client.TaskFailed(t.Context(), &rpc.TaskFailedRequest{Id: id(0, 0), Task: held.Task, Reason: "a record is broken"}); err != nil {
		t.Fatal(err)
	}
	first, second := <-answers, <-answers
	if first.GetTask().GetEpoch() != 2 || !proto.Equal(first, second) {
		t.Errorf("answered %v and %v", first, second)
	}
	if _, err := s.client.GetTask(t.Context(), &rpc.GetTaskRequest{Id: id(1, 4), Dataset: "d", Finished: []*rpc.Task{first.Task}}); !errors.Is(err, fault.Stale) {
		t.Errorf("an older request: %v", err)
	}
	if _, err := s.client.TaskFailed(t.Context(), &rpc.TaskFailedRequest{Id: id(0, 0), Task: held.Task}); !errors.Is(err, fault.Stale) {
		t.Errorf("word of a task that is another's: %v", err)
	}
	if _, err := s.client.TaskFailed(t.Context(), &rpc.TaskFailedRequest{Id: id(0, 0)}); !errors.Is(err, fault.NotFound) {
		t.Errorf("word of no task: %v", err)
	}
	if _, err := s.client.TaskFailed(t.Context(), &rpc.TaskFailedRequest{Id: id(1, 0), Task: first.Task, Reason: "broken again"}); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "trainer 1 says of the last one: broken again") {
		t.Errorf("with every task discarded the job ends with %v", err)
	}
}

// waiting returns when n calls wait.
func waiting(t *testing.T, s running, n int) {
	for have := 0; have < n; {
		r, err := s.client.Queues(t.Context(), &rpc.QueuesRequest{Job: rig.Identity.Job})
		if err != nil {
			t.Fatal(err)
		}
		have = len(r.Waiting)
	}
}

// timedJob is an async coordinator of two trainers under a clock that stands still while anyone works.
func timedJob(t *testing.T, f func(t *testing.T, s *coordinator.Server, ended chan error)) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(2)
		cfg.Sync, cfg.StartDeadline = false, 1000*time.Hour
		s, ended := coordinator.New(cfg), make(chan error, 1)
		go func() { ended <- s.Run(t.Context()) }()
		if _, err := s.ReportDataset(t.Context(), &rpc.ReportDatasetRequest{Id: id(0, 0), Dataset: &rpc.Dataset{Name: "d", Chunks: chunksOf(20)}}); err != nil {
			t.Fatal(err)
		}
		f(t, s, ended)
	})
}

func ask(t *testing.T, s *coordinator.Server, rank uint32, number uint64, finished ...*rpc.Task) *rpc.Task {
	t.Helper()
	r, err := s.GetTask(t.Context(), &rpc.GetTaskRequest{Id: id(rank, number), Dataset: "d", Wait: true, Finished: finished})
	if err != nil {
		t.Fatal(err)
	}
	return r.Task
}

// A task that takes too long is given to the trainer that waits for one, and the word of the first comes too late.
func TestTaskThatTakesTooLong(t *testing.T) {
	timedJob(t, func(t *testing.T, s *coordinator.Server, ended chan error) {
		slow, quick := ask(t, s, 0, 0), ask(t, s, 1, 0)
		began := time.Now()
		again := ask(t, s, 1, 1, quick)
		if again.GetId() != slow.Id || again.Epoch != 2 || time.Since(began) != time.Hour {
			t.Errorf("after %v: %v", time.Since(began), again)
		}
		if none := ask(t, s, 1, 2, again); none != nil {
			t.Errorf("a task after the last: %v", none)
		}
		if none := ask(t, s, 0, 1, slow); none != nil {
			t.Errorf("a task after the last: %v", none)
		}
		r, err := s.Queues(t.Context(), &rpc.QueuesRequest{Job: rig.Identity.Job})
		if err != nil || r.Queues[0].Done != 2 {
			t.Error(r, err)
		}
		s.Fail(fault.New(fault.Drained, "end"))
		<-ended
	})
}

// A job whose every task takes too long, again and again, ends saying so.
func TestEveryTaskTakesTooLong(t *testing.T) {
	timedJob(t, func(t *testing.T, s *coordinator.Server, ended chan error) {
		for number := range uint64(4) {
			if ask(t, s, uint32(number%2), number) == nil {
				t.Fatal("no task")
			}
			time.Sleep(2 * time.Hour)
		}
		if err := <-ended; !errors.Is(err, fault.DeadlineExceeded) || !strings.Contains(err.Error(), `dataset "d"`) {
			t.Error(err)
		}
	})
}

// A finished task has no timeout any more: its next dispatch has its own.
func TestTimeoutOfAFinishedTask(t *testing.T) {
	timedJob(t, func(t *testing.T, s *coordinator.Server, ended chan error) {
		first := ask(t, s, 0, 0)
		time.Sleep(59 * time.Minute)
		second := ask(t, s, 0, 1, first)
		time.Sleep(59 * time.Minute) // 8 times the average, but at most an hour
		if none := ask(t, s, 0, 2, second); none != nil {
			t.Error(none)
		}
		r, err := s.Queues(t.Context(), &rpc.QueuesRequest{Job: rig.Identity.Job})
		if err != nil || r.Queues[0].Done != 2 {
			t.Error(r, err)
		}
		s.Fail(fault.New(fault.Drained, "end"))
		<-ended
	})
}
