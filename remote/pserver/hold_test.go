package pserver_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/wire"
)

// Pushes count by the steps that they have: the ledger of an async job, and so its cuts, say how many batches were trained. More than a trainer may add up are refused.
func TestStepsOfPushes(t *testing.T) {
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, false, 1, 2))
	a := pstest.Trainer{Client: s.Client}
	push := func(step uint64, steps uint32) error {
		if _, err := a.Send(t.Context(), step, "w0@GRAD", pstest.Filled(2, 1)); err != nil {
			t.Fatal(err)
		}
		from := int64(step)
		return a.Declare(t.Context(), step, &rpc.Declared{Rows: 1, Steps: steps, Records: []*rpc.RecordRange{{From: from, To: from + 1}}}, 1)
	}
	if err := push(2, 3); err != nil {
		t.Fatal(err)
	}
	if err := push(3, 0); err != nil { // one that does not say it has one step
		t.Fatal(err)
	}
	l, err := wire.Ledger(t.Context(), "pserver 0", s.Client, &rpc.LedgerRequest{Job: pstest.Identity.Job})
	if err != nil || l.Steps != 4 {
		t.Errorf("the ledger has %d steps, want 4: %v", l.GetSteps(), err)
	}
	if err := push(5000, 1001); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a push of 1001 steps: %v", err)
	}
}

// A cutJob is an async job whose messages come in any order. Trainers are lost now and then.
type cutJob struct {
	t        *rapid.T
	servers  []*cutMachine
	trainers []*cutTrainer
	g        id.Generation
	held     map[id.Rank]id.Round // what servers have answered; nil: no cut is asked for
	asked    int                  // servers that are held
	bounded  int                  // servers that know the steps of the cut
	cuts     int
}

// cutMachine is a server: how many steps of each rank its parameters have, what is in its queue, and what the last cut has.
type cutMachine struct {
	*pserver.Updates
	names   []string
	applied map[id.Rank]id.Round
	queue   []id.Rank
	got     map[id.Rank]id.Round // contributions of the step that is under way
	cut     map[id.Rank]id.Round // nil: none yet
	copying bool
	ledger  map[id.Rank]id.Round // of the first server, as the next one
	entered map[id.Rank]id.Round // of the cut
}

type cutTrainer struct {
	rank  id.Rank
	since id.Generation
	step  id.Round
	sent  []int // by server: contributions of the step
	let   []int
}

func (j *cutJob) begin() {
	j.g++
	e := pserver.Resumed{Generation: j.g}
	for _, r := range j.trainers {
		e.Members = append(e.Members, pserver.Member{Rank: r.rank, Since: r.since, Leader: r.rank})
	}
	for _, s := range j.servers {
		must(j.t, s, e)
	}
	for _, s := range j.servers {
		if s.cut == nil { // the coordinator hears that this one has given the cut up
			j.held = nil
		}
	}
}

// noteCut keeps what a server has when it says that the cut is there.
func (s *cutMachine) noteCut(f pserver.Effects) {
	if f.Cut {
		s.cut, s.copying, s.entered = maps.Clone(s.applied), true, maps.Clone(s.ledger)
	}
}

// Whatever the order of messages, all servers cut between the same two steps of each trainer, and the ledger has exactly these steps.
func TestCutsOfUpdatesProperty(t *testing.T) {
	made := 0
	schedule := func(t *rapid.T) {
		j := &cutJob{t: t}
		n := rapid.IntRange(1, 3).Draw(t, "trainers")
		for i := range rapid.IntRange(1, 3).Draw(t, "servers") {
			names := []string{"a", "b"}[:rapid.IntRange(max(0, 1-i), 2).Draw(t, "variables")] // some server has one
			j.servers = append(j.servers, &cutMachine{Updates: pserver.NewUpdates(n, names), names: names, applied: map[id.Rank]id.Round{},
				got: map[id.Rank]id.Round{}, ledger: map[id.Rank]id.Round{}})
		}
		for rank := range id.Rank(n) {
			j.trainers = append(j.trainers, &cutTrainer{rank: rank, since: 1, sent: make([]int, len(j.servers)), let: make([]int, len(j.servers))})
		}
		j.begin()
		for range rapid.IntRange(1, 1000).Draw(t, "events") {
			j.act()
		}
		made += j.cuts
	}
	for range 10 { // a short test draws few schedules at a time
		if rapid.Check(t, schedule); made >= 100 {
			return
		}
	}
	t.Errorf("only %d cuts were made", made)
}

