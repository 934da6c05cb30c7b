package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/tensor"
)

// A plan with rounds cuts at their multiples, and one with a time a little ahead, further when servers were past it.
func TestCutPlan(t *testing.T) {
	p := newCutPlan(Checkpoints{Rounds: 100}, 250)
	next := func(at id.Round) id.Round {
		round, _ := p.next(at, false, false, func(after id.Round) (id.Round, bool) { return (after/7 + 1) * 7, true })
		return round
	}
	for _, test := range []struct{ at, want id.Round }{{0, 300}, {250, 300}, {299, 300}, {300, 400}, {1234, 1300}} {
		if got := next(test.at); got != test.want {
			t.Errorf("at %d the next cut is at %d, want %d", test.at, got, test.want)
		}
	}
	p.done(time.Second, 300)
	if got := next(299); got != 400 { // the step before the cut is not reported yet
		t.Errorf("after 300 comes %d", got)
	}
	if p.past(400, 405); next(405) != 500 {
		t.Errorf("after a server at 405, round %d", next(405))
	}
	p = newCutPlan(Checkpoints{Rounds: 1}, 0)
	if p.past(1, 9); next(9) != 24 { // as far ahead as the server was, and again as far
		t.Errorf("a cut at every round comes next at %d", next(9))
	}
	p = newCutPlan(Checkpoints{Every: time.Minute}, 0)
	if p.when(false) != time.Minute || next(10) != 12 {
		t.Errorf("a cut at %v, round %d", p.when(false), next(10))
	}
	p.past(12, 20)
	if next(20) != 36 {
		t.Errorf("after a server at 20, round %d", next(20))
	}
	for range 100 {
		p.past(0, 1<<40)
	}
	if next(20) != 20+mostMargin {
		t.Errorf("the margin grows to %d", next(20))
	}
	passes := newCutPlan(Checkpoints{Passes: true}, 0)
	end := func(after id.Round) (id.Round, bool) { return (after/7 + 1) * 7, after < 21 }
	for at, want := range map[id.Round]id.Round{0: 7, 7: 14, 20: 21} {
		if got, ok := passes.next(at, false, false, end); got != want || !ok || passes.when(false) != 0 {
			t.Errorf("at %d a pass is cut at %d (%t)", at, got, ok)
		}
	}
	if passes.past(7, 9); passes.margin != 4 {
		t.Errorf("the margin is %d", passes.margin)
	}
	if got, ok := passes.next(5, false, false, end); got != 14 || !ok { // 7 is too near
		t.Errorf("after a server at 9 a pass is cut at %d (%t)", got, ok)
	}
	if got, ok := passes.next(21, false, false, end); ok {
		t.Errorf("behind the last pass comes a cut at %d", got)
	}
	if got, ok := passes.next(21, true, false, end); got != 25 || !ok { // somebody waits
		t.Errorf("a cut that somebody waits for comes at %d (%t)", got, ok)
	}
	if got, ok := passes.next(21, true, true, end); got != 21 || !ok { // of the last round
		t.Errorf("after the end: %d, %v", got, ok)
	}
	if got, ok := passes.next(21, false, true, end); ok {
		t.Errorf("after the end, for nobody: %d", got)
	}
	every := newCutPlan(Checkpoints{Every: time.Hour}, 0)
	if every.when(true) != 0 {
		t.Errorf("somebody waits until %v", every.when(true))
	}
	for _, want := range []id.Round{21, 25, 29, 21} { // where the job is, because it may wait for data; ahead when a server is past that
		if got, ok := every.next(21, true, false, end); got != want || !ok {
			t.Errorf("somebody waits for a cut at %d (%t), want %d", got, ok, want)
		}
		if every.past(21, 22); want == 29 {
			every.done(0, 17)
		}
	}
	now := time.Hour
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		p.failed(now)
		if got := p.when(false) - now; got != want*time.Second {
			t.Errorf("the next attempt comes after %v, want %v s", got, want)
		}
	}
	if p.done(now, 40); p.when(false) != now+time.Minute {
		t.Errorf("after a cut the next one comes at %v", p.when(false))
	}
}

// A cutServer is a pserver that has one row of w.
type cutServer struct {
	rpc.ParameterServerClient
	index int

	mu    sync.Mutex
	hangs bool       // its store does not answer
	same  bool       // its row never changes
	base  *job.Shard // the last that was written whole
	round id.Round
	err   error
	asked []id.Round
}

