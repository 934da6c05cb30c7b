// Package supervise decides what happens to the roles of a job when they end, lose their leases, or are wanted in another number: which role starts
// again, when, and when the job is given up.
//
// A Machine is pure: it has no clock and starts nothing. The caller tells it what happens (Step), carries out the effects, and sends Tick at Next.
//
//	machine.go   policy, events, effects; the roles of a job and what is due
//	exit.go      what follows from the end of a role
//	scale.go     another number of pservers
//	suspend.go   an attempt that ends so that others can run
//	saved.go     a machine that outlives its process
//
// # A role
//
//	        Start                        Wanted: fewer
//	Down ----------> Running ------------------------------> Draining
//	  ^                 |                                       |
//	  |    mendable     |      well, or too late to matter      |
//	  +-----------------+------------------------> Done         |
//	  |                                                         |
//	  +------------------- Drained <----------------------------+
//	     Wanted: more
//
//	Down      No process runs. Due says when the next one starts.
//	Running   One process runs. Due, if set, says when it is killed, because it has lost its lease or the coordinator has ended.
//	Draining  One process runs, and was told to end. Due says when it is killed.
//	Drained   The process ended on request. It starts again only when it is wanted again.
//	Done      The process ended for good.
//
// # Restarts
//
// Another start may mend a crash or a lost lease. The role then starts again after a pause. The pause doubles with each such end, and begins anew after a
// run in which the job went on. An error of the program, its data or its configuration would come again (fault.Kind.Permanent), and ends the job at once.
//
// The parameters are in the memory of pservers only. When a pserver ends after training has begun, its part of them is gone and a restart cannot bring it
// back. If the job has checkpoints, that pserver alone starts again, and all go back to the last one (GoBack). If other pservers end meanwhile, they start again
// too, and the job goes back once more. If that fails, or there is no checkpoint, the job starts over: all roles are killed, and when the last one has ended the
// next attempt begins, from a checkpoint or from the initial state.
//
// The coordinator has nothing that is not in etcd or on the pservers. When it is killed, however often, it alone starts again, also while the job goes back. Only a
// coordinator that says itself that state is gone (fault.LostState), and not for the first time, makes the job start over.
//
// # Example
//
// A job has a coordinator, one pserver and two trainers.
//
//	0s     Began                        Start all four. Effects are told once; the roles are Running from here on.
//	9s     Exited trainer 1, a crash    It is Down, due at 9.05s (FirstPause).
//	9.05s  Tick                         Start trainer 1: its second start.
//	20s    LeaseLost trainer 0          It is due in one second. It ends by itself, or is killed at 21s.
//	30s    Exited pserver 0, trained    The attempt is over. Kill coordinator and trainers. Nothing starts before all have ended.
//	31s    Exited (the last of them)    Forget: what the attempt has left is removed.
//	31.1s  Forgotten                    Start all four: the next attempt.
//
// With GoesBack:
//
//	30s    Exited pserver 0, trained    GoBack 1. It is Down, due at 30.05s.
//	30.05s Tick                         Start pserver 0. The others run on.
//	30.4s  WentBack 1                   Back. With an error: kill the others, as above.
//
//	99s    Exited, well, all four       End.
package supervise

import (
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
)

// Times of the policy.
const (
	FirstPause = 50 * time.Millisecond // between an end and the next start; it doubles
	LongPause  = 5 * time.Second       // the longest pause
	GoodRun    = time.Minute           // after such a run of a role, or such an attempt of the job, restarts count, and pauses begin, anew
	FairRun    = time.Second           // after such a run pauses begin anew if the job has gone on meanwhile
)

// A Policy is what a job allows.
type Policy struct {
	PServers    int
	MaxRestarts int           // of each role, and of the whole job, without a GoodRun between them; 0: none
	DrainTime   time.Duration // for a trainer to end that is not wanted any more; then it is killed
	LostLease   time.Duration // for a role to end by itself when its lease is lost; then it is killed
	Release     time.Duration // for a pserver to end by itself when the coordinator has ended well; a trainer has LostLease
	OneAttempt  bool          // the job does not start over: its client feeds another one
	GoesBack    bool          // the job can go back to a checkpoint while its processes stay
	Standbys    bool          // each pserver has a standby, which takes its place when it is lost
}

