package supervise

import (
	"slices"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
)

// Exited says that a role has ended: how, and whether the job had begun to train, which is asked of pservers only.
func (m *Machine) Exited(now time.Duration, member cluster.Member, err error, trained bool) []Effect {
	r := m.role(member)
	ran := now - r.Since
	wasDraining := r.State == Draining
	if err != nil {
		r.Last = err
	}
	switch {
	case m.ended:
		r.enter(Done, now)
		return nil
	case m.clearing:
		r.enter(Down, now)
		return m.Tick(now)
	case err == nil:
		r.enter(Done, now)
		if r.Role == job.Role_COORDINATOR {
			m.release(now)
		}
	case r.Role == job.Role_TRAINER && (wasDraining || drained(err)):
		return m.afterDrain(now, r, err)
	case !mendable(member, err):
		return m.end(err)
	case m.complete():
		r.enter(Done, now)
	case r.Role == job.Role_PSERVER && trained:
		return m.restartHistory(now, r, err)
	case r.restarts >= m.policy.MaxRestarts && (ran < GoodRun || m.policy.MaxRestarts == 0):
		return m.end(exhausted(member.String(), r.restarts, err))
	default:
		if ran >= GoodRun {
			r.pause, r.restarts = 0, 0
		}
		if ran >= FairRun && m.steps > r.steps {
			r.pause = 0
		}
		r.restarts++
		r.pause = pauseAfter(r.pause)
		r.enter(Down, now)
		r.Due = now + r.pause
	}
	return m.endIfFinished()
}

// release ends the roles that the coordinator has not waited for: one that was lost and started again when the others had trained everything would
// look for a coordinator that will not come back. Those that are about to end have the time to.
func (m *Machine) release(now time.Duration) {
	for _, r := range m.roles {
		switch {
		case r.State == Down:
			r.enter(Done, now)
		case r.live() && r.Due == 0:
			r.Due = now + ReleaseGrace
			if r.Role == job.Role_TRAINER {
				r.Due = now + LostGrace
			}
		}
	}
}

// endIfFinished ends the job when every role has ended for good.
func (m *Machine) endIfFinished() []Effect {
	if slices.ContainsFunc(m.roles, func(r *Role) bool { return r.State != Done && r.State != Drained }) {
		return nil
	}
	return m.end(nil)
}

// afterDrain is the end of a trainer that was asked to end: by the job, or by someone else although it is wanted. That is no failure, but where
// nothing may start again it is the end.
func (m *Machine) afterDrain(now time.Duration, r *Role, err error) []Effect {
	switch {
	case r.Index >= m.wanted || m.dataEnded():
		r.enter(Drained, now)
	case m.policy.MaxRestarts == 0:
		return m.end(err)
	default:
		r.enter(Down, now)
		r.Due = now + FirstPause
	}
	return m.endIfFinished()
}

// restartHistory ends all roles, so that the job can begin anew, from the initial
// parameters and the first record: r has ended, and what it held is gone.
func (m *Machine) restartHistory(now time.Duration, r *Role, cause error) []Effect {
	if m.histories >= m.policy.MaxRestarts {
		return m.end(exhausted("the job from its beginning", m.histories, cause))
	}
	if now-m.began >= GoodRun {
		m.pause = 0
	}
	m.pause = pauseAfter(m.pause)
	m.histories++
	m.clearing, m.cause, m.beginAt = true, cause, now+m.pause
	r.enter(Down, now)
	var effects []Effect
	for _, other := range m.roles {
		if other.live() {
			other.killed = true
			effects = append(effects, Effect{Do: Kill, Member: other.Member})
		}
	}
	return effects
}

// beginAnew puts every role that is wanted at its beginning.
func (m *Machine) beginAnew(now time.Duration) []Effect {
	m.clearing, m.began = false, now
	for _, r := range m.roles {
		r.restarts, r.pause = 0, 0
		r.enter(Down, now)
	}
	return append([]Effect{{Do: Forget}}, m.wantTrainers(now)...)
}

func (m *Machine) end(err error) []Effect {
	m.ended = true
	return []Effect{{Do: End, Err: err}}
}

// complete reports whether nothing is left to train, so that the end of a role does no harm any more: the coordinator ends well when every trainer
// has taken leave, and a trainer when it has.
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

func (m *Machine) anyLive() bool {
	return slices.ContainsFunc(m.roles, (*Role).live)
}