func (j *cutJob) act() {
	i := rapid.IntRange(0, len(j.servers)-1).Draw(j.t, "server")
	s := j.servers[i]
	switch rapid.IntRange(0, 9).Draw(j.t, "action") {
	case 0, 1, 2, 3:
		j.train(rapid.SampledFrom(j.trainers).Draw(j.t, "trainer"), i)
	case 4, 5, 6:
		if len(s.queue) > 0 {
			rank := s.queue[0]
			s.queue = s.queue[1:]
			if s.got[rank]++; int(s.got[rank]) == len(s.names) {
				s.got[rank] = 0
				s.applied[rank]++
			}
			s.noteCut(must(j.t, s, pserver.Applied{Rank: rank}))
		}
	case 7, 8:
		j.coordinate()
	case 9:
		if rapid.IntRange(0, 9).Draw(j.t, "lost") == 0 {
			j.begin() // of the same members: one more has come, or somebody else is gone
		}
	}
}

// train does what a trainer may do next at a server.
func (j *cutJob) train(r *cutTrainer, i int) {
	s := j.servers[i]
	from := pserver.Sender{Rank: r.rank, Round: r.step, Generation: r.since}
	switch {
	case r.sent[i] < r.let[i]:
		must(j.t, s, pserver.Received{Sender: from, Variable: s.names[r.sent[i]]})
		r.sent[i]++
		s.queue = append(s.queue, r.rank)
	case r.let[i] < len(s.names):
		f, err := s.Step(0, pserver.Offered{Sender: from, Variable: s.names[r.let[i]]})
		if err != nil {
			j.t.Fatal(err)
		}
		if !f.Hold {
			r.let[i]++
		}
	default: // all is sent to this server; to the others, too?
		for k, other := range j.servers {
			f, err := other.Step(0, pserver.Read{Sender: from})
			if err != nil || f.Hold || r.sent[k] < len(other.names) {
				return
			}
		}
		first := j.servers[0]
		f := must(j.t, first, pserver.Declared{Sender: from, Variables: len(first.names), Declaration: pserver.Declaration{Rows: int64(min(1, len(first.names)))}})
		r.step++
		first.ledger[r.rank] = r.step
		clear(r.sent)
		clear(r.let)
		first.noteCut(f)
	}
}

// coordinate is the next thing that a coordinator does for a cut.
func (j *cutJob) coordinate() {
	switch {
	case j.held == nil:
		for _, s := range j.servers {
			if s.copying {
				must(j.t, s, pserver.LetGo{})
				s.copying = false
			}
			s.cut = nil
		}
		j.held, j.asked, j.bounded = map[id.Rank]id.Round{}, 0, 0
	case j.asked < len(j.servers):
		s := j.servers[j.asked]
		if _, err := s.Step(0, pserver.Held{Generation: j.g}); err != nil {
			j.t.Fatal(err)
		}
		begun, _ := s.NextSteps()
		for rank, next := range begun {
			j.held[rank] = max(j.held[rank], next)
		}
		j.asked++
	case j.bounded < len(j.servers):
		f := must(j.t, j.servers[j.bounded], pserver.Bounded{Below: j.held, Ledger: j.bounded == 0})
		j.servers[j.bounded].noteCut(f)
		j.bounded++
	default:
		for _, s := range j.servers {
			if s.cut == nil {
				return
			}
			if s.copying {
				must(j.t, s, pserver.LetGo{})
				s.copying = false
				return
			}
		}
		for _, r := range j.trainers {
			if got := j.servers[0].entered[r.rank]; got != j.held[r.rank] {
				j.t.Fatalf("the ledger has %d steps of trainer %d, and the cut %d", got, r.rank, j.held[r.rank])
			}
			for i, s := range j.servers {
				if len(s.names) > 0 && s.cut[r.rank] != j.held[r.rank] {
					j.t.Fatalf("server %d has cut after %d steps of trainer %d, and the cut has %d", i, s.cut[r.rank], r.rank, j.held[r.rank])
				}
			}
		}
		j.held = nil
		j.cuts++
	}
}