// An Event is what happens to the roles of a job: one of the types below.
type Event interface {
	apply(m *Machine, now time.Duration, out *Effects) error
}

type (
	// Began is the first event. It starts every role.
	Began struct{}
	// Exited says that the process of a role has ended: well when Err is nil.
	Exited struct {
		Member  cluster.Member
		Err     error
		Trained bool // of a pserver: the job had begun to train, so that its parameters are gone
	}
	// LeaseLost says that the lease of a role is gone while its process runs. It counts only for the process of the role's last start.
	LeaseLost struct {
		Member cluster.Member
		Starts int // of the role, with the one that the lease belonged to: StartsOf
	}
	// Forgotten answers Effects.Forget: nothing is left of the attempt that has ended, and the next one begins. With Err the job ends, because the attempt cannot begin.
	Forgotten struct{ Err error }
	// WentBack answers Effects.GoBack: the job goes on from a checkpoint, or cannot when Err is not nil.
	WentBack struct {
		Number int // of Effects.GoBack
		Err    error
	}
	// TookOver answers Effects.TakeOver: the process of the standby is that of the pserver from now on, or cannot be when Err is not nil.
	TookOver struct {
		TakeOver
		Err error
	}
	// Wanted says how many trainers are wanted. Missing ones are started, and the highest ranks end.
	Wanted struct{ Trainers int }
	// Scaled says how many pservers the job is to have. It is refused while the job has other things to do.
	Scaled struct {
		Servers int
		Anew    bool // the job begins its next attempt with them, from the checkpoint that was made for it
	}
	// Moved answers Effects.Move: the pservers that are wanted have the state of the job, or it stays where it was when Err is not nil.
	Moved struct {
		Number  int // of Effects.Move
		Err     error
		Unknown bool // Err says why nobody knows where the state is
	}
	// Progressed says that the job has made a step.
	Progressed struct{}
	// Tick says that time has passed: see Machine.Next.
	Tick struct{}
)

// Effects are what the caller does after an event, in this order.
type Effects struct {
	Placed bool             // the job has the pservers that it was changing to
	Stays  error            // why it has those that it had; nil: nothing was changing, or Placed
	Drain  []cluster.Member // ask these trainers to end when they can
	Kill   []cluster.Member // end these roles at once
	Forget bool             // remove the traces of the attempt that has ended. Nothing starts before Forgotten, which answers it: a role that runs would lose its place
	Start  []Start
	// TakeOver lets the standbys of pservers that are lost take their places.
	TakeOver []TakeOver
	// Replaced are pservers whose processes are those of their standbys from now on. The standbys start again.
	Replaced []int
	Back     bool // the job has gone back: its steps are told from there on
	// GoBack is the number of an attempt to take the job back to its last checkpoint, while the pservers that were lost start again; 0: none.
	GoBack int
	Move   int   // number of an attempt to move the state to other pservers, which start now or run; 0: none
	End    bool  // end the job: well when Err is nil. No effect follows
	Err    error // of End
}

// A Start is the start of a role.
type Start struct {
	Member cluster.Member
	Before int // how often the role was started before
}

// State is how far a role is.
type State int

const (
	// Down is a role that is to be started.
	Down State = iota
	Running
	Draining // not wanted any more, and told to end
	Drained  // ended on request
	Done     // ended well, or too late to matter
	Absent   // a pserver that is lost, and whose standby is asked to take its place
)

// String names the state.
func (s State) String() string {
	return [...]string{"down", "running", "draining", "drained", "done", "absent"}[s]
}

