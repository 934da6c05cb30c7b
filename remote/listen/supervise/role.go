package supervise

import (
	"time"

	"github.com/edl-go/edl/remote/cluster"
)

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
