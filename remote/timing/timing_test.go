package timing

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/proto/job"
)

const ms = time.Millisecond

// after lets the time of a test pass.
func after(d time.Duration) { <-time.After(d) }

// train notes one round of a trainer, in which each phase takes so many ms.
func train(r *Recorder, number uint64, took ...int) {
	r.Begin(0)
	r.Number(number)
	for i, d := range took {
		r.Enter(Phase(i))
		after(time.Duration(d) * ms)
	}
}

// serve notes one round of a pserver, but for its wait.
func serve(r *Recorder, number uint64, last int, took ...int) {
	r.Begin(number)
	for i, d := range took {
		r.Enter(Phase(i + 1))
		after(time.Duration(d) * ms)
		r.Mark()
	}
	r.Last(last)
}

func expectPhases(t *testing.T, m *job.RoundTimes, which string, of func(*job.PhaseTime) int64, want ...int) {
	t.Helper()
	if len(m.GetPhases()) != len(want) {
		t.Fatalf("%d phases in %v, want %d", len(m.GetPhases()), m, len(want))
	}
	for i, p := range m.Phases {
		if got := of(p); got != int64(time.Duration(want[i])*ms) {
			t.Errorf("%s of %s is %v, want %d ms", which, p.Name, time.Duration(got), want[i])
		}
	}
}

// The phases of a trainer follow each other without gaps, and a summary has the median, the worst and the sum of each.
func TestTimesOfATrainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Trainer, 0, 0)
		if r.Times() != nil {
			t.Error("there are times before the first round")
		}
		train(r, 7, 1, 10, 2, 3, 4, 1)
		train(r, 8, 5, 10, 2, 3, 4, 1)
		train(r, 9, 3, 40, 2, 3, 4, 1)
		train(r, 10, 9) // is not over
		r.End()
		m := r.Times()
		if m.First != 7 || m.Last != 9 || m.Rounds != 3 || m.Median != int64(25*ms) || m.Worst != int64(53*ms) || len(m.LastDeclared) != 0 {
			t.Errorf("times %v", m)
		}
		expectPhases(t, m, "median", (*job.PhaseTime).GetMedian, 3, 10, 2, 3, 4, 1)
		expectPhases(t, m, "worst", (*job.PhaseTime).GetWorst, 5, 40, 2, 3, 4, 1)
		expectPhases(t, m, "sum", (*job.PhaseTime).GetTotal, 9, 60, 6, 9, 12, 3)
		if !Check(m) {
			t.Errorf("%v is refused", m)
		}
	})
}

// A phase that a round does not have takes no time, and one that has begun does not begin again.
func TestPhasesAreEnteredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Trainer, 0, 0)
		r.Enter(Receive) // of the parameters before the first round
		r.Begin(1)
		after(ms)
		r.Enter(Compute)
		after(ms)
		r.Enter(Receive)
		after(ms)
		r.Enter(Receive) // another server
		r.Enter(Await)
		after(ms)
		r.Enter(Other)
		r.Mark()
		r.Begin(2)
		expectPhases(t, r.Times(), "sum", (*job.PhaseTime).GetTotal, 1, 1, 0, 0, 2, 0)
	})
}

// What happens aside counts for its phase, and the phase under way goes on after it. The next phase ends it, too.
func TestTimeAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Trainer, 0, 0)
		r.Aside(Receive) // no round is under way
		r.Begin(0)
		r.Number(7)
		r.Enter(Compute)
		for range 2 { // two lookups
			after(2 * ms)
			r.Aside(Receive)
			after(5 * ms)
			r.Back()
			r.Back()
		}
		after(ms)
		r.Enter(Send)
		after(3 * ms)
		r.Aside(Receive)
		after(ms)
		r.Enter(Await)
		after(4 * ms)
		r.Back()
		after(2 * ms)
		r.Enter(Other)
		r.End()
		expectPhases(t, r.Times(), "sum", (*job.PhaseTime).GetTotal, 0, 5, 3, 6, 11, 0)
	})
}