func (s *cutServer) set(round id.Round, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round, s.err = round, err
}

func (s *cutServer) Cut(ctx context.Context, m *rpc.CutRequest, _ ...grpc.CallOption) (*rpc.CutResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, id.Round(m.Id.Round))
	if s.hangs {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return nil, ctx.Err()
	}
	if s.err != nil {
		return nil, s.err
	}
	if s.round > id.Round(m.Id.Round) {
		return &rpc.CutResponse{Past: true, Round: uint64(s.round)}, nil
	}
	store, err := checkpoint.Open(ctx, m.Store)
	if err != nil {
		return nil, err
	}
	w, err := tensor.FromSlice([]float32{float32(s.index)}, 1, 1)
	if err != nil {
		return nil, err
	}
	pieces := []checkpoint.Piece{{Variable: "w", Dims: []int64{2, 1}, FirstRow: int64(s.index), Rows: 1, Value: w}}
	same := s.same && s.base != nil && slices.Contains(m.Bases, s.base.Checkpoint)
	if same {
		pieces = nil
	}
	shard, err := store.WriteShard(ctx, m.Name, s.index, pieces)
	if err != nil {
		return nil, err
	}
	r := &rpc.CutResponse{Shard: shard}
	if shard.Changes = same; same {
		r.Base = s.base
	} else {
		s.base = proto.CloneOf(shard)
		s.base.Checkpoint = m.Name
	}
	if s.index == 0 {
		r.Ledger = []byte("ledger")
	}
	return r, err
}

// rounds are those that it was asked for.
func (s *cutServer) rounds() []id.Round {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// withCuts runs the checkpoints of a coordinator of two pservers, with time that passes as nobody waits for anything else.
func withCuts(t *testing.T, c Checkpoints, constants map[string]*tensor.Tensor, do func(s *Server, servers []*cutServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		servers := []*cutServer{{}, {index: 1}}
		cfg := Config{Sync: true, Servers: []rpc.ParameterServerClient{servers[0], servers[1]}, Begin: &job.Progress{Steps: 10}, Checkpoints: c}
		if c.Idle > 0 {
			cfg.Follow = map[string][]string{"d": nil}
		}
		for name := range constants {
			cfg.Constants = append(cfg.Constants, name)
		}
		cfg.Constant = func(name string) (*tensor.Tensor, error) { return constants[name], nil }
		s := New(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		s.ctx = ctx
		s.tasks.Go(s.cuts.keep)
		synctest.Wait()
		do(s, servers)
		cancel()
		s.Fail(fault.New(fault.Canceled, "the end of the test"))
		s.tasks.Wait()
	})
}

// reports makes the coordinator know the steps below a round.
func (c *cuts) reports(round id.Round) {
	c.locked(func() { c.steps.restore(uint64(round)); c.steps.wake() })
	synctest.Wait()
}

// stepsOf are the complete checkpoints in a folder.
func stepsOf(t *testing.T, dir string) (steps []uint64) {
	t.Helper()
	s, err := checkpoint.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Complete {
			steps = append(steps, e.Steps)
		}
	}
	return steps
}

