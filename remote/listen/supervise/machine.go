// Package supervise decides what becomes of the roles of a job when they end, lose their leases, or are wanted in another number: which are started
// again, when, and when the job is given up.
//
// A Machine is pure: it has no clock and starts nothing. Whoever drives it passes the time with everything that happens, carries out the effects
// that it answers with, and wakes it at Next.
//
// An end that another start may mend (a crash, a lost lease) is answered by another start of the same index, after a pause that doubles with each
// such end and is forgotten after a run in which the job went on. A pserver whose parameters have begun to change cannot be started again alone: they
// were only in its memory. Then all roles are killed and the history of the job begins again. An error of the program, its data or its configuration
// would come again, and ends the job at once.
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

// Times of the policy.
const (
	FirstPause = 50 * time.Millisecond // between an end and the next start; it doubles
	LongPause  = 5 * time.Second       // that it grows to
	GoodRun    = time.Minute           // after which restarts count, and pauses begin, anew
	FairRun    = time.Second           // after which pauses begin anew if the job has gone on meanwhile
	LostGrace  = time.Second           // for a role to end by itself when its lease is lost
	// ReleaseGrace is for a pserver to end by itself when the coordinator has ended well; a trainer has LostGrace.
	ReleaseGrace = 10 * time.Second
)

// A Policy is what a job allows.
type Policy struct {
	PServers    int
	MaxRestarts int           // of each role, and of the whole history; 0: none
	DrainTime   time.Duration // for a trainer to end that is not wanted any more; then it is killed
}

// mendable reports whether another start may do better. The coordinator's deadlines, and those of pservers, are the user's bounds of the job.
func mendable(m cluster.Member, err error) bool {
	switch fault.KindOf(err) {
	case fault.InvalidProgram, fault.InvalidArgument, fault.TypeMismatch, fault.ShapeMismatch, fault.NotFound, fault.Unsupported, fault.Corrupt,
		fault.TooLarge, fault.NotFinite, fault.VerifyFailed, fault.Foreign:
		return false
	case fault.DeadlineExceeded:
		return m.Role == job.Role_TRAINER
	}
	return true
}

// exhausted is the error of a job whose role, or whose history, has been started again too often.
func exhausted(what string, restarts int, last error) error {
	if restarts == 0 {
		return last
	}
	return fault.E(fault.KindOf(last), fault.At(what),
		fault.Cause(fmt.Errorf("ended again after %d restarts, which is all that max_restarts allows: %w", restarts, last)))
}

// pauseAfter returns the pause that follows a pause.
func pauseAfter(last time.Duration) time.Duration { return min(max(2*last, FirstPause), LongPause) }

// drained reports whether a role ended on request.
func drained(err error) bool { return errors.Is(err, fault.Drained) }

// State is how far a role is.
type State int

const (
	// Down is a role that is to be started.
	Down State = iota
	Running
	Draining // not wanted any more, and told to end
	Drained  // ended on request
	Done     // ended well, or too late to matter
)

// String names the state.
func (s State) String() string {
	return [...]string{"down", "running", "draining", "drained", "done"}[s]
}

// A Role is what a Machine knows of one role.
type Role struct {
	cluster.Member
	State  State
	Starts int           // how often it was started
	Since  time.Duration // when the state began
	Due    time.Duration // of a role that is down: when it starts; of one that has to end: when it is killed; 0: no time is set
	Lost   bool          // it runs, but has lost its lease
	Last   error         // how it ended last, nil when it never failed

	restarts int           // in this history, by failures of its own
	pause    time.Duration // before the last start
	killed   bool
	steps    uint64 // of the job when it was started
}

// live reports whether the role has a process.
func (r *Role) live() bool { return r.State == Running || r.State == Draining }

// enter begins a state.
func (r *Role) enter(s State, now time.Duration) {
	r.State, r.Since, r.Due, r.Lost, r.killed = s, now, 0, false, false
}

// Action is what an Effect asks for.
type Action int

const (
	// Start starts a role.
	Start Action = iota
	// Drain asks a trainer to end when it can.
	Drain
	// Kill ends a role at once.
	Kill
	// Forget removes the traces of the history that has ended. The starts that follow it begin a new one.
	Forget
	// End ends the job: well when Err is nil. It is the last effect.
	End
)

// An Effect is one thing to do. Effects are carried out in order.
type Effect struct {
	Do     Action
	Member cluster.Member // of Start, Drain and Kill
	Start  int            // of Start: how often the role was started before
	Err    error          // of End
}

// A Machine supervises the roles of one job. Its times are those of one clock of its driver, which never goes back.
type Machine struct {
	policy    Policy
	wanted    int // trainers
	roles     []*Role
	histories int           // that have ended
	clearing  bool          // a history has ended, and the next has not begun
	beginAt   time.Duration // of the next history
	pause     time.Duration // before the last history
	began     time.Duration // of this history
	cause     error         // of the end of the last history
	ended     bool
	steps     uint64 // of the job, as far as they were told
}