// The push of a pserver ends when the last trainer has the parameters; it waits from then on.
func TestTimesOfAPServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(PServer, 0, 0)
		serve(r, 0, 1, 5, 2, 3, 4)
		after(6 * ms)
		serve(r, 1, 0, 5, 2, 3, 4)
		after(8 * ms)
		serve(r, 2, 1, 5) // given up
		r.End()
		serve(r, 2, 1, 5, 2, 3, 4)
		after(time.Second)
		r.End()
		m := r.Times()
		expectPhases(t, m, "sum", (*job.PhaseTime).GetTotal, 6, 15, 6, 9, 12)
		if want := map[uint32]uint32{0: 1, 1: 2}; !maps.Equal(m.LastDeclared, want) || m.Rounds != 3 {
			t.Errorf("last to declare %v, want %v; %d rounds", m.LastDeclared, want, m.Rounds)
		}
	})
}

// The ring keeps the last rounds, and a trace those that the job profiles, each once and no more than fit.
func TestRingAndTraceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Trainer, 5, 20)
		for i := range uint64(3*Kept + 5) {
			train(r, i, 1, 1)
		}
		for range 100 {
			train(r, 7, 1, 1) // again in another generation
		}
		r.End()
		if m := r.Times(); m.Rounds != Kept || r.Count() != 4*Kept+4 {
			t.Errorf("%d of %d rounds", m.Rounds, r.Count())
		}
		trace := r.Trace(nil, 0, 10)
		if len(trace.Rounds) != 20 || trace.Rounds[0].Round != 5 || trace.Rounds[19].Round != 24 {
			t.Errorf("%d rounds in the trace: %v", len(trace.Rounds), trace.Rounds)
		}
	})
}

// Without a Recorder nothing is noted, and a Recorder allocates nothing.
func TestNotingAllocatesNothing(t *testing.T) {
	for _, r := range []*Recorder{nil, New(Trainer, 0, 1000)} {
		if n := testing.AllocsPerRun(100, func() { note(r) }); n != 0 {
			t.Errorf("%v allocations a round", n)
		}
		r.Mark()
		r.Last(1)
		r.End()
		if r == nil && (r.Times() != nil || r.Count() != 0) {
			t.Error("there are times without a recorder")
		}
	}
}

func note(r *Recorder) {
	r.Begin(0)
	r.Number(1)
	for p := Compute; p <= Other; p++ {
		r.Enter(p)
	}
}

// BenchmarkRound is what a round of a trainer costs.
func BenchmarkRound(b *testing.B) {
	r := New(Trainer, 0, 1000)
	b.ReportAllocs()
	for b.Loop() {
		note(r)
	}
}

// Times that no Recorder makes are refused.
func TestCheck(t *testing.T) {
	phase := &job.PhaseTime{Name: "read", Median: 1, Worst: 2, Total: 3}
	good := func() *job.RoundTimes {
		return &job.RoundTimes{Rounds: 2, Median: 1, Worst: 2, Phases: []*job.PhaseTime{phase}}
	}
	if !Check(good()) || !Check(nil) {
		t.Error("good times are refused")
	}
	for name, spoil := range map[string]func(*job.RoundTimes){
		"no rounds":       func(m *job.RoundTimes) { m.Rounds = 0 },
		"many rounds":     func(m *job.RoundTimes) { m.Rounds = Kept + 1 },
		"negative":        func(m *job.RoundTimes) { m.Median = -1 },
		"worst is best":   func(m *job.RoundTimes) { m.Worst = 0 },
		"many phases":     func(m *job.RoundTimes) { m.Phases = make([]*job.PhaseTime, 99) },
		"no phase":        func(m *job.RoundTimes) { m.Phases[0] = nil },
		"a long name":     func(m *job.RoundTimes) { m.Phases[0] = &job.PhaseTime{Name: string(make([]byte, 1000))} },
		"a negative time": func(m *job.RoundTimes) { m.Phases[0] = &job.PhaseTime{Total: -1} },
	} {
		m := good()
		if spoil(m); Check(m) {
			t.Errorf("%s: %v is not refused", name, m)
		}
	}
}
