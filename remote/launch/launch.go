package launch

import (
	"context"
	"io"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
)

// A Launcher starts roles.
type Launcher interface {
	// Start starts the role that spec describes. When ctx ends the role is stopped. What the role writes goes to log, one whole line a call, never two
	// calls at once; nil discards it. An error says that the role was not started.
	Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (Handle, error)
}

// A Handle is a role that was started. Its methods may be called concurrently and repeatedly.
type Handle interface {
	// Wait returns when the role has ended: nil if it succeeded, else a *fault.Fault that names the role, how it ended, and its last line.
	Wait() error
	// Stop asks the role to end, and makes it end after grace. It returns when the role has ended, or is given up where its end cannot be forced.
	Stop(grace time.Duration)
	// Kill makes the role end at once, without asking, and returns as Stop does.
	Kill()
	// Node is the id of the node that runs the role; empty: this machine.
	Node() string
	// Pid is the process of the role; 0 when it has none here.
	Pid() int
}

// stopGrace is how long a role has for an orderly end when the context that it was started with ends.
const stopGrace = 5 * time.Second

// killTime bounds the wait for a role that was killed where its end cannot be forced or seen.
const killTime = 2 * time.Second

// nameOf names a role in messages: "trainer 1 of job mnist".
func nameOf(spec *job.RoleSpec) string {
	return memberOf(spec).String() + " of job " + spec.Job
}

func memberOf(spec *job.RoleSpec) cluster.Member {
	return cluster.Member{Role: spec.Role, Index: int(spec.Index)}
}