// New returns the machine of a job that wants a number of trainers at first.
func New(p Policy, trainers int) *Machine { return &Machine{policy: p, wanted: trainers} }

// Begin starts every role. It is called once.
func (m *Machine) Begin(now time.Duration) []Effect {
	m.began = now
	m.role(cluster.Member{Role: job.Role_COORDINATOR})
	for i := range m.policy.PServers {
		m.role(cluster.Member{Role: job.Role_PSERVER, Index: i})
	}
	m.wantTrainers(now)
	return m.Tick(now)
}

// find returns the record of a member, nil when there is none.
func (m *Machine) find(member cluster.Member) *Role {
	i := slices.IndexFunc(m.roles, func(r *Role) bool { return r.Member == member })
	if i < 0 {
		return nil
	}
	return m.roles[i]
}

// role returns the record of a member, making one that is down, and will be started.
func (m *Machine) role(member cluster.Member) *Role {
	if r := m.find(member); r != nil {
		return r
	}
	r := &Role{Member: member}
	m.roles = append(m.roles, r)
	return r
}

// Wanted changes how many trainers are wanted. Missing ones are started, and the highest ranks end.
func (m *Machine) Wanted(now time.Duration, trainers int) []Effect {
	m.wanted = trainers
	if m.ended || m.clearing {
		return nil
	}
	return append(m.wantTrainers(now), m.Tick(now)...)
}

// wantTrainers compares the trainers that there are with those that are wanted. When one has seen the end of the data, no other is started.
func (m *Machine) wantTrainers(now time.Duration) (effects []Effect) {
	for rank := range m.wanted {
		r := m.role(cluster.Member{Role: job.Role_TRAINER, Index: rank})
		if r.State == Drained && !m.dataEnded() {
			r.enter(Down, now)
		}
	}
	for _, r := range m.roles {
		if r.Role != job.Role_TRAINER || r.Index < m.wanted {
			continue
		}
		switch r.State {
		case Down:
			r.enter(Drained, now)
		case Running:
			r.enter(Draining, now)
			r.Due = now + m.policy.DrainTime
			effects = append(effects, Effect{Do: Drain, Member: r.Member})
		}
	}
	return effects
}

// Progress says that the job has made a step.
func (m *Machine) Progress() { m.steps++ }

// LeaseLost says that the lease of a role that runs is gone.
func (m *Machine) LeaseLost(now time.Duration, member cluster.Member) {
	if r := m.find(member); r != nil && r.live() && !r.Lost && !m.ended {
		r.Lost, r.Due = true, now+LostGrace
	}
}

// Tick does what has come due.
func (m *Machine) Tick(now time.Duration) (effects []Effect) {
	if m.ended {
		return nil
	}
	if m.clearing {
		if m.anyLive() || now < m.beginAt {
			return nil
		}
		effects = m.beginAnew(now)
	}
	for _, r := range m.roles {
		switch {
		case r.State == Down && r.Due <= now:
			effects = append(effects, Effect{Do: Start, Member: r.Member, Start: r.Starts})
			r.enter(Running, now)
			r.steps = m.steps
			r.Starts++
		case r.live() && r.Due != 0 && r.Due <= now && !r.killed:
			r.killed = true
			effects = append(effects, Effect{Do: Kill, Member: r.Member})
		}
	}
	return effects
}

// Next returns when Tick has something to do; false when only an event can change anything.
func (m *Machine) Next() (at time.Duration, ok bool) {
	if m.ended {
		return 0, false
	}
	if m.clearing {
		return m.beginAt, !m.anyLive()
	}
	for _, r := range m.roles {
		if r.Due != 0 && !r.killed && (r.State == Down || r.live()) && (!ok || r.Due < at) {
			at, ok = r.Due, true
		}
	}
	return at, ok
}

// Roles returns what is known of every role: coordinator, pservers, trainers.
func (m *Machine) Roles() []Role {
	out := make([]Role, len(m.roles))
	for i, r := range m.roles {
		out[i] = *r
	}
	slices.SortStableFunc(out, func(a, b Role) int {
		if a.Role != b.Role {
			return int(a.Role) - int(b.Role)
		}
		return a.Index - b.Index
	})
	return out
}

// Trainers returns how many trainers are wanted.
func (m *Machine) Trainers() int { return m.wanted }

// Restarting tells of a history that has ended: when the next one begins at the earliest, and why. It returns nil when there is none.
func (m *Machine) Restarting() (at time.Duration, cause error) {
	if !m.clearing {
		return 0, nil
	}
	return m.beginAt, m.cause
}

// Cause returns why the last history ended; nil in the first.
func (m *Machine) Cause() error { return m.cause }

// StartsOf returns how often a role was started, 0 for one that the job does not have.
func (m *Machine) StartsOf(member cluster.Member) int {
	if r := m.find(member); r != nil {
		return r.Starts
	}
	return 0
}

// Histories returns how often the history of the job has begun again.
func (m *Machine) Histories() int { return m.histories }
