package pserver

import (
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
)

// holding says what a message waits for that the machine holds.
func (c *core) holding(e Event) waits.Wait {
	from := senderOf(e)
	_, final := e.(ReadFinal)
	paced, isPaced := e.(Paced)
	shared, shares := e.(Shared)
	switch {
	case from.Generation > c.machine.Generation():
		return waits.Wait{Who: c.name, What: fmt.Sprintf("generation %d", from.Generation), By: []string{"coordinator"}, Limit: c.cfg.StartDeadline}
	case final:
		return waits.Wait{Who: c.name, Tell: func(w *waits.Wait) {
			w.What = "the other trainers to complete"
			c.heard.name(w, slices.DeleteFunc(c.machine.Missing(), func(r id.Rank) bool { return r == from.Rank }))
		}}
	case shares && c.rounds.waits(from.Rank):
		return forTotals(c, shared)
	case c.rounds != nil:
		return c.forRound(c.rounds.Round())
	case isPaced:
		return forPace(c, paced)
	case c.updates.held:
		return waits.Wait{Who: c.name, What: "a checkpoint, for which steps that begin are held", By: []string{c.name}, Limit: c.cfg.RoundDeadline}
	}
	return waits.Wait{Who: c.name, What: fmt.Sprintf("queued contributions of trainer %d", from.Rank), By: []string{c.name}}
}

// forRound is the wait for the end of a round: for the trainers that are missing, or for what this server, which is applying it, waits for itself.
func (c *core) forRound(round id.Round) waits.Wait {
	return waits.Wait{Who: c.name, Tell: func(w *waits.Wait) {
		w.What = "round " + round.String()
		c.heard.name(w, c.rounds.Missing())
		switch {
		case len(w.By) > 0:
		case len(c.sums.awaited) > 0:
			w.What, w.By = partialSumsOf(round), c.sums.servers()
		case c.unfollowed > 0:
			w.What, w.By = w.What+", of which a standby in step has to know", []string{standbyName(c.cfg.Index)}
		case c.rounds.arriving:
			w.What, w.By = "rows of the placement before", []string{"the pservers of that placement"}
		case c.rounds.applying:
			w.What += ", which it applies itself"
		case c.rounds.idle():
			w.What, w.By = w.What+", in the next generation", []string{"coordinator"}
		}
	}}
}

// partialSumsOf is what is awaited of other servers in a round.
func partialSumsOf(round id.Round) string { return "partial sums of round " + round.String() }

// name adds trainers to those who can end a wait, with when each was last heard.
func (h heard) name(w *waits.Wait, ranks []id.Rank) {
	for _, rank := range ranks {
		w.By = append(w.By, fmt.Sprintf("trainer %d", rank))
		w.Heard = append(w.Heard, waits.Heard(h[rank]))
	}
}

// waiting lists each thing that is waited for once: first what the server itself waits for, then what calls do, the oldest first.
func (c *core) waiting() []*job.Wait {
	list := c.List()
	if c.deadline.timer != nil {
		own := c.own().Message()
		list = slices.DeleteFunc(list, func(w *job.Wait) bool { return w.What == own.What })
		list = slices.Insert(list, 0, own)
	}
	return list
}

// A deadline ends the server when what the server itself waits for does not come, whether or not a call is blocked in it.
type deadline struct {
	reason reason
	since  time.Time // without the time in which this process was stopped
	left   waits.Countdown
	timer  *time.Timer // nil when the server waits for nothing
}

// A reason tells one wait of the server from the next: the deadline counts anew when the reason has changed.
type reason struct {
	kind       reasonKind
	generation id.Generation
	freezes    int
	round      id.Round
}

type reasonKind int

const (
	forNothing     reasonKind = iota
	forGeneration             // a coordinator has to begin one
	forPartialSums            // of other servers, in the round that is being applied
	forTrainers               // to declare the round that others have begun
	forRelease                // the server has finished; a coordinator has to know
)

// reason finds out what the server waits for. A round that nobody has begun has no deadline. While no generation is under way, only the start of the
// next one has.
func (c *core) reason() reason {
	r := reason{}
	switch {
	case c.machine == nil, c.isReleased && c.finished(), c.Err() != nil, c.standby.follows():
		return r
	case c.finished():
		r.kind = forRelease
		return r
	case c.machine.idle():
		r.kind, r.freezes = forGeneration, c.freezes
	case len(c.sums.awaited) > 0:
		r.kind = forPartialSums
	case c.rounds != nil && c.rounds.started():
		r.kind = forTrainers
	default:
		return r
	}
	r.generation = c.machine.Generation()
	if c.rounds != nil {
		r.round = c.rounds.Round()
	}
	return r
}

// limit is how long the server waits for what it waits for now.
func (c *core) limit() time.Duration {
	if kind := c.deadline.reason.kind; kind == forGeneration || kind == forRelease {
		return c.cfg.StartDeadline
	}
	return c.cfg.RoundDeadline
}

// own is the wait of the server itself.
func (c *core) own() waits.Wait {
	var w waits.Wait
	switch r := c.deadline.reason; r.kind {
	case forGeneration:
		w.What, w.By = "the first generation", []string{"coordinator"}
		if r.generation > 0 {
			w.What = fmt.Sprintf("the generation after %d", r.generation)
		}
	case forPartialSums:
		w.What, w.By = partialSumsOf(r.round), c.sums.servers()
	case forTrainers:
		w.What = "round " + r.round.String()
		c.heard.name(&w, c.rounds.Missing())
	case forRelease:
		w.What, w.By = "the end of the job", []string{"coordinator"}
	}
	w.Who, w.Since, w.Limit = c.name, c.deadline.since, c.limit()
	return w
}

// watch sets the deadline of what the server waits for now, unless that is what it waited for before.
func (c *core) watch() {
	r := c.reason()
	if r == c.deadline.reason {
		return
	}
	if c.deadline.timer != nil {
		c.deadline.timer.Stop()
	}
	now := time.Now()
	c.deadline = deadline{reason: r, since: now}
	if r.kind == forNothing {
		return
	}
	var next time.Duration
	c.deadline.left, next = waits.NewCountdown(c.limit(), now)
	var timer *time.Timer // is written before the lock is free
	timer = time.AfterFunc(next, func() {
		c.Lock()
		defer c.Unlock()
		if c.deadline.timer != timer { // it was replaced while it fired, perhaps for the same reason
			return
		}
		next, stopped := c.deadline.left.Look(time.Now())
		c.deadline.since = c.deadline.since.Add(stopped)
		switch {
		case next > 0:
			timer.Reset(next)
		case r.kind == forRelease:
			c.release()
		default:
			c.end(c.tooLate())
		}
	})
	c.deadline.timer = timer
}

// tooLate is the failure of a server whose deadline has passed.
func (c *core) tooLate() error {
	w := c.own()
	f := waits.TimedOut(c.Where, w)
	f.Kind = fault.LostMember
	switch c.deadline.reason.kind {
	case forGeneration:
		f.Want, f.Hint = "a coordinator that begins it", "look at the coordinator's log, or raise start_deadline"
	case forPartialSums:
		f.Want, f.Hint = "those of every server", "look at that server's log, or raise round_deadline"
	default:
		f.Want, f.Hint = "every trainer's contribution", "look at that trainer's log, or raise round_deadline"
	}
	return f
}
