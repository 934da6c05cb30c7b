package pserver_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
)

// withData starts a server with a data plane, whose parameters have the sizes.
func withData(t *testing.T, trainers int, sizes ...int64) *pstest.Server {
	t.Helper()
	p := pstest.SGD(0, true, 1, sizes...)
	p.InPlace = true
	return pstest.Start(t, pstest.WithData(t, pstest.Config(trainers)), p)
}

// open opens the data connection of a trainer for n parameters.
func open(t *testing.T, s *pstest.Server, of pstest.Trainer, round uint64, n int) *pstest.Line {
	t.Helper()
	of.Client = s.Client
	send, receive := pstest.Names(n)
	l, err := of.Open(t.Context(), round, send, receive, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// untilLines returns when the server has so many data connections.
func untilLines(t *testing.T, s *pstest.Server, n int) {
	t.Helper()
	for start := time.Now(); s.Lines() != n; {
		if _, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: pstest.Identity.Job}); err != nil || time.Since(start) > pstest.Patience {
			t.Fatalf("%d data connections, want %d, %v", s.Lines(), n, err)
		}
	}
}

// untilMissing returns when the server waits for the trainers that are named, and for no others.
func untilMissing(t *testing.T, s *pstest.Server, names ...string) {
	t.Helper()
	for start := time.Now(); ; {
		status, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: pstest.Identity.Job})
		if err != nil || time.Since(start) > pstest.Patience {
			t.Fatalf("waits %v, %v; want one for %v", status.GetWaits(), err, names)
		}
		if slices.ContainsFunc(status.Waits, func(w *job.Wait) bool { return slices.Equal(w.By, names) }) {
			return
		}
	}
}

// untilDuplicates returns when the server has refused n messages because it had them.
func untilDuplicates(t *testing.T, s *pstest.Server, n uint64) {
	t.Helper()
	for start := time.Now(); ; {
		status, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: pstest.Identity.Job})
		if err == nil && status.Refused[fault.Duplicate.String()] == n {
			return
		}
		if err != nil || time.Since(start) > pstest.Patience {
			t.Fatalf("refused %v, %v; want %d duplicates", status.GetRefused(), err, n)
		}
	}
}

// all fails the test with the errors that there are.
func all(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// values checks that every element of the parameters of a version is x.
func values(l *pstest.Line, version uint64, x float32) error {
	got, err := l.Params(version)
	for i, v := range got {
		if at := slices.IndexFunc(v.Float32s(), func(y float32) bool { return y != x }); at >= 0 {
			err = errors.Join(err, fmt.Errorf("element %d of w%d is %v, want %v", at, i, v.Float32s()[at], x))
		}
	}
	return err
}

// Trainers over data connections and over calls train together, with one mean: of 0 over 2 rows, 2 over 1 and 4 over 1.
func TestDataRounds(t *testing.T) {
	sizes := []int64{3, 0, 2_500_000} // the last one is cut over three frames
	s := withData(t, 3, sizes...)
	overCalls := func(of pstest.Trainer, round uint64) error {
		for i, n := range sizes {
			if duplicate, err := of.Send(t.Context(), round, fmt.Sprintf("w%d@GRAD", i), pstest.Filled(n, 4)); err != nil || duplicate {
				return fmt.Errorf("duplicate %v, %w", duplicate, err)
			}
		}
		if err := of.Barrier(t.Context(), round, 1, len(sizes)); err != nil {
			return err
		}
		w, _, err := of.Get(t.Context(), round+1, "w0", 3)
		if err == nil && w.Float32s()[2] != -1.5*float32(round+1) {
			err = fmt.Errorf("over calls comes %v", w.Float32s())
		}
		return err
	}
	err := pstest.Parallel(3, func(rank int) (err error) {
		of := pstest.Trainer{Client: s.Client, Rank: uint32(rank)}
		if rank == 2 {
			for round := range uint64(3) {
				err = errors.Join(err, overCalls(of, round))
			}
			return err
		}
		send, receive := pstest.Names(len(sizes))
		l, err := of.Open(t.Context(), 0, send, receive, nil)
		if err != nil {
			return err
		}
		defer l.Close()
		for round := range uint64(3) {
			err = errors.Join(err, l.Contribute(round, 2*float32(rank), sizes...), l.Declare(round, int64(2-rank), len(sizes)),
				values(l, round+1, -1.5*float32(round+1)))
		}
		return err
	})
	all(t, err)
	status, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: pstest.Identity.Job})
	if err != nil || len(status.Refused) > 0 {
		t.Errorf("refused %v, %v", status.GetRefused(), err)
	}
}