func TestCutsByRounds(t *testing.T) {
	dir := t.TempDir()
	bias, err := tensor.FromSlice([]float32{7}, 1)
	if err != nil {
		t.Fatal(err)
	}
	withCuts(t, Checkpoints{Store: dir, Run: "digits-1", Rounds: 100, Keep: 2, FirstPass: 3}, map[string]*tensor.Tensor{"b": bias, "c": nil},
		func(s *Server, servers []*cutServer) {
			s.cuts.reports(99)
			if got := stepsOf(t, dir); got != nil {
				t.Errorf("checkpoints %v before their round", got)
			}
			for round := id.Round(100); round <= 300; round += 100 {
				s.cuts.reports(round)
			}
			if got := stepsOf(t, dir); fmt.Sprint(got) != "[300 200]" {
				t.Errorf("the checkpoints are %v", got)
			}
			c, err := checkpoint.Find(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			if m := c.Manifest; m.Progress.GetSteps() != 300 || string(m.Ledger) != "ledger" || m.FirstPass != 3 {
				t.Errorf("the manifest is %v", m)
			}
			if got := fmt.Sprint(c.Variables()); got != "[b w]" {
				t.Errorf("the variables are %s", got)
			}
			s.locked(func() {
				if st := s.cuts.status(); st.Name != c.Name || st.Steps != 300 || st.Bytes != 12 || st.FailingSinceMs != 0 {
					t.Errorf("the status is %v", st)
				}
			})
			if got := fmt.Sprint(servers[1].rounds()); got != "[100 200 300 400]" {
				t.Errorf("a server was asked for %s", got)
			}
		})
}

// A server that has not changed since a checkpoint writes nothing for the next ones. They go on with that checkpoint, which stays, and with its constants.
func TestCutsOfChanges(t *testing.T) {
	dir := t.TempDir()
	bias, err := tensor.FromSlice([]float32{7}, 1)
	if err != nil {
		t.Fatal(err)
	}
	withCuts(t, Checkpoints{Store: dir, Run: "digits-1", Rounds: 100, Keep: 2}, map[string]*tensor.Tensor{"b": bias}, func(s *Server, servers []*cutServer) {
		servers[1].same = true
		for round := id.Round(100); round <= 400; round += 100 {
			s.cuts.reports(round)
		}
		if got := stepsOf(t, dir); fmt.Sprint(got) != "[400 300 100]" {
			t.Errorf("the checkpoints are %v", got)
		}
		c, err := checkpoint.Find(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if bases := checkpoint.BasesOf(c.Manifest); len(bases) != 1 || !strings.Contains(bases[0], ".00000000000000000100.") {
			t.Errorf("the bases are %v", bases)
		}
		if got := fmt.Sprint(c.Variables()); got != "[b w]" || c.Verify(t.Context()) != nil {
			t.Errorf("the variables are %s, %v", got, c.Verify(t.Context()))
		}
		s.locked(func() {
			if st := s.cuts.status(); st.Bytes != 4 || st.Steps != 400 {
				t.Errorf("the status is %v", st)
			}
		})
	})
}

// A job is cut at the ends of its passes but the last. A failure moves one: then the servers are asked for the new end.
func TestCutsByPasses(t *testing.T) {
	dir := t.TempDir()
	withCuts(t, Checkpoints{Store: dir, Run: "digits-1", Passes: true, Keep: 9}, nil, func(s *Server, servers []*cutServer) {
		if asked := servers[0].rounds(); len(asked) > 0 {
			t.Errorf("asked for %v before the dataset is known", asked)
		}
		q, _, err := queue.New(queue.Policy{Sync: true, Start: queue.Position{Round: 10}, Passes: 3, RecordsPerTask: 15, Reading: queue.Reading{Rows: 10}},
			queue.Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "f", Records: 90}}})
		if err != nil {
			t.Fatal(err)
		}
		s.locked(func() { s.store.queues["d"], s.cfg.Begin.Reader = q, strings.Repeat("7", 64) })
		s.cuts.reports(11)
		if asked := fmt.Sprint(servers[0].rounds()); asked != "[19]" {
			t.Errorf("asked for %s", asked)
		}
		step := func(e queue.Event) {
			s.locked(func() {
				if _, err := q.Step(0, e); err != nil {
					t.Error(err)
				}
			})
		}
		step(queue.TaskFailed{Task: &rpc.Task{}, Reason: "damaged"})
		step(queue.Regrouped{Round: 12}) // leaves 75 records
		s.cuts.reports(15)
		step(queue.TaskWanted{Pass: 1, Round: 20, Records: 10})
		for _, at := range []id.Round{20, 28, 36} {
			s.cuts.reports(at)
		}
		if got := fmt.Sprint(stepsOf(t, dir)); got != "[28 20]" {
			t.Errorf("the checkpoints are %s", got)
		}
		if asked := fmt.Sprint(servers[0].rounds()); asked != "[19 20 28]" {
			t.Errorf("asked for %s", asked)
		}
		c, err := checkpoint.Find(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if p := c.Manifest.Progress; p.Pass != 2 || p.Batch != 0 {
			t.Errorf("a pass ends at %v", p)
		}
	})
}