// hold asks a server to hold steps for a cut.
func (c cutter) hold(ctx context.Context, generation uint64, name string) (map[uint32]uint64, error) {
	own := pstest.Identity
	own.Generation = id.Generation(generation)
	a, err := c.server.Client.Hold(ctx, &rpc.HoldRequest{Id: own.Of(0, 0, 0), Hold: name})
	begun := map[uint32]uint64{}
	for _, b := range a.GetBegun() {
		begun[b.Rank] = b.Below
	}
	return begun, wire.FromStatus("pserver", err)
}

// bound asks for the cut that has the steps below some, by rank.
func (c cutter) bound(ctx context.Context, name string, below map[uint32]uint64) (*rpc.CutResponse, error) {
	m := &rpc.CutRequest{Id: pstest.Identity.Of(0, 0, 0), Store: c.dir, Name: name, Hold: name}
	for rank, step := range below {
		m.Below = append(m.Below, &rpc.StepBound{Rank: rank, Below: step})
	}
	a, err := c.server.Client.Cut(ctx, m)
	return a, wire.FromStatus("pserver", err)
}

// cutUpdates cuts all servers of an async job, as a coordinator does. The ledger is that of the first.
func cutUpdates(ctx context.Context, dir, name string, servers ...*pstest.Server) ([]*rpc.CutResponse, error) {
	below := map[uint32]uint64{}
	for _, s := range servers {
		begun, err := cutter{s, dir}.hold(ctx, g, name)
		if err != nil {
			return nil, err
		}
		for rank, step := range begun {
			below[rank] = max(below[rank], step)
		}
	}
	answers := make([]*rpc.CutResponse, len(servers))
	return answers, pstest.Parallel(len(servers), func(i int) (err error) {
		answers[i], err = cutter{servers[i], dir}.bound(ctx, name, below)
		return err
	})
}

// stepAlone trains one step of an async trainer on some servers, each with w0. It takes 1 from each element of each, and trains the record of its number.
func stepAlone(ctx context.Context, rank uint32, step uint64, servers ...*pstest.Server) error {
	for _, s := range servers {
		r := pstest.Trainer{Client: s.Client, Rank: rank}
		if _, err := r.Send(ctx, step, "w0@GRAD", pstest.Filled(4, 1)); err != nil {
			return err
		}
	}
	for _, s := range servers {
		if _, _, err := (pstest.Trainer{Client: s.Client, Rank: rank}).Get(ctx, 0, "w0", 4); err != nil {
			return err
		}
	}
	records := []*rpc.RecordRange{{From: int64(rank)<<32 + int64(step), To: int64(rank)<<32 + int64(step) + 1}}
	return pstest.Trainer{Client: servers[0].Client, Rank: rank}.Declare(ctx, step, &rpc.Declared{Rows: 1, Records: records}, 1)
}

// While trainers go on, cuts of two servers have the same updates, and the ledger has exactly their records.
func TestCutOfUpdates(t *testing.T) {
	const trainers, cuts = 3, 8
	cfg := pstest.Config(trainers)
	one := pstest.Start(t, cfg, pstest.SGD(0, false, 1, 4))
	cfg.Index = 1
	other := pstest.Start(t, cfg, pstest.SGD(0, false, 1, 4))
	dir := t.TempDir()
	var over atomic.Bool
	trained := make(chan error, 1)
	go func() {
		trained <- pstest.Parallel(trainers, func(rank int) error {
			for step := uint64(0); !over.Load(); step++ {
				if err := stepAlone(t.Context(), uint32(rank), step, one, other); err != nil {
					return fmt.Errorf("step %d of trainer %d: %w", step, rank, err)
				}
			}
			return nil
		})
	}()
	for range cuts {
		name := checkpoint.NewName("job", 0)
		answers, err := cutUpdates(t.Context(), dir, name, one, other)
		if err != nil {
			t.Fatal(err)
		}
		ledger, err := pserver.DecodeLedger(answers[0].Ledger)
		if err != nil {
			t.Fatal(err)
		}
		steps := float32(answers[0].Steps)
		if got := ledger.Committed(0).Count(); got != int64(steps) {
			t.Errorf("a ledger of %d records after %v steps", got, steps)
		}
		for i := range answers {
			shard, err := os.ReadFile(filepath.Join(dir, name, fmt.Sprintf("shard-%d", i)))
			if err != nil {
				t.Fatal(err)
			}
			if got := math.Float32frombits(binary.LittleEndian.Uint32(shard[12:])); len(shard) != 16 || got != -steps {
				t.Errorf("server %d has cut %v after %v steps", i, got, steps)
			}
		}
	}
	over.Store(true)
	if err := <-trained; err != nil {
		t.Error(err)
	}
}

