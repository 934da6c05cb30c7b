// Package launch starts the roles of a job: as goroutines of this process, as child processes, or on the nodes of a cluster. Whoever starts a role
// does not know which.
//
// Files in reading order: launch.go has Launcher and Handle; lines.go cuts what a role writes into lines; goroutines.go, processes.go and nodes.go are the
// three launchers; bounds.go, bounds_linux.go, bounds_other.go and cgroup.go keep a child process to what its role may take; binary.go, binary_linux.go and binary_other.go keep a binary as it was; keeper.go owns processes for listeners that come and go, and kept.go is the launcher of such a listener; threads.go, threads_linux.go and threads_other.go divide the cores of a host among child processes, and save wake-ups; child.go is
// what passes between a launcher and its child process; renew.go gives a role the next credentials; serve.go is a node's side of nodes.go; rundir.go is the directory of a cluster of one machine.
//
// Three pipes join a launcher and its child:
//
//	launcher                                     child
//	   |-- standard input: job.RoleSpec ----------->|   stays open; its end means that the launcher is gone, however it died, and the child ends.
//	   |                   then job.RoleRenewals     |   Meanwhile each frame has the next credentials of the role
//	   |<- standard output and error: the log ------|   lines for people; the last one, or the first ones of a crash, are part of the error of a role
//	   |<- a further pipe: job.RoleReport, framed --|   what the role waits for and how long its rounds take, at most once a second; at its end
//	                                                |   the trace of a job that is profiled, and why the role failed
//
// No child outlives its parent, which is the listener, or its Keeper. A child is in a process group of its own, so that an interrupt from the terminal reaches the parent alone, which then
// stops its children in order. A role that is started by hand has no pipe for reports, and says so in its log.
package launch

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
)

// A Launcher starts roles.
type Launcher interface {
	// Start starts the role that spec describes. When ctx ends, the role is stopped and has LauncherStop of its job's deadlines to end. What the role
	// writes goes to log, one whole line in each call, never two calls at once; nil discards it. An error means that the role was not started.
	Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (Handle, error)
}

// Here reports whether a launcher starts all roles on this machine, so that they see its directories. Of a launcher of the user it is not known.
func Here(l Launcher) bool {
	switch l.(type) {
	case goroutines, Processes, Kept:
		return true
	}
	return false
}

// A Handle is a role that was started. Its methods may be called concurrently and repeatedly.
type Handle interface {
	// Wait returns when the role has ended: nil if it succeeded, else a *fault.Fault that names the role, how it ended, and its last line or why it crashed.
	Wait() error
	// Stop asks the role to end, and makes it end after grace. It returns when the role has ended. Where the end of a role cannot be forced, it is given
	// up.
	Stop(grace time.Duration)
	// Kill makes the role end at once, and returns as Stop does.
	Kill()
	// Renew gives the role the next credentials, which connections of it show from then on. It may wait for a role that is paused, until that ends. An error
	// means that the role does not have them.
	Renew(m *job.RoleRenewal) error
	// Waits returns what the role said last that it waits for, without Who, and a channel that is closed when the role says something else. The list is
	// not to be changed. It stays when the role hangs, and when the role has ended.
	Waits() (list []*job.Wait, changed <-chan struct{})
	// Rounds returns what the role said last of where the time of its rounds went; nil: nothing. It stays when the role has ended.
	Rounds() *job.RoundTimes
	// Trace returns the encoded job.Trace of a role that has ended, empty if it has told none or only a part, and how much the clock of its machine is ahead of this one.
	Trace() (encoded []byte, ahead time.Duration)
	// Node is the id of the node that runs the role; empty: this machine.
	Node() string
	// Pid is the process of the role; 0 when it has none here.
	Pid() int
}

// nameOf names a role in messages: "trainer 1 of job mnist".
func nameOf(spec *job.RoleSpec) string {
	return memberOf(spec).String() + " of job " + spec.Job
}

func memberOf(spec *job.RoleSpec) cluster.Member {
	return cluster.Member{Role: spec.Role, Index: int(spec.Index)}
}

// named returns err with the name of its role, once, and keeps its kind and fields. The role may have named itself, without its job.
func named(name string, member cluster.Member, kind fault.Kind, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Error() != err.Error() {
		return fault.E(kind, fault.At(name), fault.Cause(err))
	}
	c := *f
	where := f.Where
	for _, own := range []string{name, member.ID(), member.String()} {
		if rest, ok := strings.CutPrefix(where, own); ok && (rest == "" || strings.HasPrefix(rest, ": ")) {
			where = strings.TrimPrefix(rest, ": ")
		}
	}
	if c.Where = name; where != "" {
		c.Where += ": " + where
	}
	return &c
}