// By time, a server may be past the round that was asked for: then a later one is asked for at once.
func TestCutsByTime(t *testing.T) {
	dir := t.TempDir()
	withCuts(t, Checkpoints{Store: dir, Run: "digits-1", Every: time.Minute, Keep: 2}, nil, func(s *Server, servers []*cutServer) {
		s.cuts.reports(20)
		servers[1].set(50, nil)
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if asked := servers[0].rounds(); len(asked) > 0 {
			t.Errorf("asked for %v before its time", asked)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		s.cuts.reports(200)
		asked := servers[1].rounds()
		if len(asked) < 2 || asked[0] != 22 || asked[len(asked)-1] < 50 {
			t.Errorf("asked for %v", asked)
		}
		if got := stepsOf(t, dir); len(got) != 1 || id.Round(got[0]) != asked[len(asked)-1] {
			t.Errorf("the checkpoints are %v", got)
		}
	})
}

// A job that makes no step for the time between two checkpoints, as one that waits for new files, is cut where it is, once.
func TestCutsWhileIdle(t *testing.T) {
	dir := t.TempDir()
	withCuts(t, Checkpoints{Store: dir, Run: "digits-1", Every: time.Minute, Keep: 9}, nil, func(s *Server, servers []*cutServer) {
		s.cuts.reports(20)
		time.Sleep(90 * time.Second)
		s.cuts.reports(21) // the attempt waits for round 22
		time.Sleep(50 * time.Second)
		if got := stepsOf(t, dir); got != nil {
			t.Errorf("the checkpoints are %v, while steps are made", got)
		}
		time.Sleep(10 * time.Minute)
		if got := fmt.Sprint(stepsOf(t, dir)); got != "[21]" {
			t.Errorf("the checkpoints of an idle job are %s", got)
		}
		s.cuts.reports(23)
		if got := fmt.Sprint(stepsOf(t, dir)); got != "[23 21]" {
			t.Errorf("when it goes on, the checkpoints are %s", got)
		}
	})
}

// A job that waits for new files is cut where it is, once, however far the round of its next checkpoint is. One with a time between two checkpoints need not let
// all of it pass.
func TestCutsWhileDry(t *testing.T) {
	for name, c := range map[string]Checkpoints{"by rounds": {Rounds: 1000}, "by time": {Every: 10 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.Store, c.Run, c.Keep, c.Idle = dir, "digits-1", 9, time.Minute
			withCuts(t, c, nil, func(s *Server, servers []*cutServer) {
				s.cuts.reports(20)
				time.Sleep(c.Every + 50*time.Second)
				if got := stepsOf(t, dir); got != nil {
					t.Errorf("the checkpoints are %v, before a minute has passed", got)
				}
				time.Sleep(3 * time.Minute)
				asked := len(servers[0].rounds())
				time.Sleep(10 * time.Minute)
				if got := fmt.Sprint(stepsOf(t, dir)); got != "[20]" {
					t.Errorf("the checkpoints are %s", got)
				}
				if again := len(servers[0].rounds()); again > asked+1 {
					t.Errorf("servers were asked %d times more while nothing was new", again-asked)
				}
			})
		})
	}
}

// Whoever asks for a checkpoint of a job that runs dry meanwhile need not let the time pass after which such a job is cut: the round of the attempt may never come.
func TestCutsWhenAskedBeforeDry(t *testing.T) {
	for _, plan := range []Checkpoints{{Rounds: 1000}, {Every: time.Hour}, {Passes: true}} {
		dir := t.TempDir()
		plan.Store, plan.Run, plan.Keep, plan.Idle = dir, "digits-1", 9, time.Minute
		withCuts(t, plan, nil, func(s *Server, servers []*cutServer) {
			s.cuts.reports(21)
			servers[1].set(22, nil) // a step that is not reported yet
			asked := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
				defer cancel()
				_, err := s.Checkpoint(ctx, &rpc.CheckpointRequest{})
				asked <- err
			}()
			synctest.Wait()
			s.cuts.reports(22) // and is the last one
			if err := <-asked; err != nil {
				t.Errorf("%+v: %v", plan, err)
			}
			if got := fmt.Sprint(stepsOf(t, dir)); got != "[22]" {
				t.Errorf("%+v: the checkpoints are %s", plan, got)
			}
		})
	}
}

