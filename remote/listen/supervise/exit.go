package supervise

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
)

func (e Exited) apply(m *Machine, now time.Duration, out *Effects) error {
	r := m.find(e.Member)
	if r == nil {
		return unknown(e.Member)
	}
	ran := now - r.Since
	wasDraining := r.State == Draining
	if e.Err != nil {
		r.Last = e.Err
	}
	switch {
	case m.ended:
		r.enter(Done, now)
		return nil
	case m.clearing:
		r.enter(Down, now)
		m.tick(now, out)
		return nil
	case extra(m, r):
		extraExited(m, now, r, e.Err)
	case e.Err == nil:
		r.enter(Done, now)
		if r.Role == job.Role_COORDINATOR {
			m.scaling.giveUp(fault.E(fault.Unavailable, fault.Got("the end of the job"), fault.Want("one that goes on while it is scaled")), out)
			endExtra(m, now, out)
			m.release(now)
		}
	case r.Role == job.Role_TRAINER && (wasDraining || errors.Is(e.Err, fault.Drained)):
		m.afterDrain(now, r, e.Err, out)
	case !mendable(e.Member, e.Err):
		m.end(e.Err, out)
	case m.complete():
		r.enter(Done, now)
	case r.Role == job.Role_PSERVER && e.Trained && beginTakeover(m, now, r, e.Err, out):
	case r.renewed:
		r.enter(Down, now)
		m.tick(now, out)
		standbyEnded(m, now, r.Index, out)
	default:
		startAgain(m, now, r, ran, e.Err, e.Trained, out)
		if r.Role == job.Role_STANDBY {
			standbyEnded(m, now, r.Index, out)
		}
	}
	m.endIfFinished(out)
	return nil
}

// startAgain is the failure of a role that nothing else can make up for: the role starts again, or all roles do, or the job ends.
func startAgain(m *Machine, now time.Duration, r *Role, ran time.Duration, err error, trained bool, out *Effects) {
	trained = trained && r.Role == job.Role_PSERVER
	switch {
	case trained && m.policy.OneAttempt:
		m.end(err, out)
	case trained && !mayGoBack(m),
		r.Role == job.Role_COORDINATOR && errors.Is(err, fault.LostState) && (m.policy.Standbys || m.policy.GoesBack) && m.misses(r, m.steps):
		r.enter(Down, now)
		m.startOver(now, err, out)
	case !departed(m, err) && r.restarts >= m.policy.MaxRestarts && (ran < GoodRun || m.policy.MaxRestarts == 0):
		m.end(exhausted(r.Member.String(), r.restarts, err), out)
	default:
		if ran >= GoodRun {
			r.pause, r.restarts = 0, 0
		}
		if ran >= FairRun && m.steps > r.steps {
			r.pause = 0
		}
		pause := FirstPause
		if !departed(m, err) {
			r.restarts++
			r.pause = pauseAfter(r.pause)
			pause = r.pause
		}
		r.enter(Down, now)
		r.Due = now + pause
		if trained {
			m.goBack(err, out)
		}
	}
}

// departed reports whether a role has ended because somebody outside of the job told it to, as where its node is drained. That is no failure of the role, so it does
// not count as a restart. Where nothing may start again, it ends the job as a failure does.
func departed(m *Machine, err error) bool {
	return errors.Is(err, fault.Drained) && m.policy.MaxRestarts > 0
}

// misses reports whether parameters are missing for good, as the coordinator has said that has ended: the job was going back, or it is not the first
// coordinator that ends without a step in between. One that was killed says nothing, however often: the next one asks the pservers where they stand.
func (b *back) misses(r *Role, steps uint64) bool {
	return b.why != nil || r.restarts > 0 && r.steps == steps
}

// mendable reports whether another start may help. The deadlines of the coordinator, and those of pservers, are bounds that the user has set to the job.
func mendable(m cluster.Member, err error) bool {
	kind := fault.KindOf(err)
	if kind == fault.DeadlineExceeded {
		return m.Role == job.Role_TRAINER
	}
	return !kind.Permanent()
}

// exhausted is the error of a role, or of a job, that has been started again too often.
func exhausted(what string, restarts int, last error) error {
	if restarts == 0 {
		return last
	}
	return fault.E(fault.KindOf(last), fault.At(what),
		fault.Cause(fmt.Errorf("ended again after %d restarts, which is all that max_restarts allows: %w", restarts, last)))
}

// pauseAfter returns the pause that follows a pause.
func pauseAfter(last time.Duration) time.Duration { return min(max(2*last, FirstPause), LongPause) }

