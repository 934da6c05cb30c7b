package pserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/tensor"
)

// A deadline that passes at the same moment as its wait ends has no effect, also when the server waits for the same thing again.
func TestDeadlineThatWasReplacedWhileItFired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCore(Config{Servers: 2, MaxTrainers: 1, StartDeadline: time.Hour, RoundDeadline: time.Minute})
		c.rounds = NewRounds(1, []string{"w"}, 0)
		c.machine = c.rounds
		waitsFor := func(peers map[int]int) {
			c.sums.awaited = peers
			c.watch()
		}
		c.Lock()
		if _, err := c.step(Resumed{Generation: 1, Members: []Member{{Rank: 0, Since: 1}}}); err != nil {
			t.Fatal(err)
		}
		waitsFor(map[int]int{1: 1})
		c.Unlock()
		time.Sleep(time.Minute - time.Nanosecond)
		c.Lock()
		time.Sleep(time.Nanosecond) // the timer has fired and asks for the lock
		waitsFor(nil)
		waitsFor(map[int]int{1: 1})
		c.Unlock()
		time.Sleep(time.Second)
		c.Lock()
		err := c.Err()
		waitsFor(nil)
		c.Unlock()
		if err != nil {
			t.Error(err)
		}
	})
}

// Who waits for a round waits for those who can end it, and never for the server that says so.
func TestRoundNamesWhoIsAwaited(t *testing.T) {
	c := newCore(Config{Servers: 2, MaxTrainers: 1, StartDeadline: time.Hour, RoundDeadline: time.Hour})
	c.rounds = NewRounds(1, []string{"w"}, 0)
	c.machine = c.rounds
	c.Lock()
	defer c.Unlock()
	says := func(what string, by ...string) {
		t.Helper()
		w := c.forRound(528)
		w.Tell(&w)
		if w.What != what || !slices.Equal(w.By, by) {
			t.Errorf("%q by %v, want %q by %v", w.What, w.By, what, by)
		}
	}
	says("round 528, in the next generation", "coordinator")
	if _, err := c.step(Resumed{Generation: 1, Members: []Member{{Rank: 0, Since: 1}}}); err != nil {
		t.Fatal(err)
	}
	says("round 528", "trainer 0")
	c.rounds.applying = true
	says("round 528, which it applies itself")
	c.sums.awaited = map[int]int{1: 1}
	says("partial sums of round 528", "pserver 1")
	c.sums.awaited, c.unfollowed = nil, 1
	says("round 528, of which a standby in step has to know", "standby of pserver 0")
}

// Buffers returns how many buffers are free for contributions.
func (s *Server) Buffers() int {
	s.core.Lock()
	defer s.core.Unlock()
	n := 0
	for _, free := range s.core.inbox.free {
		n += len(free)
	}
	return n
}

// ArrivedSlices returns how many contributions to the open round are here.
func (s *Server) ArrivedSlices() int {
	s.core.Lock()
	defer s.core.Unlock()
	n := 0
	for _, byRank := range s.core.inbox.arrived {
		n += len(byRank)
	}
	return n
}

// Lines returns how many data connections the server has.
func (s *Server) Lines() int {
	s.core.Lock()
	defer s.core.Unlock()
	return len(s.core.lines)
}

// CopierWaits reports whether somebody waits for the end of a round, to copy variables.
func (s *Server) CopierWaits() bool {
	free := s.values.TryRLock()
	if free {
		s.values.RUnlock()
	}
	return !free
}

// blocks is a program that writes down which blocks it runs.
type blocks struct {
	variables map[string]*tensor.Tensor
	ran       []string
	fails     program.BlockIndex
}

func (b *blocks) RunBlock(_ context.Context, block program.BlockIndex, step ops.Step) error {
	b.ran = append(b.ran, fmt.Sprintf("block %d in round %d over %d rows, gradient %v", block, step.Round, step.Rows, b.variables["g"].Float32s()))
	if block == b.fails {
		return errors.New("failed")
	}
	return nil
}

func (b *blocks) Variable(name string) (*tensor.Tensor, bool) {
	t, ok := b.variables[name]
	return t, ok
}