// Whoever asks for a checkpoint has one soon, with the steps that were reported, however far the next one is. The plan goes on after it.
func TestCutsWhenAsked(t *testing.T) {
	for _, plan := range []Checkpoints{{Rounds: 1000}, {Every: time.Hour}, {Passes: true}} {
		dir := t.TempDir()
		plan.Store, plan.Run, plan.Keep = dir, "digits-1", 9
		withCuts(t, plan, nil, func(s *Server, servers []*cutServer) {
			s.cuts.reports(20)
			asked := make(chan error, 1)
			ask := func(limit time.Duration) {
				go func() {
					ctx, cancel := context.WithTimeout(s.ctx, limit)
					defer cancel()
					last, err := s.Checkpoint(ctx, &rpc.CheckpointRequest{})
					if err == nil && (last.Steps < 20 || last.Name == "" || last.Store != dir) {
						err = fmt.Errorf("got %v", last)
					}
					asked <- err
				}()
				synctest.Wait()
			}
			ask(time.Minute) // the servers are where the job is
			select {
			case err := <-asked:
				if err != nil {
					t.Errorf("%+v: %v", plan, err)
				}
			default:
				t.Fatalf("%+v: a job that may wait for data is not cut where it is", plan)
			}
			s.cuts.reports(21)
			servers[1].set(22, nil) // and goes on
			ask(time.Minute)
			select {
			case err := <-asked:
				t.Errorf("%+v: answered before the cut: %v", plan, err)
			default:
			}
			ask(time.Minute) // has the same one
			s.cuts.reports(25)
			for range 2 {
				if err := <-asked; err != nil {
					t.Errorf("%+v: %v", plan, err)
				}
			}
			rounds := slices.DeleteFunc(servers[0].rounds(), func(r id.Round) bool { return r != 25 })
			if len(rounds) != 1 {
				t.Errorf("%+v: asked %d times for round 25", plan, len(rounds))
			}
			if got := fmt.Sprint(stepsOf(t, dir)); got != "[25 20]" {
				t.Errorf("%+v: the checkpoints are %s", plan, got)
			}
			synctest.Wait()
			if all := servers[0].rounds(); slices.ContainsFunc(all, func(r id.Round) bool { return r > 25 && r < 1000 }) {
				t.Errorf("%+v: asked for %v, which nobody waits for", plan, all)
			}
			ask(time.Minute) // nothing was trained since
			if err := <-asked; err != nil {
				t.Errorf("%+v: %v", plan, err)
			}
			s.cuts.reports(30)
			servers[1].set(0, fault.E(fault.Unavailable, fault.Got("no room")))
			ask(time.Minute)
			s.cuts.reports(40)
			if err := <-asked; err == nil || !strings.Contains(err.Error(), "no room") {
				t.Errorf("%+v: what fails is not told: %v", plan, err)
			}
			servers[1].set(0, nil)
			ask(time.Hour)
			s.Fail(nil)
			if err := <-asked; !errors.Is(err, fault.Stale) {
				t.Errorf("%+v: at the end of the job: %v", plan, err)
			}
			if rounds := servers[0].rounds(); plan.Rounds > 0 && (rounds[0] != 1000 || !slices.Contains(rounds[1:], 1000)) {
				t.Errorf("asked for %v", rounds)
			}
		})
	}
	if _, err := New(Config{Sync: true}).Checkpoint(t.Context(), &rpc.CheckpointRequest{}); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a job without a store: %v", err)
	}
}

