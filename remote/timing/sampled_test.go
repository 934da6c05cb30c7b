package timing

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
)

// Rounds are chosen by their numbers, the last ones are kept, and their place among all says which of them are new.
func TestSampledRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Trainer, 0, 0)
		r.Sample(10)
		began := time.Now()
		for i := range uint64(200) {
			train(r, i, 1, 2, 3, 0, 0, 0)
		}
		r.End()
		train(r, 200, 1) // given up
		r.End()
		m := r.Times()
		if m.Sampled.Number != 4 || len(m.Sampled.Rounds) != 16 || m.Sampled.Clock != began.UnixNano() || !Check(m) {
			t.Fatalf("sampled %v", m.Sampled)
		}
		for i, one := range m.Sampled.Rounds {
			if number := uint64(40 + 10*i); one.Round != number || one.Start != int64(6*ms)*int64(number) || one.Took[Compute] != int64(2*ms) || one.Took[Other] != 0 {
				t.Errorf("round %d: %v", number, one)
			}
		}
		if n := r.Count(); n != 220 {
			t.Errorf("%d to tell", n)
		}
	})
}

// What a coordinator hands out at the same time counts for the sample alone.
func TestHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Coordinator, 0, 0)
		r.Sample(4)
		first := time.Now()
		after(ms)
		second := time.Now()
		after(2 * ms)
		r.HandedOut(8, second, 1)
		r.HandedOut(9, second, 0)
		r.HandedOut(8, first, 0)
		m := r.Times()
		if m.Rounds != 0 || len(m.Sampled.Rounds) != 2 || !Check(m) {
			t.Fatalf("told %v", m)
		}
		if a, b := m.Sampled.Rounds[0], m.Sampled.Rounds[1]; a.Last != 1 || a.Start != int64(ms) || a.Took[0] != int64(2*ms) || b.Last != 0 || b.Start != 0 || b.Took[0] != int64(3*ms) {
			t.Errorf("handed out %v", m.Sampled.Rounds)
		}
		var none *Recorder
		none.Sample(1)
		none.HandedOut(0, first, 0)
		off := New(Coordinator, 0, 0)
		off.Sample(0)
		off.HandedOut(0, first, 0)
		if off.Times() != nil {
			t.Error("without a sample there are times")
		}
	})
}

// Sampling allocates nothing where rounds are noted.
func TestSamplingAllocatesNothing(t *testing.T) {
	r := New(Trainer, 0, 0)
	r.Sample(1)
	if n := testing.AllocsPerRun(100, func() { note(r) }); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}

// BenchmarkSampledRound is BenchmarkRound where every round is kept for a trace.
func BenchmarkSampledRound(b *testing.B) {
	r := New(Trainer, 0, 1000)
	r.Sample(1)
	b.ReportAllocs()
	for b.Loop() {
		note(r)
	}
}

// Sampled rounds that no Recorder keeps are refused.
func TestCheckSampled(t *testing.T) {
	good := &job.RoundTimes{Sampled: &job.SampledRounds{Clock: 1, Phases: []string{"hand out"}, Rounds: []*job.TracedRound{{Took: []int64{1}}}}}
	if !Check(good) {
		t.Error("good ones are refused")
	}
	for name, spoil := range map[string]func(*job.SampledRounds){
		"many rounds":      func(m *job.SampledRounds) { m.Rounds = make([]*job.TracedRound, 17) },
		"no round":         func(m *job.SampledRounds) { m.Rounds[0] = nil },
		"a phase too many": func(m *job.SampledRounds) { m.Rounds[0].Took = []int64{1, 2} },
		"negative":         func(m *job.SampledRounds) { m.Rounds[0].Took[0] = -1 },
		"long ago":         func(m *job.SampledRounds) { m.Rounds[0].Start = -1 },
		"a long name":      func(m *job.SampledRounds) { m.Phases[0] = string(make([]byte, 1000)) },
		"many phases":      func(m *job.SampledRounds) { m.Phases, m.Rounds = make([]string, 99), nil },
		"a clock":          func(m *job.SampledRounds) { m.Clock = -1 },
	} {
		bad := proto.CloneOf(good)
		if spoil(bad.Sampled); Check(bad) {
			t.Errorf("%s: %v is not refused", name, bad)
		}
	}
	if Check(&job.RoundTimes{}) || Check(&job.RoundTimes{Sampled: good.Sampled, Phases: []*job.PhaseTime{{}}}) {
		t.Error("times of no rounds are not refused")
	}
}