// A trainer that sends again what it has sent is acknowledged, and nothing counts twice: on another connection all messages may come again, on the
// same one the declaration.
func TestDataAgain(t *testing.T) {
	s := withData(t, 2, 4, 1)
	a, b := open(t, s, pstest.Trainer{}, 0, 2), open(t, s, pstest.Trainer{Rank: 1}, 0, 2)
	all(t, a.Contribute(0, 1, 4, 1))
	a = open(t, s, pstest.Trainer{}, 0, 2)
	all(t, a.Contribute(0, 50, 4, 1), a.Declare(0, 1, 2)) // the first one counts
	untilMissing(t, s, "trainer 1")                       // the next connection ends this one: what the server has not read by then is lost
	a = open(t, s, pstest.Trainer{}, 0, 2)
	all(t, a.Contribute(0, 60, 4, 1), a.Declare(0, 9, 2)) // it is declared
	untilDuplicates(t, s, 2*2+1)
	all(t, b.Contribute(0, 3, 4, 1), b.Declare(0, 1, 2), values(b, 1, -2), values(a, 1, -2))
	all(t, a.Declare(0, 1, 2), values(a, 1, -2), b.Declare(0, 1, 2), values(b, 1, -2)) // it is applied
	a = open(t, s, pstest.Trainer{}, 0, 2)
	all(t, a.Contribute(0, 70, 4, 1), a.Declare(0, 1, 2), values(a, 1, -2))
	all(t, a.Contribute(1, 1, 4, 1), b.Contribute(1, 1, 4, 1), a.Declare(1, 1, 2), b.Declare(1, 1, 2), values(a, 2, -3), values(b, 2, -3))
	status, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: pstest.Identity.Job})
	if want := map[string]uint64{fault.Duplicate.String(): 6 + 4}; err != nil || !maps.Equal(status.Refused, want) {
		t.Errorf("refused %v (%v), want %v: three contributions of two slices, and the declarations that came again", status.GetRefused(), err, want)
	}
}