// A Role is what a Machine knows of one role.
type Role struct {
	cluster.Member
	State  State
	Starts int           // how often it was started
	Since  time.Duration // when the state began
	Due    time.Duration // of a role that is down: when it starts; of one that has to end: when it is killed; 0: no time is set
	Lost   bool          // it runs, but has lost its lease
	Last   error         // how it ended last, nil when it never failed; of a standby, since it has taken the place of its pserver

	restarts int           // in this attempt, after failures of its own
	pause    time.Duration // before the last start
	killed   bool
	renewed  bool   // a standby that was killed so that the next one has the slices of another placement
	steps    uint64 // of the job when the role was started
	process  Start  // of the process that runs, or ran last
}

// live reports whether the role has a process.
func (r *Role) live() bool { return r.State == Running || r.State == Draining }

// enter begins a state.
func (r *Role) enter(s State, now time.Duration) {
	r.State, r.Since, r.Due, r.Lost, r.killed, r.renewed = s, now, 0, false, false, false
}

// A Machine supervises the roles of one job. Its times are those of one clock of its caller, which never goes back. It is not for concurrent use.
type Machine struct {
	policy    Policy
	wanted    int // trainers
	roles     []*Role
	attempt   int           // from 0
	again     int           // attempts since the last one that has run for GoodRun
	clearing  bool          // an attempt has ended, and the next has not begun
	forgets   bool          // its traces are being removed: Forget has no answer yet
	beginAt   time.Duration // of the next attempt
	suspended bool          // it does not begin until the job is resumed
	pause     time.Duration // before this attempt
	began     time.Duration // of this attempt
	cause     error         // of the end of the last attempt
	ended     bool
	steps     uint64 // of the job, as far as they were told
	back
	takeovers
	scaling scaling
}

// back is the way of a job back to a checkpoint.
type back struct {
	number int   // how often GoBack was told
	why    error // how the pserver has ended because of which the job goes back now; nil: it does not
	more   bool  // another pserver has ended meanwhile
}

// GoesBack tells why the job goes back to a checkpoint; nil when it does not.
func (b *back) GoesBack() error { return b.why }

// New returns the machine of a job that wants a number of trainers at first.
func New(p Policy, trainers int) *Machine {
	return &Machine{policy: p, wanted: trainers, takeovers: takeovers{under: map[int]takeover{}}}
}

// Step lets an event happen at now. It refuses word of a role that the job does not have, and changes nothing then.
func (m *Machine) Step(now time.Duration, e Event) (out Effects, err error) {
	if err := e.apply(m, now, &out); err != nil {
		return Effects{}, err
	}
	return out, nil
}

// Next returns when a Tick has something to do. ok is false when only another event can change anything.
func (m *Machine) Next() (at time.Duration, ok bool) {
	if m.ended {
		return 0, false
	}
	if m.clearing {
		return m.beginAt, !anyLive(m.roles) && !m.suspended && !m.forgets
	}
	for _, r := range m.roles {
		if r.Due != 0 && (r.State == Down || mayKill(m, r)) && (!ok || r.Due < at) {
			at, ok = r.Due, true
		}
	}
	return at, ok
}

func (Began) apply(m *Machine, now time.Duration, out *Effects) error {
	m.began = now
	m.role(cluster.Member{Role: job.Role_COORDINATOR})
	for i := range m.policy.PServers {
		m.role(cluster.Member{Role: job.Role_PSERVER, Index: i})
		if m.policy.Standbys {
			m.role(cluster.Member{Role: job.Role_STANDBY, Index: i})
		}
	}
	m.adjustTrainers(now, out)
	m.tick(now, out)
	return nil
}

func (e LeaseLost) apply(m *Machine, now time.Duration, _ *Effects) error {
	r := m.find(e.Member)
	if r == nil {
		return unknown(e.Member)
	}
	if r.live() && r.Starts == e.Starts && !r.Lost && !m.ended {
		r.Lost, r.Due = true, now+m.policy.LostLease
	}
	return nil
}

