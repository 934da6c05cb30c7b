package pserver_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A cutter asks for cuts, as the coordinator does.
type cutter struct {
	server *pstest.Server
	dir    string
}

func (c cutter) ask(ctx context.Context, round uint64, name string) (*rpc.CutResponse, error) {
	a, err := c.server.Client.Cut(ctx, &rpc.CutRequest{Id: pstest.Identity.Of(0, id.Round(round), 0), Store: c.dir, Name: name})
	return a, wire.FromStatus("pserver 0", err)
}

// start asks without waiting.
func (c cutter) start(ctx context.Context, round uint64, name string) <-chan cutAnswer {
	answer := make(chan cutAnswer, 1)
	go func() {
		r, err := c.ask(ctx, round, name)
		answer <- cutAnswer{r, err}
	}()
	return answer
}

type cutAnswer struct {
	*rpc.CutResponse
	err error
}

// value reads an element of w0 out of a shard.
func (c cutter) value(t *testing.T, name string, shard *job.Shard) float32 {
	t.Helper()
	return c.read(t, name, shard, "w0", 4).Float32s()[3]
}

// read reads a variable of float32 out of a shard.
func (c cutter) read(t *testing.T, name string, shard *job.Shard, variable string, dims ...int64) *tensor.Tensor {
	t.Helper()
	store, err := checkpoint.Open(t.Context(), c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Publish(t.Context(), name, &state.Checkpoint{Progress: &job.Progress{}, Shards: []*job.Shard{shard}}); err != nil {
		t.Fatal(err)
	}
	k, err := store.Read(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := tensor.New(tensor.Float32, dims...)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Load(t.Context(), variable, 0, w); err != nil {
		t.Fatal(err)
	}
	return w
}

// trainRound trains one round of a job with one trainer. It takes 1 from each element, and trains the record of its number.
func trainRound(t *testing.T, s *pstest.Server, round uint64) {
	t.Helper()
	if err := train(t, s, round); err != nil {
		t.Fatal(err)
	}
}

// train is trainRound for goroutines that may not end the test.
func train(t *testing.T, s *pstest.Server, round uint64) error {
	a := pstest.Trainer{Client: s.Client}
	if _, err := a.Send(t.Context(), round, "w0@GRAD", pstest.Filled(4, 1)); err != nil {
		return err
	}
	records := []*rpc.RecordRange{{From: int64(round), To: int64(round) + 1}}
	if err := a.Declare(t.Context(), round, &rpc.Declared{Rows: 1, Records: records}, 1); err != nil {
		return err
	}
	_, _, err := a.Get(t.Context(), round+1, "w0", 4)
	return err
}

func checkCut(t *testing.T, c cutter, name string, round uint64, a *rpc.CutResponse) {
	t.Helper()
	ledger, err := pserver.DecodeLedger(a.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if got := ledger.Committed(0).Count(); got != int64(round) {
		t.Errorf("the ledger of the cut at round %d has %d records", round, got)
	}
	if got := c.value(t, name, a.Shard); got != -float32(round) {
		t.Errorf("the cut at round %d has the value %v", round, got)
	}
}

// A cut has the values of its round, and the records that they were computed from, however many rounds follow before it is written.
func TestCut(t *testing.T) {
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 4))
	c := cutter{s, t.TempDir()}
	round := uint64(0)
	for range 3 { // of the version that is there
		name := checkpoint.NewName("job", round)
		a, err := c.ask(t.Context(), round, name)
		if err != nil || a.Past {
			t.Fatal(a, err)
		}
		checkCut(t, c, name, round, a)
		trainRound(t, s, round)
		round++
	}
	for ahead, made := uint64(1), 0; made < 5; { // of a later one, while rounds go on
		at := round + ahead
		name := checkpoint.NewName("job", at)
		answer := c.start(t.Context(), at, name)
		var a cutAnswer
		for a.CutResponse == nil && a.err == nil {
			trainRound(t, s, round)
			round++
			select {
			case a = <-answer:
			default:
			}
		}
		switch {
		case a.err != nil:
			t.Fatal(a.err)
		case a.Past && a.Round <= at:
			t.Fatalf("version %d is past round %d", a.Round, at)
		case a.Past:
			ahead *= 2
		default:
			checkCut(t, c, name, at, a.CutResponse)
			made++
		}
	}
}

// A cut of the version that is there, asked for while the round after it comes in, is made or is past. It must not wait for a version that never comes again.
func TestCutWhileARoundBegins(t *testing.T) {
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 4))
	c := cutter{s, t.TempDir()}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of all
	defer cancel()
	made := 0
	for round := range uint64(150) {
		name := checkpoint.NewName("job", round)
		answer := c.start(ctx, round, name)
		for range rand.IntN(200) {
			runtime.Gosched()
		}
		trainRound(t, s, round)
		a := <-answer
		switch {
		case a.err != nil:
			t.Fatalf("round %d: %v", round, a.err)
		case a.Past && a.Round <= round:
			t.Fatalf("version %d is past round %d", a.Round, round)
		case !a.Past:
			checkCut(t, c, name, round, a.CutResponse)
			made++
		}
	}
	t.Logf("%d of 150 were made", made)
}

