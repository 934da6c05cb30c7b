package launch

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"github.com/edl-go/edl/proto/job"
)

// threadsEnv bounds the threads of a Go process that run Go code at the same time.
const threadsEnv = "GOMAXPROCS"

// threads is how many threads of a role run Go code at the same time, on a host with so many cores; 0: as many as the process likes. The trainers of a
// job on one host divide its cores, and so do the pservers: trainers compute while pservers wait, and the other way round. A role with one thread wakes
// nobody to hand work on, so a round has fewer context switches. Every worker that the job asks for gets a thread, as long as there are cores.
//
// A lease does not depend on the number. A goroutine that computes is preempted after 10 ms, and then timers and connections have their turn. Kernels in
// assembly cannot be preempted, but each call works on one tile or row and ends within microseconds.
func threads(spec *job.RoleSpec, cores int) int {
	s := spec.GetSpec()
	var roles int
	switch spec.Role {
	case job.Role_TRAINER:
		roles = int(max(s.GetTrainers(), s.GetTrainersMax()))
	case job.Role_PSERVER, job.Role_STANDBY:
		roles = int(s.GetPservers() * (1 + s.GetStandby()))
	}
	if roles == 0 {
		return 0
	}
	hosts := int(max(spec.Hosts, 1))
	here := (roles + hosts - 1) / hosts
	return min(cores, max(cores/here, int(s.GetWorkers()), 1))
}

// boundThreads is threads for a role that may take so many thousandths of cores; 0: all. A part of a core is a thread.
func boundThreads(n int, millicores int64) int {
	bound := int(min((millicores+999)/1000, 1<<20))
	if bound == 0 || n > 0 && n < bound {
		return n
	}
	return bound
}

// threadsOf is the environment that gives a role its threads. A bound that the user has set for this process holds for its children, too, where theirs is not lower.
func threadsOf(spec *job.RoleSpec) []string {
	n := threads(spec, runtime.GOMAXPROCS(0))
	if value, set := os.LookupEnv(threadsEnv); set {
		n, _ = strconv.Atoi(value) // the runtime ignores what is no number, too
		if bound := boundThreads(n, spec.GetBounds().GetMillicores()); bound == n {
			return nil
		}
	}
	if n = boundThreads(n, spec.GetBounds().GetMillicores()); n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s=%d", threadsEnv, n)}
}