func vector(t *testing.T, values ...float32) *tensor.Tensor {
	v, err := tensor.New(tensor.Float32, int64(len(values)))
	if err != nil {
		t.Fatal(err)
	}
	copy(v.Float32s(), values)
	return v
}

// An inbox lends buffers, keeps as many free ones as there are members, and gives what has arrived to the merge, in the order of contributors.
func TestInbox(t *testing.T) {
	service := &comm.Service{Grads: []comm.Contribution{{Name: "g"}}}
	if _, err := newInbox(service, &blocks{}); !errors.Is(err, fault.InvalidProgram) {
		t.Errorf("an inbox for a variable that is not there: %v", err)
	}
	b, err := newInbox(service, &blocks{variables: map[string]*tensor.Tensor{"g": vector(t, 0, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.take("h"); !errors.Is(err, fault.Foreign) {
		t.Errorf("a buffer for another variable: %v", err)
	}
	b.keepFor(2)
	for rank := range id.Rank(3) {
		buffer, err := b.take("g")
		if err != nil || buffer.Len() != 2 {
			t.Fatal(buffer, err)
		}
		b.arrived["g"][rank] = buffer
	}
	third, first := b.arrived["g"][2], b.arrived["g"][0]
	shares := b.shares("g", []Declaration{{Rank: 0, Rows: 5}, {Rank: 2, Rows: 6}})
	if len(shares) != 2 || shares[0].Value != first || shares[0].Rows != 5 || shares[1].Value != third || shares[1].Rows != 6 {
		t.Errorf("shares %v", shares)
	}
	b.recycle()
	if len(b.free["g"]) != 2 || len(b.arrived["g"]) != 0 {
		t.Errorf("%d buffers are kept for 2 members, %d still in use", len(b.free["g"]), len(b.arrived["g"]))
	}
	b.keepFor(1)
	if kept := b.free["g"][0]; len(b.free["g"]) != 1 {
		t.Errorf("%d buffers are kept for 1 member", len(b.free["g"]))
	} else if again, err := b.take("g"); again != kept || err != nil {
		t.Errorf("the next buffer is %p, %v; want %p", again, err, kept)
	}
}

// A line takes its memory back when nobody reads it any more. What has arrived there keeps its values and is free for others when its round has ended;
// what is still in the memory never is.
func TestWithdraw(t *testing.T) {
	c := newCore(Config{MaxTrainers: 1})
	var err error
	if c.inbox, err = newInbox(&comm.Service{Grads: []comm.Contribution{{Name: "g"}, {Name: "h"}}},
		&blocks{variables: map[string]*tensor.Tensor{"g": vector(t, 0, 0), "h": vector(t, 0)}}); err != nil {
		t.Fatal(err)
	}
	c.inbox.keepFor(2)
	memory := vector(t, 1, 2)
	view, err := memory.Reshape(2)
	if err != nil {
		t.Fatal(err)
	}
	l := &line{server: &Server{core: c}, send: dataplane.Table{{Name: "g"}, {Name: "h"}}, lent: []*tensor.Tensor{view, vector(t, 5)}}
	for _, lent := range l.lent {
		c.inbox.lent[lent] = true
	}
	c.inbox.give("h", l.lent[1])
	c.inbox.arrived["g"][0] = view
	done := make(chan struct{})
	c.inbox.elements.RLock()
	go func() {
		l.withdraw()
		close(done)
	}()
	for c.inbox.elements.TryRLock() { // until withdraw waits for this reader
		c.inbox.elements.RUnlock()
		select {
		case <-done:
			t.Fatal("memory is taken back while somebody reads it")
		default:
		}
	}
	if &view.Float32s()[0] != &memory.Float32s()[0] {
		t.Error("memory is replaced while somebody reads it")
	}
	c.inbox.elements.RUnlock()
	<-done
	memory.Float32s()[0] = 7
	if view.Float32s()[0] != 1 || view.Float32s()[1] != 2 {
		t.Errorf("what has arrived is %v, want {1 2}", view)
	}
	c.inbox.recycle()
	if len(c.inbox.free["g"]) != 1 || len(c.inbox.free["h"]) > 0 || len(c.inbox.lent) > 0 {
		t.Errorf("free %v, lent %v", c.inbox.free, c.inbox.lent)
	}
}

// A round merges, then runs the prepare, global, learning-rate and optimize blocks in this order, and ends with the first block that fails.
func TestStepper(t *testing.T) {
	p := &blocks{variables: map[string]*tensor.Tensor{"g": vector(t, 0)}}
	service := &comm.Service{Grads: []comm.Contribution{{Name: "g", Merge: ops.MergeMean}},
		Prepare: []program.BlockIndex{4}, Global: 5, LRDecay: 6, Optimize: []program.BlockIndex{7}}
	box, err := newInbox(service, p)
	if err != nil {
		t.Fatal(err)
	}
	box.arrived["g"][0], box.arrived["g"][2] = vector(t, 1), vector(t, 5)
	s := &stepper{service: service, values: &values{BlockRunner: p}, inbox: &box, workers: 1}
	from := []Declaration{{Rank: 0, Rows: 3}, {Rank: 2, Rows: 1}}
	for fails := range program.BlockIndex(4) {
		p.ran, p.fails = nil, 4+fails
		var want []string
		for block := program.BlockIndex(4); block <= p.fails; block++ {
			want = append(want, fmt.Sprintf("block %d in round 41 over 4 rows, gradient [2]", block))
		}
		if err := s.apply(t.Context(), 41, from); err == nil || !slices.Equal(p.ran, want) {
			t.Errorf("ran %q, want %q; %v", p.ran, want, err)
		}
	}
}

// direct is a program whose gradient is read by an update alone. It writes down what each block sees.
type direct struct {
	blocks
	box  *inbox
	seen []sight
}

type sight struct {
	value    float32
	gradient *float32 // where it is
	form     *float32 // where others see it
	held     bool     // contributions had to stay where they were
}

func (d *direct) ReadByUpdate() map[string]bool { return map[string]bool{"g": true} }

func (d *direct) RunBlock(ctx context.Context, block program.BlockIndex, step ops.Step) error {
	free := d.box.elements.TryLock()
	if free {
		d.box.elements.Unlock()
	}
	gradient, form := d.variables["g"].Float32s(), d.box.forms["g"].Float32s()
	d.seen = append(d.seen, sight{gradient[0], &gradient[0], &form[0], !free})
	return d.blocks.RunBlock(ctx, block, step)
}

// The only contribution to a round is read where it is, and not longer than the round is applied, also when that fails. Programs that exchange something in
// the middle of a round copy it.
func TestOneContributor(t *testing.T) {
	one, two := []Declaration{{Rank: 2, Rows: 3}}, []Declaration{{Rank: 0, Rows: 1}, {Rank: 2, Rows: 1}}
	for name, c := range map[string]struct {
		from     []Declaration
		prepare  []program.BlockIndex
		global   program.BlockIndex
		fails    program.BlockIndex
		inPlace  bool
		received bool // by trainers that ask for the gradient
	}{
		"one":                   {from: one, global: comm.NoBlock, inPlace: true},
		"one, and a failure":    {from: one, global: comm.NoBlock, fails: 7, inPlace: true},
		"two":                   {from: two, global: comm.NoBlock},
		"an exchange":           {from: one, global: 5, received: true},
		"a part of an exchange": {from: one, global: comm.NoBlock, prepare: []program.BlockIndex{4}, received: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &direct{blocks: blocks{variables: map[string]*tensor.Tensor{"g": vector(t, 0)}, fails: c.fails}}
			service := &comm.Service{Sync: true, Grads: []comm.Contribution{{Name: "g", Merge: ops.MergeMean}}, LRDecay: comm.NoBlock,
				Prepare: c.prepare, Global: c.global, Optimize: []program.BlockIndex{7}}
			box, err := newInbox(service, p)
			if err != nil {
				t.Fatal(err)
			}
			p.box = &box
			own, sent := &p.variables["g"].Float32s()[0], vector(t, 5)
			box.arrived["g"][0], box.arrived["g"][2] = vector(t, 5), sent
			v := &values{BlockRunner: p}
			s := &stepper{service: service, values: v, inbox: &box, workers: 1}
			if err := s.apply(t.Context(), 1, c.from); (err != nil) != (c.fails > 0) {
				t.Fatal(err)
			}
			want := sight{5, own, own, false}
			if c.inPlace {
				want = sight{5, &sent.Float32s()[0], own, true}
			}
			if len(p.seen) == 0 || slices.ContainsFunc(p.seen, func(got sight) bool { return got != want }) {
				t.Errorf("the blocks have seen %v, want %v", p.seen, want)
			}
			if &p.variables["g"].Float32s()[0] != own || !box.elements.TryLock() {
				t.Error("after the round the gradient is not in its own memory, or that of the contribution is still held")
			}
			if _, ok := box.received(v)("g"); ok != c.received {
				t.Errorf("trainers may receive the gradient: %v", ok)
			}
		})
	}
}

// Tasks in parallel are never more than there are workers. Those that begin after ctx has ended fail; the error is that of the first task that
// failed.
func TestInParallel(t *testing.T) {
	for workers := 1; workers <= 3; workers++ {
		var running, most, ran, late atomic.Int32
		var ended atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		tasks := make([]func() error, 20)
		for i := range tasks {
			tasks[i] = func() error {
				n := running.Add(1)
				defer running.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				if ended.Load() { // its worker looked at ctx before the end: at most one for each of the others
					late.Add(1)
				}
				if ran.Add(1) == 10 {
					cancel()
					ended.Store(true)
				}
				return nil
			}
		}
		if err := inParallel(ctx, workers, tasks); !errors.Is(err, context.Canceled) || most.Load() > int32(workers) || late.Load() > int32(workers-1) {
			t.Errorf("%d workers: %v; at most %d of %d ran at once, %d began after the end", workers, err, most.Load(), ran.Load(), late.Load())
		}
		second, last := errors.New("second"), errors.New("last")
		tasks = []func() error{func() error { return nil }, func() error { return second }, func() error { return last }}
		if err := inParallel(t.Context(), workers, tasks); err != second {
			t.Errorf("%d workers: %v", workers, err)
		}
	}
}

// Partial sums are there for the last two rounds, whatever the round that a job starts at.
func TestPartialSums(t *testing.T) {
	p := newPartialSums()
	one, two, three := vector(t, 1), vector(t, 2), vector(t, 3)
	p.publish("norm", 41, one)
	p.publish("norm", 42, two)
	for round, want := range map[id.Round]*tensor.Tensor{41: one, 42: two, 43: nil, 44: nil} {
		if got, err := p.find("norm", round); got != want || err != nil {
			t.Errorf("round %d: %v, %v", round, got, err)
		}
	}
	if got, err := p.find("other", 0); got != nil || err != nil {
		t.Errorf("another name: %v, %v", got, err)
	}
	p.publish("norm", 43, three)
	if got, err := p.find("norm", 43); got != three || err != nil {
		t.Error(got, err)
	}
	if _, err := p.find("norm", 41); !errors.Is(err, fault.Stale) {
		t.Errorf("a round long past: %v", err)
	}
	p.awaited[2], p.awaited[0] = 1, 2
	if got := p.servers(); !slices.Equal(got, []string{"pserver 0", "pserver 2"}) {
		t.Errorf("awaited: %v", got)
	}
}

// A ledger counts its ranges, which are bounded, over all passes.
func TestLedgerCountsRanges(t *testing.T) {
	l := &Ledger{}
	for _, c := range []struct {
		pass     int32
		from, to int64
		want     int
	}{{0, 0, 2, 1}, {0, 6, 8, 2}, {1, 0, 2, 3}, {0, 3, 4, 4}, {0, 2, 3, 3}, {0, 0, 9, 2}} {
		if err := l.Commit(c.pass, []ranges.Range{{From: c.from, To: c.to}}); err != nil || l.ranges != c.want {
			t.Errorf("with [%d, %d) of pass %d there are %d ranges, want %d; %v", c.from, c.to, c.pass, l.ranges, c.want, err)
		}
	}
}