// A cut that waits ends when another takes its place, and at the end of the job. The same one again is the same.
func TestCutWaits(t *testing.T) {
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 4))
	c := cutter{s, t.TempDir()}
	one, other := c.start(t.Context(), 2, checkpoint.NewName("job", 2)), c.start(t.Context(), 2, checkpoint.NewName("job", 2))
	var a cutAnswer
	left := other
	select {
	case a = <-one:
	case a = <-other:
		left = one
	}
	if !errors.Is(a.err, fault.Superseded) {
		t.Fatalf("the cut that came first is told %v, %v", a.CutResponse, a.err)
	}
	trainRound(t, s, 0)
	trainRound(t, s, 1)
	if a = <-left; a.err != nil || a.Past {
		t.Fatal(a.CutResponse, a.err)
	}
	name := checkpoint.NewName("job", 2)
	first, second := c.start(t.Context(), 2, name), c.start(t.Context(), 2, name)
	if a, b := <-first, <-second; a.err != nil || b.err != nil || !bytes.Equal(a.Shard.Sha256, b.Shard.Sha256) {
		t.Errorf("the same cut twice: %v, %v and %v, %v", a.CutResponse, a.err, b.CutResponse, b.err)
	}
	if a, err := c.ask(t.Context(), 1, checkpoint.NewName("job", 1)); err != nil || !a.Past || a.Round != 2 {
		t.Errorf("a cut of a round that is past: %v, %v", a, err)
	}
	last := c.start(t.Context(), 9, checkpoint.NewName("job", 9))
	trainRound(t, s, 2)
	if err := (pstest.Trainer{Client: s.Client}).Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-last; !errors.Is(a.err, fault.Stale) {
		t.Errorf("a cut after the end of the job: %v, %v", a.CutResponse, a.err)
	}
}

// A store that does not work costs the checkpoint and nothing else.
func TestCutFails(t *testing.T) {
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 4))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := cutter{s, file}
	if a, err := c.ask(t.Context(), 0, checkpoint.NewName("job", 0)); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a cut into a file: %v, %v", a, err)
	}
	trainRound(t, s, 0)
	c.dir = t.TempDir()
	name := checkpoint.NewName("job", 1)
	a, err := c.ask(t.Context(), 1, name)
	if err != nil {
		t.Fatal(err)
	}
	checkCut(t, c, name, 1, a)
}

func TestCutRefuses(t *testing.T) {
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 4))
	old, foreign := pstest.Identity, pstest.Identity
	old.Fence, foreign.Job = 9, "another"
	for kind, who := range map[fault.Kind]*rpc.Identity{fault.Fenced: old.Of(0, 0, 0), fault.Foreign: foreign.Of(0, 0, 0)} {
		_, err := s.Client.Cut(t.Context(), &rpc.CutRequest{Id: who, Store: t.TempDir(), Name: checkpoint.NewName("job", 0)})
		if err = wire.FromStatus("pserver 0", err); !errors.Is(err, kind) {
			t.Errorf("%v, want %v", err, kind)
		}
	}
}