// A hold ends without a cut: when a generation begins, when another cut is asked for, and after the round deadline. Then nothing of it is left.
func TestHoldEnds(t *testing.T) {
	s := pstest.Start(t, pstest.Config(2), pstest.SGD(0, false, 1, 4))
	c := cutter{s, t.TempDir()}
	if err := stepAlone(t.Context(), 0, 0, s); err != nil {
		t.Fatal(err)
	}
	names := []string{checkpoint.NewName("job", 1), checkpoint.NewName("job", 1), checkpoint.NewName("job", 1)}
	if _, err := c.bound(t.Context(), names[0], nil); !errors.Is(err, fault.Superseded) {
		t.Errorf("a cut for which nothing is held: %v", err)
	}
	if _, err := c.hold(t.Context(), g+1, names[0]); !errors.Is(err, fault.Superseded) {
		t.Errorf("a hold in another generation: %v", err)
	}
	if begun, err := c.hold(t.Context(), g, names[0]); err != nil || !maps.Equal(begun, map[uint32]uint64{0: 1}) {
		t.Fatal(begun, err)
	}
	waits := make(chan error, 1) // for a step that does not come
	go func() {
		_, err := c.bound(t.Context(), names[0], map[uint32]uint64{0: 2})
		waits <- err
	}()
	sent := make(chan error, 1) // a step that is not in the cut
	go func() { sent <- stepAlone(t.Context(), 1, 0, s) }()
	untilWaits(t, s, "a checkpoint, for which steps that begin are held")
	if err := s.Resume(g+1, 0, pstest.Members(0, 1)); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if err := <-waits; !errors.Is(err, fault.Superseded) {
		t.Errorf("the cut that a generation has overtaken: %v", err)
	}
	if _, err := c.hold(t.Context(), g+1, names[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := c.hold(t.Context(), g+1, names[2]); err != nil {
		t.Fatal(err)
	}
	if _, err := c.bound(t.Context(), names[1], nil); !errors.Is(err, fault.Superseded) {
		t.Errorf("the cut that another one has overtaken: %v", err)
	}
	below := map[uint32]uint64{0: 1, 1: 1}
	first, err := c.bound(t.Context(), names[2], below)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.bound(t.Context(), names[2], below); err != nil || !bytes.Equal(again.Shard.Sha256, first.Shard.Sha256) || again.Steps != 2 {
		t.Errorf("the same cut again: %v, %v", again, err)
	}
	sync := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 4))
	if _, err := (cutter{sync, c.dir}).hold(t.Context(), g, names[0]); !errors.Is(err, fault.Unsupported) {
		t.Errorf("a hold of a sync job: %v", err)
	}
}

// A coordinator that says no more holds trainers up for the round deadline.
func TestHoldIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := pstest.Config(1)
		cfg.RoundDeadline = time.Minute
		s := pserver.New(cfg)
		served := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		p := pstest.SGD(0, false, 1, 4)
		go func() { served <- s.Serve(ctx, p.Op(), p) }()
		own := pstest.Identity.Of(0, 0, 0)
		if _, err := s.Resume(ctx, &rpc.ResumeRequest{Id: own, Members: pstest.Members(0)}); err != nil {
			t.Fatal(err)
		}
		name, store := checkpoint.NewName("job", 0), t.TempDir()
		if _, err := s.Hold(ctx, &rpc.HoldRequest{Id: own, Hold: name}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := s.Cut(ctx, &rpc.CutRequest{Id: own, Store: store, Name: name, Hold: name, Below: []*rpc.StepBound{{Rank: 0, Below: 1}}})
		if took := time.Since(began); !errors.Is(err, fault.DeadlineExceeded) || took != time.Minute {
			t.Errorf("after %v a cut whose step does not come ends with %v", took, err)
		}
		stop()
		<-served
	})
}