// A frame that no trainer sends ends its connection with the reason, and counts as refused. The trainer may open another one.
func TestHostileFrames(t *testing.T) {
	v := pstest.Filled(4, 1)
	for name, c := range map[string]struct {
		do   func(l *pstest.Line) error
		kind fault.Kind
	}{
		"another rank": {func(l *pstest.Line) error {
			l.Trainer.Rank = 1
			return l.Data(2, []int{0, 1}, v, v)
		}, fault.Foreign},
		"another generation": {func(l *pstest.Line) error {
			l.Trainer.Generation = g + 1
			return l.Data(2, []int{0, 1}, v, v)
		}, fault.Foreign},
		"a declaration of another rank": {func(l *pstest.Line) error { l.Trainer.Rank = 1; return l.Declare(2, 0, 0) }, fault.Foreign},
		"a stale round":                 {func(l *pstest.Line) error { return l.Data(0, []int{0, 1}, v, v) }, fault.Stale},
		"a stale declaration":           {func(l *pstest.Line) error { return l.Declare(0, 0, 0) }, fault.Stale},
		"a round to come":               {func(l *pstest.Line) error { return l.Data(3, []int{0, 1}, v, v) }, fault.Foreign},
		"a declaration to come":         {func(l *pstest.Line) error { return l.Declare(9, 0, 0) }, fault.Foreign},
		"a declaration without data":    {func(l *pstest.Line) error { return l.Declare(2, 1, 2) }, fault.InvalidArgument},
		"a declaration of half the data": {func(l *pstest.Line) error {
			return errors.Join(l.Data(2, []int{1}, v), l.Declare(2, 1, 1))
		}, fault.InvalidArgument},
		"a declaration of fewer variables": {func(l *pstest.Line) error {
			return errors.Join(l.Contribute(2, 1, 4, 4), l.Declare(2, 1, 1))
		}, fault.InvalidArgument},
		"a declaration of negative rows": {func(l *pstest.Line) error {
			return errors.Join(l.Contribute(2, 1, 4, 4), l.Declare(2, -1, 2))
		}, fault.InvalidArgument},
		"a declaration without rows after data": {func(l *pstest.Line) error {
			return errors.Join(l.Contribute(2, 1, 4, 4), l.Declare(2, 0, 2))
		}, fault.InvalidArgument},
		"records that are none": {func(l *pstest.Line) error {
			return errors.Join(l.Contribute(2, 1, 4, 4), l.WriteMessage(l.Head(dataplane.Declare, 2), &rpc.BarrierRequest{Rows: 1, Variables: 2,
				Records: []*rpc.RecordRange{{From: 5, To: 1}}}))
		}, fault.InvalidArgument},
		"data twice":        {func(l *pstest.Line) error { return errors.Join(l.Contribute(2, 1, 4, 4), l.Data(2, []int{0, 1}, v, v)) }, fault.Corrupt},
		"one slice twice":   {func(l *pstest.Line) error { return l.Data(2, []int{0, 0}, v, v) }, fault.Corrupt},
		"slice 2":           {func(l *pstest.Line) error { return l.Data(2, []int{2}, v) }, fault.Corrupt},
		"the largest slice": {func(l *pstest.Line) error { return l.Data(2, []int{-1}, v) }, fault.Corrupt},
		"too long a slice":  {func(l *pstest.Line) error { return l.Data(2, []int{0}, pstest.Vector(5)) }, fault.Corrupt},
		"more slices":       {func(l *pstest.Line) error { return l.Data(2, []int{0, 1, 1}, v, v, v) }, fault.Corrupt},
		"params":            {func(l *pstest.Line) error { return l.WriteMessage(l.Head(dataplane.Params, 2), nil) }, fault.Corrupt},
		"ack":               {func(l *pstest.Line) error { return l.WriteMessage(l.Head(dataplane.Ack, 2), nil) }, fault.Corrupt},
		"welcome":           {func(l *pstest.Line) error { return l.WriteMessage(l.Head(dataplane.Welcome, 2), nil) }, fault.Corrupt},
		"a fault of the trainer": {func(l *pstest.Line) error {
			return l.WriteMessage(l.Head(dataplane.Fault, 2), wire.FailureOf(fault.E(fault.NotFinite)))
		}, fault.NotFinite},
	} {
		t.Run(name, func(t *testing.T) {
			s := withData(t, 1, 4, 4)
			l := open(t, s, pstest.Trainer{}, 0, 2)
			for round := range uint64(2) {
				all(t, l.Contribute(round, 1, 4, 4), l.Declare(round, 1, 2), values(l, round+1, -float32(round+1)))
			}
			all(t, c.do(l))
			h, err := l.ReadHead()
			for err == nil && h.Kind == dataplane.Ack {
				h, err = l.ReadHead()
			}
			if !errors.Is(err, c.kind) {
				t.Fatalf("%+v, %v", h, err)
			}
			status, err := s.Client.Status(t.Context(), &rpc.StatusRequest{Job: pstest.Identity.Job})
			if err != nil || status.Refused[c.kind.String()] != 1 || len(status.Refused) != 1 {
				t.Errorf("refused %v, %v", status.GetRefused(), err)
			}
			l.Close()
			l = open(t, s, pstest.Trainer{}, 2, 2)
			all(t, l.Contribute(2, 1, 4, 4), l.Declare(2, 1, 2))
			if got, err := l.Params(3); err != nil || got[0].Float32s()[0] != -3 {
				t.Errorf("the next connection: %v, %v", got, err)
			}
		})
	}
}

