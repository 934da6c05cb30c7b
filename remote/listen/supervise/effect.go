package supervise

import (
	"github.com/edl-go/edl/remote/cluster"
)

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
