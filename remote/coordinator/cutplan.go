package coordinator

import (
	"time"

	"github.com/edl-go/edl/remote/id"
)

// A cutPlan decides at which rounds checkpoints are cut. Times count from the epoch of the coordinator.
//
// A job with a number of rounds is cut at its multiples: it asks for the next one as soon as the one before is done, so that no server is past it. A job with a
// time asks, when that has passed, for a round a little ahead. If a server is past it by then, the plan looks further ahead. A job that is cut at the ends of its
// passes asks for the next end as soon as that is known.
type cutPlan struct {
	rounds id.Round      // between two cuts; 0: every counts
	every  time.Duration // between two cuts
	passes bool          // cut at the end of each pass; rounds and every are 0

	pass   int32         // async, with passes: the last one in which a cut was tried, or the first of the job
	last   id.Round      // of the last cut, or the beginning
	lastAt time.Duration // when it was done
	margin id.Round      // how far ahead a cut is asked for
	moves  bool          // a server was past the last round that was asked for: rounds go on
	idle   bool          // no step was reported for so long as every says: rounds may not go on
	fails  int           // since the last cut
	until  time.Duration // nothing is tried again before
}

// Bounds of a plan.
const (
	leastMargin = 2
	mostMargin  = 1 << 16
	leastRetry  = time.Second
	mostRetry   = time.Minute
)

func newCutPlan(c Checkpoints, start id.Round) *cutPlan {
	return &cutPlan{rounds: id.Round(c.Rounds), every: c.Every, passes: c.Passes, last: start, margin: leastMargin}
}

// when is the earliest time for the next attempt; wanted says that somebody waits for it.
func (p *cutPlan) when(wanted bool) time.Duration {
	if p.rounds > 0 || p.passes || wanted {
		return p.until
	}
	return max(p.until, p.lastAt+p.every)
}

// next is the round of the next cut, where the job has applied the rounds below at. It is not at, which a server may be past, but where somebody waits for the cut, or
// the job is idle: it may wait for data, or its next round may take long. If a server is past it, the next one is a little ahead. passEnd returns the first end of a pass behind a
// round; ok is false where there is none, or none is known yet. Where no round is applied any more, the cut is made of the last.
func (p *cutPlan) next(at id.Round, wanted, over bool, passEnd func(id.Round) (id.Round, bool)) (round id.Round, ok bool) {
	at = max(at, p.last)
	if over {
		return at, wanted
	}
	switch ahead := p.margin - leastMargin; {
	case wanted && !p.moves, p.idle && at > p.last:
		return at, true
	case wanted:
		return at + p.margin, true
	case p.passes:
		return passEnd(at + ahead)
	case p.rounds > 0:
		return ((at+ahead)/p.rounds + 1) * p.rounds, true
	}
	return at + p.margin, true
}

// past notes that a server has version at, which is beyond the round that was asked for. Another one may be tried at once.
func (p *cutPlan) past(round, at id.Round) {
	p.moves, p.idle, p.margin = true, false, min(max(2*p.margin, 2*(at-min(at, round))), mostMargin)
}

// done notes a cut.
func (p *cutPlan) done(now time.Duration, round id.Round) {
	p.last, p.lastAt, p.moves, p.idle, p.fails, p.until = round, now, false, false, 0, 0
	p.margin = max(p.margin/2, leastMargin)
}

// failed notes an attempt that has failed: the next one waits, longer each time.
func (p *cutPlan) failed(now time.Duration) {
	p.moves, p.idle, p.until = false, false, now+min(leastRetry<<min(p.fails, 10), mostRetry)
	p.fails++
}
