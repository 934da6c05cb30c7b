package trainer

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	machine "github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
	"google.golang.org/grpc"
)

// Async trainers enter every step in the ledger: each record is there once, and every step is reported.
func TestAsyncStepsAreInTheLedger(t *testing.T) {
	l := lawCase{model: testkit.Reading(t, 5, optimizer.SGD(0.05)), data: testkit.Samples(t, t.TempDir(), 48), records: 48, passes: 2}
	spec := &job.JobSpec{Trainers: 3, Pservers: 2, Mode: job.Mode_ASYNC, Save: t.TempDir(), Fetch: []string{l.model.Loss}}
	c := newTestJob(t, l.model, l.data, spec, queue.Policy{Passes: 2, RecordsPerTask: 7, MaxFailures: 3})
	if err := c.train(bounded(t), 3); err != nil {
		t.Fatal(err)
	}
	l.checkLedger(t, c, 0)
	l.checkReports(t, c, true)
	if q := c.coordinator.queue.Status(); q.Done != 7 || q.Pending+q.Todo > 0 {
		t.Errorf("at the end: %v", q)
	}
}

// A trainer that has done its work, and finds no coordinator to report it to, ends soon, and says so.
func TestLeaveWithoutCoordinator(t *testing.T) {
	m := testkit.Reading(t, 5, optimizer.SGD(0.05))
	spec := &job.JobSpec{Trainers: 1, Pservers: 1, Save: t.TempDir()}
	c := newTestJob(t, m, testkit.Samples(t, t.TempDir(), 12), spec, queue.Policy{Passes: 1, RecordsPerTask: 7, MaxFailures: 3})
	c.coordinator.noLeave, c.deadlines.Unavailable = true, 10*time.Millisecond
	if err := c.train(bounded(t), 1); !errors.Is(err, ErrNoCoordinator) {
		t.Errorf("%v", err)
	}
	if saved := testkit.Saved(t, spec.Save, m.Program); len(saved) == 0 {
		t.Error("the model is not saved")
	}
}