// A bit that changes on the way costs the connection, and says that another one may help. What had arrived whole counts, and no bit of the rest.
func TestDamagedData(t *testing.T) {
	s := withData(t, 1, 4, 2)
	send, receive := pstest.Names(2)
	const welcomed = 24 // bytes of the hello
	for at := welcomed; at < welcomed+64+32+24; at++ {
		l, err := pstest.Trainer{Client: s.Client}.Open(t.Context(), 0, send, receive, func(c net.Conn) net.Conn { return &flipping{c, at} })
		all(t, err)
		_ = l.Data(0, []int{1, 0}, pstest.Filled(2, 9), pstest.Filled(4, 9))
		if h, err := l.ReadHead(); !errors.Is(err, fault.Unavailable) {
			t.Errorf("byte %d changed: %+v, %v", at-welcomed, h, err)
		}
		l.Close()
	}
	l := open(t, s, pstest.Trainer{}, 0, 2)
	all(t, l.Contribute(0, 1, 4, 2), l.Declare(0, 1, 2), values(l, 1, -1))
}

// flipping changes one bit of what is written, after so many bytes.
type flipping struct {
	net.Conn
	left int
}

func (f *flipping) Write(b []byte) (int, error) {
	if at := f.left; at >= 0 && at < len(b) {
		b = slices.Clone(b)
		b[at] ^= 0x10
	}
	f.left -= len(b)
	return f.Conn.Write(b)
}

// cutting ends a connection that has written so many bytes: it closes it, or, where it stalls, it writes nothing any more.
type cutting struct {
	net.Conn
	left   int
	stalls bool
}

func (c *cutting) Write(b []byte) (int, error) {
	if n := min(len(b), c.left); n > 0 {
		c.left -= n
		if _, err := c.Conn.Write(b[:n]); err != nil {
			return 0, err
		}
	}
	if c.left == 0 && !c.stalls {
		c.Close()
	}
	return len(b), nil
}