func (e Wanted) apply(m *Machine, now time.Duration, out *Effects) error {
	m.wanted = e.Trainers
	if !m.ended && !m.clearing {
		m.adjustTrainers(now, out)
		m.tick(now, out)
	}
	return nil
}

func (e Forgotten) apply(m *Machine, now time.Duration, out *Effects) error {
	if !m.forgets || m.ended {
		return nil
	}
	if m.forgets = false; e.Err != nil {
		m.end(e.Err, out)
		return nil
	}
	m.beginAttempt(now, out)
	m.tick(now, out)
	return nil
}

func (e WentBack) apply(m *Machine, now time.Duration, out *Effects) error {
	cause, more := m.why, m.more
	if e.Number != m.number || cause == nil || m.ended || m.clearing {
		return nil
	}
	if m.why, m.more = nil, false; e.Err != nil {
		m.startOver(now, cause, out)
		return nil
	}
	if out.Back = true; more {
		m.goBack(cause, out)
	}
	return nil
}

func (Progressed) apply(m *Machine, _ time.Duration, _ *Effects) error {
	m.steps++
	return nil
}

func (Tick) apply(m *Machine, now time.Duration, out *Effects) error {
	m.tick(now, out)
	return nil
}

// find returns the record of a member, nil when there is none.
func (m *Machine) find(member cluster.Member) *Role {
	i := slices.IndexFunc(m.roles, func(r *Role) bool { return r.Member == member })
	if i < 0 {
		return nil
	}
	return m.roles[i]
}

func unknown(member cluster.Member) error {
	return fault.E(fault.NotFound, fault.At(member.String()), fault.Got("a role that the job does not have"), fault.Want("one that was started"))
}

// role returns the record of a member. A new record is down, and the next tick starts it.
func (m *Machine) role(member cluster.Member) *Role {
	if r := m.find(member); r != nil {
		return r
	}
	r := &Role{Member: member}
	m.roles = append(m.roles, r)
	return r
}

// adjustTrainers compares the trainers that there are with those that are wanted. When one has seen the end of the data, no other is started.
func (m *Machine) adjustTrainers(now time.Duration, out *Effects) {
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
			out.Drain = append(out.Drain, r.Member)
		}
	}
}

// tick does what is due.
func (m *Machine) tick(now time.Duration, out *Effects) {
	if m.ended {
		return
	}
	if m.clearing {
		if !anyLive(m.roles) && !m.suspended && !m.forgets && now >= m.beginAt {
			m.forgets, out.Forget = true, true
		}
		return
	}
	for _, r := range m.roles {
		switch {
		case r.State == Down && r.Due <= now:
			out.Start = append(out.Start, Start{r.Member, r.Starts})
			r.enter(Running, now)
			r.steps = m.steps
			r.process = Start{r.Member, r.Starts}
			r.Starts++
		case r.Due != 0 && r.Due <= now && mayKill(m, r):
			r.killed = true
			out.Kill = append(out.Kill, r.Member)
		}
	}
}

// mayKill reports whether a role is killed when it is due.
func mayKill(m *Machine, r *Role) bool {
	return r.live() && !r.killed && (r.Role != job.Role_STANDBY || !m.TakesOver(r.Index))
}

func anyLive(roles []*Role) bool { return slices.ContainsFunc(roles, (*Role).live) }

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

// StartsOf returns how often a role was started, 0 for one that the job does not have.
func (m *Machine) StartsOf(member cluster.Member) int {
	if r := m.find(member); r != nil {
		return r.Starts
	}
	return 0
}

// Attempt returns how often the job has started over.
func (m *Machine) Attempt() int { return m.attempt }

// Restarting tells of an attempt that has ended: when the next one begins at the earliest, and why. It returns nil when there is none. Of a job that is suspended it
// tells why once that is resumed.
func (m *Machine) Restarting() (at time.Duration, cause error) {
	if !m.clearing {
		return 0, nil
	}
	return m.beginAt, m.cause
}

// Cause returns why the last attempt ended; nil in the first one.
func (m *Machine) Cause() error { return m.cause }