// An async trainer that a server has given up ends, and asks to be started again.
func TestStaleTrainerIsFenced(t *testing.T) {
	m := testkit.Reading(t, 5, optimizer.SGD(0.05))
	spec := &job.JobSpec{Trainers: 1, Pservers: 1, Mode: job.Mode_ASYNC}
	c := newTestJob(t, m, testkit.Samples(t, t.TempDir(), 48), spec, queue.Policy{Passes: 1000, RecordsPerTask: 7, MaxFailures: 3})
	ctx := bounded(t)
	var once sync.Once
	c.call = func(_ uint32, _ int, _ string, round uint64) {
		if round == 5 {
			once.Do(func() { // its rank is another's now
				_, err := c.servers[0].Resume(ctx, &rpc.ResumeRequest{Id: c.coordinator.id(2), Members: []*rpc.Member{{Rank: 0, Since: 2}}})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	if err := c.train(ctx, 1); !errors.Is(err, fault.Fenced) {
		t.Errorf("%v", err)
	}
}

// Trainers that lose their leases all at once, as on a machine that has slept, report what they have trained before they end: nobody else can tell these rounds.
func TestLostLeasesLoseNoReport(t *testing.T) {
	const rounds = 10
	m := testkit.Reading(t, 5, optimizer.SGD(0.05))
	spec := &job.JobSpec{Trainers: 2, Pservers: 2, Fetch: []string{m.Loss}}
	c := newTestJob(t, m, testkit.Samples(t, t.TempDir(), 48), spec, queue.Policy{Passes: 1, RecordsPerTask: 7, MaxFailures: 3})
	c.deadlines.LostLease = time.Hour
	c.coordinator.hold = make(chan struct{}) // so that every report is still to be taken
	ctx := bounded(t)
	var declared [2]sync.Once
	var all atomic.Int32
	regrouped := make(chan error, 1)
	c.call = func(rank uint32, _ int, when string, round uint64) {
		if when != "before recv" || round != 4 {
			return
		}
		declared[rank].Do(func() {
			if all.Add(1) < 2 {
				return
			}
			c.coordinator.end() // so that nobody who comes again joins the generation that is over
			c.killTrainer(0)
			c.killTrainer(1)
			close(c.coordinator.hold)
			go func() { regrouped <- c.coordinator.regroup(ctx, 0, 1) }()
		})
	}
	if err := errors.Join(c.train(ctx, 2), <-regrouped); err != nil {
		t.Fatal(err)
	}
	rows, global := map[uint64]int64{}, map[uint64]int64{}
	for _, m := range c.coordinator.committed() {
		rows[m.Id.Round] += m.Rows
		global[m.Id.Round] = m.GlobalRows
	}
	for round := range uint64(rounds) {
		if rows[round] == 0 || rows[round] != global[round] {
			t.Errorf("reports of %d of %d rows of round %d", rows[round], global[round], round)
		}
	}
	if began := c.coordinator.began; len(began) != 2 || began[1].Round < 4 || len(c.coordinator.late) > 0 {
		t.Errorf("generations %+v, late reports %v", began, c.coordinator.late)
	}
}

// A trainer that is drained finishes its step, reports what is finished, and leaves; the others go on without it, and the law holds.
func TestDrain(t *testing.T) {
	for _, mode := range []job.Mode{job.Mode_SYNC, job.Mode_ASYNC} {
		t.Run(mode.String(), func(t *testing.T) {
			l := lawCase{model: testkit.Reading(t, 5, optimizer.SGD(0.05)), data: testkit.Samples(t, t.TempDir(), 48), records: 48, passes: 2}
			spec := &job.JobSpec{Trainers: 2, Pservers: 2, Mode: mode, Save: t.TempDir(), Fetch: []string{l.model.Loss}}
			c := newTestJob(t, l.model, l.data, spec, queue.Policy{Passes: 2, RecordsPerTask: 7, MaxFailures: 3})
			ctx := bounded(t)
			var drained atomic.Bool
			c.call = func(rank uint32, _ int, when string, round uint64) {
				if rank == 1 && when == "before recv" && round == 4 && drained.CompareAndSwap(false, true) {
					c.drainTrainer(1)
				}
			}
			began := make(chan error, 1)
			go func() { began <- c.coordinator.regroup(ctx, 0, 1) }()
			var last uint64
			err := pstest.Parallel(2, func(rank int) error {
				err := c.run(ctx, uint32(rank))
				if rank == 0 {
					return err
				}
				if !errors.Is(err, fault.Drained) {
					return errors.Join(errors.New("trainer 1 was not drained"), err)
				}
				c.coordinator.mu.Lock()
				left := c.coordinator.left[1]
				for _, m := range c.coordinator.reports {
					if m.Id.Rank == 1 {
						last = max(last, m.Id.Round)
					}
				}
				delete(c.coordinator.left, 1)
				c.coordinator.mu.Unlock()
				if !left.GetDrained() || left.GetFailure() != nil {
					return errors.New("trainer 1 leaves with " + left.String())
				}
				if mode == job.Mode_SYNC {
					return c.coordinator.regroup(ctx, 0)
				}
				return c.coordinator.giveUp(ctx, 1)
			})
			if err := errors.Join(err, <-began); err != nil {
				t.Fatal(err)
			}
			if mode == job.Mode_SYNC && last != 3 {
				t.Errorf("the last round of trainer 1 is %d, want 3", last)
			}
			l.checkLedger(t, c, 0)
			l.checkReports(t, c, true)
		})
	}
}

// giveUp takes the tasks of an async trainer back that has left, and resumes the servers without it.
func (c *fakeCoordinator) giveUp(ctx context.Context, rank int) (err error) {
	c.change(func() {
		since, _ := c.current.Member(id.Rank(rank))
		var committed []ranges.Range
		for _, m := range c.reports {
			if m.Pass == c.queue.Pass() && m.Id.Rank == uint32(rank) {
				committed = append(committed, wire.RangesOf(m.Records)...)
			}
		}
		_, err = c.queue.Step(0, queue.TrainerLost{Rank: id.Rank(rank), Since: since.Since, Drained: true, Pass: c.queue.Pass(),
			Committed: ranges.Of(committed...)})
		c.current.Members = slices.DeleteFunc(slices.Clone(c.current.Members), func(m machine.Member) bool { return m.Rank == id.Rank(rank) })
	})
	if err != nil {
		return err
	}
	resume := &rpc.ResumeRequest{Id: c.id(c.current.Number + 1)}
	for _, m := range c.current.Members {
		resume.Members = append(resume.Members, &rpc.Member{Rank: uint32(m.Rank), Since: uint64(m.Since)})
	}
	return pstest.Parallel(len(c.servers), func(i int) error {
		_, err := c.servers[i].Resume(ctx, resume)
		return err
	})
}

// A trainer that is told to end while it waits for its first generation sends Leave only to a coordinator that may know it, for Deadlines.Leave at
// most.
func TestLeaveBeforeTheFirstGeneration(t *testing.T) {
	for name, c := range map[string]struct {
		heard bool
		cause error
		takes time.Duration
	}{
		"unheard, drained": {false, fault.New(fault.Drained, "terminated"), 0},
		"unheard, ended":   {false, fault.New(fault.LostMember, "killed"), 0},
		"heard, drained":   {true, fault.New(fault.Drained, "terminated"), longDeadlines.Leave},
		"heard, ended":     {true, fault.New(fault.LostMember, "killed"), longDeadlines.Leave},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			drain := make(chan struct{})
			nobody := &unanswering{heard: c.heard}
			var ended time.Time
			time.AfterFunc(time.Minute, func() {
				ended = time.Now()
				if errors.Is(c.cause, fault.Drained) {
					close(drain)
				} else {
					cancel(c.cause)
				}
			})
			err := Run(ctx, Config{Identity: wire.Identity{Job: pstest.Identity.Job}, Coordinator: nobody, Deadlines: longDeadlines, Drain: drain,
				Spec: &job.JobSpec{}})
			if took := time.Since(ended); !errors.Is(err, fault.KindOf(c.cause)) || took != c.takes {
				t.Errorf("%s: ends with %v after %v, want %v", name, err, took, c.takes)
			}
			if want := c.heard && errors.Is(c.cause, fault.Drained); errors.Is(err, ErrNoCoordinator) != want {
				t.Errorf("%s: ends with %v, without an answer: %v", name, err, want)
			}
			if nobody.left != c.heard {
				t.Errorf("%s: takes its leave: %v", name, nobody.left)
			}
			cancel(nil)
		})
	}
}

// unanswering is a coordinator that never answers; heard says whether requests reach it.
type unanswering struct {
	rpc.CoordinatorClient
	heard, left bool
}

func (m *unanswering) Join(ctx context.Context, _ *rpc.JoinRequest, options ...grpc.CallOption) (*rpc.JoinResponse, error) {
	<-ctx.Done()
	for _, o := range options {
		if to, ok := o.(grpc.PeerCallOption); ok && m.heard {
			to.PeerAddr.Addr = &net.TCPAddr{}
		}
	}
	return nil, ctx.Err()
}

func (m *unanswering) Leave(ctx context.Context, _ *rpc.LeaveRequest, _ ...grpc.CallOption) (*rpc.LeaveResponse, error) {
	m.left = true
	<-ctx.Done()
	return nil, ctx.Err()
}

// A trainer whose request waits at the coordinator is known to it.
func TestLeaveOfOneThatWaits(t *testing.T) {
	c := newTestJob(t, testkit.Reading(t, 5, optimizer.SGD(0.05)), testkit.Samples(t, t.TempDir(), 10), &job.JobSpec{Trainers: 1, Pservers: 1},
		queue.Policy{Passes: 1, RecordsPerTask: 7, MaxFailures: 3})
	ctx := bounded(t)
	ended := make(chan error, 1)
	go func() { ended <- c.run(ctx, 0) }()
	if err := c.coordinator.await(ctx, func() (bool, error) { return c.coordinator.waiting[0] != nil, nil }); err != nil {
		t.Fatal(err)
	}
	c.drainTrainer(0)
	if err := <-ended; !errors.Is(err, fault.Drained) {
		t.Errorf("ends with %v", err)
	}
	if said := c.coordinator.left[0]; !said.GetDrained() {
		t.Errorf("takes its leave with %v", said)
	}
}