// A pserver that is told to end is named while it waits for its checkpoint. One of an earlier placement has nothing that the job needs.
func TestCutsForServersThatEnd(t *testing.T) {
	dir := t.TempDir()
	withCuts(t, Checkpoints{Store: dir, Run: "digits-1", Keep: 9, Rounds: 1000}, nil, func(s *Server, servers []*cutServer) {
		s.cuts.reports(20)
		servers[1].set(22, nil) // goes on
		asked := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
			defer cancel()
			last, err := s.Checkpoint(ctx, &rpc.CheckpointRequest{Who: "pserver 1", Ends: true})
			if err == nil && last.Steps < 20 {
				err = fmt.Errorf("got %v", last)
			}
			asked <- err
		}()
		synctest.Wait()
		waiting := func(w *job.Wait) bool {
			return w.Who == "pserver 1" && w.What == "a checkpoint, after which it ends as it was told" && slices.Equal(w.By, []string{dir}) && w.Until != nil
		}
		if list := s.monitor.List(); !slices.ContainsFunc(list, waiting) {
			t.Errorf("the waits are %v", list)
		}
		s.cuts.reports(25)
		if err := <-asked; err != nil {
			t.Error(err)
		}
		servers[1].set(0, fault.E(fault.Unavailable, fault.Got("no room")))
		s.cuts.reports(30)
		limited, cancel := context.WithTimeout(s.ctx, time.Minute)
		defer cancel()
		if _, err := s.Checkpoint(limited, &rpc.CheckpointRequest{Who: "pserver 1", Ends: true}); !errors.Is(err, fault.DeadlineExceeded) || !strings.Contains(err.Error(), "no room") || limited.Err() != nil {
			t.Errorf("a store that has no room: %v; before the limit: %v", err, limited.Err() == nil)
		}
		s.cfg.Placement = &job.Placement{Number: 2, Pservers: 1}
		if _, err := s.Checkpoint(s.ctx, &rpc.CheckpointRequest{Who: "pserver 1", Ends: true, Placement: 1}); !errors.Is(err, fault.Superseded) {
			t.Errorf("a pserver that the job does not have any more: %v", err)
		}
	})
}

// What fails is told, and tried again. What is there stays.
func TestCutsFail(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "store")
	withCuts(t, Checkpoints{Store: dir, Run: "digits-1", Rounds: 10, Keep: 2}, nil, func(s *Server, servers []*cutServer) {
		s.cuts.reports(20)
		servers[1].set(0, fault.E(fault.Unavailable, fault.Got("no answer")))
		s.cuts.reports(30)
		time.Sleep(time.Minute)
		if got := fmt.Sprint(stepsOf(t, dir)); got != "[30 20]" {
			t.Errorf("the checkpoints are %v", got)
		}
		s.cuts.reports(40)
		s.locked(func() {
			w, ok := s.cuts.wait()
			st := s.cuts.status()
			if !ok || !strings.Contains(w.LastError, "no answer") || w.By[0] != dir || st.FailingSinceMs == 0 || st.Failure == nil {
				t.Errorf("nobody is told: %v, %v", w, st)
			}
		})
		servers[1].set(0, nil)
		time.Sleep(2 * time.Minute)
		s.cuts.reports(100)
		if got := stepsOf(t, dir); len(got) != 2 || got[0] < 50 {
			t.Errorf("the checkpoints are %v", got)
		}
		s.locked(func() {
			if w, ok := s.cuts.wait(); ok {
				t.Errorf("what is over is told: %v", w)
			}
		})
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir, nil, 0o600); err != nil { // the manifest of no checkpoint can be written
			t.Fatal(err)
		}
		s.cuts.reports(200)
		time.Sleep(time.Minute)
		s.locked(func() {
			if !errors.Is(s.cuts.reason, fault.Unavailable) {
				t.Errorf("a store that is gone: %v", s.cuts.reason)
			}
		})
	})
}

// A cut behind the last round, which tasks that were discarded have moved, is no failure of the store. It does not hide one either.
func TestCutBehindTheLastRound(t *testing.T) {
	withCuts(t, Checkpoints{Store: t.TempDir(), Run: "digits-1", Rounds: 10, Keep: 2}, nil, func(s *Server, servers []*cutServer) {
		fails := func() (since int64) {
			s.locked(func() {
				since = s.cuts.status().FailingSinceMs
				if _, told := s.cuts.wait(); told != (since > 0) {
					t.Errorf("waits: %t, fails since %d", told, since)
				}
			})
			return since
		}
		s.cuts.reports(20)
		servers[1].set(0, fault.E(fault.Stale, fault.Got("a cut at round 40"), fault.Want("one before the last round")))
		s.cuts.reports(30)
		asked := len(servers[1].rounds())
		time.Sleep(2 * mostRetry)
		if now := len(servers[1].rounds()); now <= asked || now > asked+10 {
			t.Errorf("asked %d times, then %d times", asked, now)
		}
		if since := fails(); since != 0 {
			t.Errorf("fails since %d", since)
		}
		servers[1].set(0, fault.E(fault.Unavailable, fault.Got("no room")))
		time.Sleep(2 * mostRetry)
		since := fails()
		servers[1].set(0, fault.E(fault.Stale))
		time.Sleep(2 * mostRetry)
		if since == 0 || fails() != since {
			t.Errorf("fails since %d, then %d", since, fails())
		}
	})
}