// release ends the roles that the coordinator has not waited for. For example, a trainer was lost, and started again when the others had trained
// everything: it would look for a coordinator that does not come back. Roles that are about to end have the time to.
func (m *Machine) release(now time.Duration) {
	for _, r := range m.roles {
		switch {
		case r.State == Down || r.State == Absent:
			r.enter(Done, now)
		case r.live() && r.Due == 0:
			r.Due = now + m.policy.Release
			if r.Role == job.Role_TRAINER {
				r.Due = now + m.policy.LostLease
			}
		}
	}
}

// afterDrain is the end of a trainer that was asked to end: by the job, or by someone else although it is wanted. That is no failure, but where
// nothing may start again the job ends with it.
func (m *Machine) afterDrain(now time.Duration, r *Role, err error, out *Effects) {
	switch {
	case r.Index >= m.wanted || m.dataEnded():
		r.enter(Drained, now)
	case m.policy.MaxRestarts == 0:
		m.end(err, out)
	default:
		r.enter(Down, now)
		r.Due = now + FirstPause
	}
}

// mayGoBack reports whether a pserver alone may start again, although its parameters are gone. One that ends when a trainer has no more to train ends the
// attempt: nobody would train that trainer's share. While the number of pservers changes it is not known which of them have the state.
func mayGoBack(m *Machine) bool { return m.policy.GoesBack && !m.dataEnded() && m.scaling.to == 0 }

// goBack begins the way back to a checkpoint. If another one is under way, it may have passed the pserver that has ended now: so the job goes back once more
// after it.
func (b *back) goBack(cause error, out *Effects) {
	if b.more = b.why != nil; b.more {
		return
	}
	b.number++
	b.why, out.GoBack = cause, b.number
}

// startOver ends all roles, so that the job can begin anew: what a pserver had is gone.
func (m *Machine) startOver(now time.Duration, cause error, out *Effects) {
	if m.policy.OneAttempt {
		m.end(cause, out)
		return
	}
	if now-m.began >= GoodRun {
		m.pause, m.again = 0, 0
	}
	if m.again >= m.policy.MaxRestarts {
		m.end(exhausted("the job from its beginning", m.again, cause), out)
		return
	}
	m.again++
	m.pause = pauseAfter(m.pause)
	endAttempt(m, now, cause, out)
	m.beginAt = now + m.pause
}

// endAttempt ends all roles. The next attempt may begin when the last one has ended. A role that the same step was about to start does not start: what is to end is
// carried out before what is to start.
func endAttempt(m *Machine, now time.Duration, cause error, out *Effects) {
	m.scaling.giveUp(fault.E(fault.LostMember, fault.Got("a job that starts over"), fault.Want("one that goes on while it is scaled"), fault.Cause(cause)), out)
	clear(m.under)
	m.attempt++
	m.clearing, m.cause, m.beginAt, m.why, m.more = true, cause, now, nil, false
	for _, start := range out.Start {
		r := m.find(start.Member)
		r.Starts--
		r.enter(Down, now)
	}
	out.Start = nil
	for _, other := range m.roles {
		if other.live() {
			other.killed = true
			out.Kill = append(out.Kill, other.Member)
		}
	}
}

// beginAttempt makes every role that is wanted down, so that it starts.
func (m *Machine) beginAttempt(now time.Duration, out *Effects) {
	m.clearing, m.began = false, now
	for _, r := range m.roles {
		r.restarts, r.pause = 0, 0
		r.enter(Down, now)
		if extra(m, r) {
			r.enter(Drained, now)
		}
	}
	m.adjustTrainers(now, out)
}

// endIfFinished ends the job when every role has ended for good.
func (m *Machine) endIfFinished(out *Effects) {
	if !m.ended && !slices.ContainsFunc(m.roles, func(r *Role) bool { return r.State != Done && r.State != Drained }) {
		m.end(nil, out)
	}
}

func (m *Machine) end(err error, out *Effects) {
	m.ended = true
	out.End, out.Err = true, err
}

// complete reports whether nothing is left to train, so that the end of a role does no harm any more. The coordinator ends well when every trainer
// has taken leave, and a trainer ends well when it has.
func (m *Machine) complete() bool {
	trainers := slices.ContainsFunc(m.roles, func(r *Role) bool {
		return r.Role == job.Role_TRAINER && (r.State == Down || r.live())
	})
	return m.role(cluster.Member{Role: job.Role_COORDINATOR}).State == Done || m.dataEnded() && !trainers
}

// dataEnded reports whether a trainer has ended well, which it does when no data is left.
func (m *Machine) dataEnded() bool {
	return slices.ContainsFunc(m.roles, func(r *Role) bool { return r.Role == job.Role_TRAINER && r.State == Done })
}