// OpenData refuses what is not of its job, its program and its generation.
func TestOpenDataRefuses(t *testing.T) {
	s := withData(t, 2, 4)
	request := func(change func(*rpc.OpenDataRequest)) *rpc.OpenDataRequest {
		m := &rpc.OpenDataRequest{Id: pstest.Trainer{}.ID(0), Send: []string{"w0@GRAD"}, Receive: []string{"w0"}}
		change(m)
		return m
	}
	later := open(t, s, pstest.Trainer{Generation: g + 1}, 0, 1)
	for name, c := range map[string]struct {
		m    *rpc.OpenDataRequest
		kind fault.Kind
	}{
		"another job":          {request(func(m *rpc.OpenDataRequest) { m.Id.Job = "other" }), fault.Foreign},
		"a rank too high":      {request(func(m *rpc.OpenDataRequest) { m.Id.Rank = 2 }), fault.Foreign},
		"no identity":          {request(func(m *rpc.OpenDataRequest) { m.Id = nil }), fault.Foreign},
		"an unknown gradient":  {request(func(m *rpc.OpenDataRequest) { m.Send = []string{"w1@GRAD"} }), fault.Foreign},
		"a parameter to send":  {request(func(m *rpc.OpenDataRequest) { m.Send = []string{"w0"} }), fault.Foreign},
		"an unknown parameter": {request(func(m *rpc.OpenDataRequest) { m.Receive = []string{"x"} }), fault.Foreign},
		"a gradient twice":     {request(func(m *rpc.OpenDataRequest) { m.Send = []string{"w0@GRAD", "w0@GRAD"} }), fault.Foreign},
		"a parameter twice":    {request(func(m *rpc.OpenDataRequest) { m.Receive = []string{"w0", "w0"} }), fault.Foreign},
		"too many slices":      {request(func(m *rpc.OpenDataRequest) { m.Send = make([]string, dataplane.MaxSlices+1) }), fault.TooLarge},
		"an ended generation":  {request(func(*rpc.OpenDataRequest) {}), fault.Superseded},
	} {
		if r, err := s.OpenData(t.Context(), c.m); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if s.Lines() != 1 {
		t.Errorf("%d connections", s.Lines())
	}
	later.Close()
	untilLines(t, s, 0)
	for name, s := range map[string]*pstest.Server{
		"an async job over gRPC": pstest.Start(t, pstest.Config(1), pstest.SGD(0, false, 1, 4)),
		"a sync job over gRPC":   pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, 4)),
	} {
		if r, err := s.OpenData(t.Context(), request(func(*rpc.OpenDataRequest) {})); !errors.Is(err, fault.Unsupported) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// A second OpenData of a rank ends its first connection. What had arrived whole still counts, and what had not does not.
func TestReplacedConnection(t *testing.T) {
	s := withData(t, 1, 4, large)
	send, receive := pstest.Names(2)
	first, err := pstest.Trainer{Client: s.Client}.Open(t.Context(), 0, send, receive, func(c net.Conn) net.Conn { return &cutting{c, 5 << 20, true} })
	all(t, err, first.Data(0, []int{0}, pstest.Filled(4, 1)), first.Data(0, []int{1}, pstest.Filled(large, 5)))
	defer first.Close()
	for start := time.Now(); s.ArrivedSlices() < 1; { // the first slice
		if time.Since(start) > pstest.Patience {
			t.Fatal("nothing arrives")
		}
	}
	second := open(t, s, pstest.Trainer{}, 0, 2)
	if h, err := first.ReadHead(); !errors.Is(err, fault.Unavailable) {
		t.Errorf("the first connection is told %+v, %v", h, err)
	}
	all(t, second.Data(0, []int{0, 1}, pstest.Filled(4, 100), pstest.Filled(large, 1)), second.Answer(dataplane.Ack, 0), second.Declare(0, 1, 2),
		values(second, 1, -1))
	untilLines(t, s, 1)
	all(t, second.Contribute(1, 1, 4, large), second.Declare(1, 1, 2), values(second, 2, -2))
}

// A generation that ends while a contribution is half there takes nothing of it into the next one, and its connection is cut when that begins.
func TestFreezeWithHalfAContribution(t *testing.T) {
	s := withData(t, 2, 4, large)
	send, receive := pstest.Names(2)
	half, err := pstest.Trainer{Client: s.Client}.Open(t.Context(), 0, send, receive, func(c net.Conn) net.Conn { return &cutting{c, 5 << 20, true} })
	all(t, err, half.Data(0, []int{0, 1}, pstest.Filled(4, 70), pstest.Filled(large, 70)))
	defer half.Close()
	whole, idle := open(t, s, pstest.Trainer{Rank: 1}, 0, 2), pstest.Trainer{Client: s.Client, Rank: 1}
	all(t, whole.Contribute(0, 80, 4, large), whole.Declare(0, 3, 2))
	untilMissing(t, s, "trainer 0")
	state, err := s.Freeze(g)
	if err != nil || state.Round != 0 || len(state.Declared) != 1 {
		t.Fatalf("the server says %v, %v", state, err)
	}
	if h, err := whole.ReadHead(); !errors.Is(err, fault.Superseded) {
		t.Errorf("who waits for the round is told %+v, %v", h, err)
	}
	all(t, s.Resume(g+1, 0, pstest.Members(0, 1)))
	if h, err := half.ReadHead(); !errors.Is(err, fault.Unavailable) {
		t.Errorf("the old connection is told %+v, %v", h, err)
	}
	late := open(t, s, pstest.Trainer{Rank: 1}, 0, 2)
	all(t, late.Data(0, []int{0}, pstest.Filled(4, 90)))
	if h, err := late.ReadHead(); !errors.Is(err, fault.Superseded) {
		t.Errorf("who comes back in the old generation is told %+v, %v", h, err)
	}
	idle.Generation = g + 1
	a, b := open(t, s, pstest.Trainer{Generation: g + 1}, 0, 2), open(t, s, idle, 0, 2)
	all(t, a.Contribute(0, 1, 4, large), b.Contribute(0, 3, 4, large), a.Declare(0, 1, 2), b.Declare(0, 1, 2), values(a, 1, -2), values(b, 1, -2))
}

// A generation that ends with all contributions here and declared at the coordinator's word is applied; who declares it again gets the parameters.
func TestCommitOverData(t *testing.T) {
	s := withData(t, 2, 4)
	a, b := open(t, s, pstest.Trainer{}, 0, 1), open(t, s, pstest.Trainer{Rank: 1}, 0, 1)
	all(t, a.Contribute(0, 1, 4), b.Contribute(0, 3, 4), a.Declare(0, 1, 1))
	untilMissing(t, s, "trainer 1")
	_, err := s.Freeze(g)
	all(t, err, s.Resume(g+1, 1, pstest.Members(0, 1), &rpc.Declared{Rank: 0, Rows: 1}, &rpc.Declared{Rank: 1, Rows: 1}))
	a, b = open(t, s, pstest.Trainer{Generation: g + 1}, 1, 1), open(t, s, pstest.Trainer{Rank: 1, Generation: g + 1}, 1, 1)
	all(t, a.Contribute(1, 1, 4), b.Contribute(1, 1, 4), a.Declare(1, 1, 1), b.Declare(1, 1, 1), values(a, 2, -3), values(b, 2, -3))
}

// A trainer that stops to read while the parameters are pushed to it holds up nobody but the next round. The end of its generation ends that, too.
func TestTrainerThatStopsToRead(t *testing.T) {
	s := withData(t, 2, large)
	a, stuck := open(t, s, pstest.Trainer{}, 0, 1), open(t, s, pstest.Trainer{Rank: 1}, 0, 1)
	all(t, stuck.Contribute(0, 1, large), a.Contribute(0, 1, large), stuck.Declare(0, 1, 1), a.Declare(0, 1, 1), values(a, 1, -1))
	all(t, a.Contribute(1, 1, large), a.Declare(1, 1, 1))
	untilMissing(t, s, "trainer 1")
	state, err := s.Freeze(g)
	if err != nil || state.Round != 1 || len(state.Declared) != 1 {
		t.Fatalf("the server says %v, %v", state, err)
	}
	if h, err := a.ReadHead(); !errors.Is(err, fault.Superseded) {
		t.Errorf("who waits for the round is told %+v, %v", h, err)
	}
	all(t, s.Resume(g+1, 1, pstest.Members(0)))
	a.Close()
	untilLines(t, s, 0)
	a = open(t, s, pstest.Trainer{Generation: g + 1}, 1, 1)
	for round := uint64(1); round < 3; round++ {
		all(t, a.Contribute(round, 1, large), a.Declare(round, 1, 1), values(a, round+1, -float32(round+1)))
	}
	if _, err := stuck.Params(1); !errors.Is(err, fault.Unavailable) {
		t.Errorf("who reads at last is told %v", err)
	}
}

// A server that fails tells its connections why: those that wait at once, others with the answer to their next frame.
func TestFailureReachesConnections(t *testing.T) {
	s := withData(t, 3, 4)
	waiting, idle := open(t, s, pstest.Trainer{}, 0, 1), open(t, s, pstest.Trainer{Rank: 1}, 0, 1)
	all(t, waiting.Contribute(0, 1, 4), waiting.Declare(0, 1, 1))
	untilMissing(t, s, "trainer 1", "trainer 2")
	s.Fail(fault.E(fault.NotFinite, fault.Op("sgd"), fault.Var("w0")))
	all(t, idle.Data(0, []int{0}, pstest.Filled(4, 1)))
	for _, l := range []*pstest.Line{waiting, idle} {
		var f *fault.Fault
		if _, err := l.ReadHead(); !errors.As(err, &f) || f.Kind != fault.NotFinite || f.Op != "sgd" || f.Variable != "w0" {
			t.Errorf("trainer %d is told %v", l.Trainer.Rank, err)
		}
	}
	if _, err := s.OpenData(t.Context(), &rpc.OpenDataRequest{Id: pstest.Trainer{Rank: 2}.ID(0)}); !errors.Is(err, fault.NotFinite) {
		t.Errorf("a request for a connection is told %v", err)
	}
}

// A round that fails while it is applied tells all that wait for it over their connections.
func TestFailingBlockReachesConnections(t *testing.T) {
	p := pstest.SGD(0, true, 1, 4)
	p.Blocks[1] = func(context.Context, ops.Step) error { return fault.E(fault.NotFinite, fault.Op("sgd")) }
	s := pstest.Start(t, pstest.WithData(t, pstest.Config(1)), p)
	l := open(t, s, pstest.Trainer{}, 0, 1)
	all(t, l.Contribute(0, 1, 4), l.Declare(0, 1, 1))
	if h, err := l.ReadHead(); !errors.Is(err, fault.NotFinite) {
		t.Errorf("%+v, %v", h, err)
	}
	if err := s.Wait(); !errors.Is(err, fault.NotFinite) {
		t.Error(err)
	}
}

// A trainer that receives nothing from a server is answered at once, and may be one round ahead of the others.
func TestDataWithoutParameters(t *testing.T) {
	s := withData(t, 2, 4)
	ahead, err := pstest.Trainer{Client: s.Client}.Open(t.Context(), 0, []string{"w0@GRAD"}, nil, nil)
	all(t, err)
	defer ahead.Close()
	b := open(t, s, pstest.Trainer{Rank: 1}, 0, 1)
	all(t, ahead.Contribute(0, 1, 4), ahead.Declare(0, 1, 1), ahead.Answer(dataplane.Ack, 0))
	all(t, ahead.Declare(0, 1, 1), ahead.Answer(dataplane.Ack, 0))
	all(t, ahead.Data(1, []int{0}, pstest.Filled(4, 1)))
	untilWaits(t, s, "round 0")
	all(t, b.Contribute(0, 3, 4), b.Declare(0, 1, 1), values(b, 1, -2), ahead.Answer(dataplane.Ack, 1))
	all(t, ahead.Declare(1, 1, 1), ahead.Answer(dataplane.Ack, 1), b.Contribute(1, 1, 4), b.Declare(1, 1, 1), values(b, 2, -3))
	none, err := pstest.Trainer{Client: s.Client, Rank: 1}.Open(t.Context(), 2, nil, nil, nil)
	all(t, err)
	defer none.Close()
	all(t, none.Declare(2, 0, 0), none.Answer(dataplane.Ack, 2))
}

// However connections break, in the middle of a contribution or between, the server has as many buffers afterwards as before.
func TestBuffersOverBrokenConnections(t *testing.T) {
	const n = 40
	s := withData(t, 1, n, 8)
	send, receive := pstest.Names(2)
	of := pstest.Trainer{Client: s.Client}
	l := open(t, s, pstest.Trainer{}, 0, 2)
	const whole = 24 + 64 + 2*16 + 4*n + 4*8 // bytes of a hello and a contribution
	rounds := uint64(1000)
	if testing.Short() {
		rounds = 100
	}
	for round := range rounds {
		all(t, l.Contribute(round, 1, n, 8), l.Declare(round, 1, 2), values(l, round+1, -float32(round+1)))
		if have := s.Buffers(); have != 2 {
			t.Fatalf("%d buffers after round %d, want 2", have, round)
		}
		if round%5 > 0 {
			continue
		}
		broken, err := of.Open(t.Context(), round+1, send, receive, func(c net.Conn) net.Conn {
			return &cutting{c, 24 + 1 + int(round*7)%(whole-25), false}
		})
		all(t, err)
		_ = broken.Data(round+1, []int{0, 1}, pstest.Filled(n, 5), pstest.Filled(8, 5))
		broken.Close()
		untilLines(t, s, 0)
		if have := s.Buffers() + s.ArrivedSlices(); have != 2 {
			t.Fatalf("%d buffers after a connection that broke in round %d, want 2", have, round+1)
		}
		l = open(t, s, pstest.Trainer{}, round+1, 2)
	}
}