// A store that takes bytes and never answers is told after some time, and the attempt is given up.
func TestCutsHang(t *testing.T) {
	withCuts(t, Checkpoints{Store: t.TempDir(), Run: "digits-1", Rounds: 10, Keep: 2}, nil, func(s *Server, servers []*cutServer) {
		told := func() (w waits.Wait, ok bool) {
			s.locked(func() { w, ok = s.cuts.wait() })
			return w, ok
		}
		servers[1].mu.Lock()
		servers[1].hangs = true
		servers[1].mu.Unlock()
		s.cuts.reports(20) // the cut that was asked for before
		s.cuts.reports(30)
		time.Sleep(cutTold)
		if w, ok := told(); ok {
			t.Errorf("told at once: %v", w)
		}
		time.Sleep(time.Second)
		if w, ok := told(); !ok || !strings.Contains(w.What, "the checkpoint of round 30") {
			t.Errorf("after %v: %v", cutTold, w)
		}
		time.Sleep(cutDeadline)
		if w, ok := told(); !ok || w.LastError == "" {
			t.Errorf("after %v: %v", cutDeadline, w)
		}
	})
}

// A job that goes on refuses files that are not those that it has read before. Their folder does not matter.
func TestSameDataset(t *testing.T) {
	file := func(path string, print uint64) *rpc.DataFile {
		return &rpc.DataFile{Path: path, Records: 10, Bytes: 100, Fingerprint: print}
	}
	d := &dispatch{core: &core{cfg: Config{Datasets: []*rpc.Dataset{{Name: "d", Files: []*rpc.DataFile{file("/a/x", 1), file("/a/y", 2)}}}}}}
	for _, same := range []struct {
		name  string
		files []*rpc.DataFile
	}{{"d", []*rpc.DataFile{file("/b/x", 1), file("/b/y", 2)}}, {"other", nil}} {
		if err := d.sameAsBefore(same.name, same.files); err != nil {
			t.Error(err)
		}
	}
	longer := file("/a/y", 2)
	longer.Records++
	more := []*rpc.DataFile{file("/a/x", 1), file("/a/y", 2), file("/a/z", 3)}
	d.cfg.Datasets[0].Grows = true
	if err := d.sameAsBefore("d", more); err != nil {
		t.Errorf("more files of a folder that was followed: %v", err)
	}
	d.cfg.Datasets[0].Grows = false
	larger := file("/a/y", 2)
	larger.Bytes++
	for says, files := range map[string][]*rpc.DataFile{
		`without "/a/y"`:      {file("/a/x", 1)},
		`with "/a/z"`:         more,
		`"/a/z" of 10`:        {file("/a/x", 1), file("/a/z", 2)},
		"0000000000000003":    {file("/a/x", 1), file("/a/y", 3)},
		"11 records":          {file("/a/x", 1), longer},
		"101 bytes":           {file("/a/x", 1), larger},
		`want "/a/x" of 10 r`: {file("/a/y", 2), file("/a/x", 1)},
	} {
		if err := d.sameAsBefore("d", files); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want something of %s", err, says)
		}
	}
}

// The steps of an async cut are those of the ledger, and of each push that has begun somewhere and is not in the ledger: from where its trainer began, or from its
// push before.
func TestStepsOfAnAsyncCut(t *testing.T) {
	held := []*rpc.HoldResponse{
		{Steps: 100, Ledger: []*rpc.StepBound{{Rank: 0, Below: 46}, {Rank: 1, Below: 43}}, Begun: []*rpc.StepBound{{Rank: 0, Below: 46}, {Rank: 1, Below: 46}}},
		{Begun: []*rpc.StepBound{{Rank: 0, Below: 49}, {Rank: 2, Below: 42}}},
	}
	below, steps := boundsOf(held, 40)
	if want := id.Round(100 + 3 + 3 + 2); steps != want {
		t.Errorf("%d steps, want %d", steps, want)
	}
	got := map[uint32]uint64{}
	for _, b := range below {
		got[b.Rank] = b.Below
	}
	if want := map[uint32]uint64{0: 49, 1: 46, 2: 42}; !maps.Equal(got, want) {
		t.Errorf("the cut has the steps below %v, want %v", got, want)
	}
}
