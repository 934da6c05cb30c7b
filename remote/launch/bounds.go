package launch

import (
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// A role may take what RoleSpec.bounds says:
//
//	cores    by threads (threads.go), and in a group of its own by the kernel, also parts of them (cgroup.go)
//	memory   the runtime of Go collects garbage more often when the process comes near the bound. Beyond it the role is ended: by who has started it, which looks at it
//	         regularly, or by the kernel, in a group of its own
//
// Memory is what the process has for itself: what it has allocated, and what it shares with other processes of its host, without files that are mapped.

// memoryCheck is the time between two looks at the memory of a role.
const memoryCheck = 200 * time.Millisecond

// collectAt is the part of a bound, in percent, from which on garbage is collected as often as it must be.
const collectAt = 90

// boundsEnv is the environment by which the runtime of Go keeps to a bound; a bound that the user has set for this process gives way.
func boundsEnv(spec *job.RoleSpec) []string {
	if bound := spec.GetBounds().GetMemory(); bound > 0 {
		return []string{fmt.Sprintf("GOMEMLIMIT=%d", bound/100*collectAt)}
	}
	return nil
}

// overMemory is the error of a role that has taken more memory than its bound. It is permanent: another start would take as much.
func overMemory(spec *job.RoleSpec, took int64) error {
	bound := spec.GetBounds().GetMemory()
	hint := "start the job with smaller batches, or with more memory for each trainer: --trainer-mib"
	switch spec.Role {
	case job.Role_PSERVER, job.Role_STANDBY:
		hint = "start the job with more pservers, or with more memory for each: --pserver-mib"
	case job.Role_COORDINATOR:
		hint = "start the job with fewer files and trainers"
	}
	got := mib(took) + " of memory"
	if took <= bound { // the kernel has given it no more
		got = "more than " + mib(bound) + " of memory"
	}
	return fault.E(fault.TooLarge, fault.At(nameOf(spec)), fault.Got(got), fault.Want("at most "+mib(bound)+", with which it was admitted"),
		fault.Hint("it was ended so that others keep theirs; "+hint))
}

// mib is a number of bytes for people: "12.5 MiB".
func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// watchMemory ends the process when it takes more memory than its role may, until it has ended. measure says what a process has now; false: it is not known.
func (h *process) watchMemory(spec *job.RoleSpec, measure func(pid int) (int64, bool)) {
	bound := spec.GetBounds().GetMemory()
	if bound == 0 {
		return
	}
	every := time.NewTicker(memoryCheck)
	defer every.Stop()
	for {
		select {
		case <-h.done:
			return
		case <-every.C:
		}
		if took, ok := measure(h.cmd.Process.Pid); ok && took > bound {
			h.over.CompareAndSwap(nil, &overBound{overMemory(spec, took)})
			_ = h.cmd.Process.Kill() // fails only when it has ended
			return
		}
	}
}

// An overBound is why a role was ended that has taken more than it may.
type overBound struct{ err error }
