package timing

import (
	"time"

	"github.com/edl-go/edl/proto/job"
)

// maxSampled is how many of the rounds that a listener traces a report has: those of about a second.
const maxSampled = 16

// A sample keeps the last rounds whose number is a multiple of every. The zero value keeps none, and costs a comparison a round.
type sample struct {
	every uint64
	ring  []round
	count uint64 // of rounds that were kept
}

// take keeps a round if it is one of the sample.
func (s *sample) take(one *round) {
	if s.every > 0 && one.number%s.every == 0 {
		s.ring[s.count%maxSampled] = *one
		s.count++
	}
}

// Sample makes a Recorder keep the last of the rounds whose number is a multiple of every, for traces; 0: none. It is called before anything is noted. The rounds that
// are chosen follow from their numbers, so all roles of a job choose the same ones.
func (r *Recorder) Sample(every uint64) {
	if r == nil || every == 0 {
		return
	}
	r.sampled = sample{every: every, ring: make([]round, maxSampled)}
}

// Samples reports whether a round is one of the sample.
func (r *Recorder) Samples(number uint64) bool {
	return r != nil && r.sampled.every > 0 && number%r.sampled.every == 0
}

// HandedOut notes that the only phase of a role, for a trainer in a round of the sample, began then and ends now. Such phases may overlap, so they count for no summary.
func (r *Recorder) HandedOut(number uint64, began time.Time, rank int) {
	if !r.Samples(number) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	one := round{number: number, start: began.Sub(r.epoch), last: int32(rank)}
	one.took[0] = r.now() - one.start
	r.sampled.take(&one)
}

// sampledRounds are the rounds of the sample, the oldest first; nil: there are none. r.mu is held.
func (r *Recorder) sampledRounds() *job.SampledRounds {
	s := &r.sampled
	n := min(s.count, maxSampled)
	if n == 0 {
		return nil
	}
	m := &job.SampledRounds{Clock: r.epoch.UnixNano(), Phases: r.phases, Number: s.count - n}
	for i := s.count - n; i < s.count; i++ {
		m.Rounds = append(m.Rounds, traced(&s.ring[i%maxSampled], len(r.phases)))
	}
	return m
}

// traced is a round as a message.
func traced(one *round, phases int) *job.TracedRound {
	t := &job.TracedRound{Round: one.number, Start: int64(one.start), Last: one.last}
	for _, took := range one.took[:phases] {
		t.Took = append(t.Took, int64(took))
	}
	return t
}

// checkSampled refuses rounds that no Recorder keeps.
func checkSampled(m *job.SampledRounds) bool {
	if m == nil {
		return true
	}
	ok := len(m.Rounds) <= maxSampled && len(m.Phases) <= maxPhases && m.Number < 1<<62 && m.Clock >= 0
	for _, name := range m.Phases {
		ok = ok && len(name) <= maxName
	}
	for _, one := range m.Rounds {
		ok = ok && one != nil && len(one.Took) == len(m.Phases) && one.Start >= 0 && one.Start < 1<<60
		for i := 0; ok && i < len(one.Took); i++ {
			ok = one.Took[i] >= 0 && one.Took[i] < 1<<60
		}
	}
	return ok
}
