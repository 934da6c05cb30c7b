package jobspec

import (
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// Needs returns what a role takes: a number of cores, where it is said, and MiB of memory, where they are not 0. It is nil where nothing is said.
func Needs(cores *float64, mib int64) (*job.Needs, error) {
	if cores == nil && mib == 0 {
		return nil, nil
	}
	if mib < 0 || mib > maxMemory>>20 {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("%d MiB for a role", mib), fault.Wantf("at most %d", int64(maxMemory)>>20))
	}
	n := &job.Needs{Memory: mib << 20}
	if cores != nil {
		milli, err := Millicores(*cores)
		if err != nil {
			return nil, err
		}
		n.Millicores = &milli
	}
	return n, nil
}

// Millicores returns thousandths of cores.
func Millicores(cores float64) (int64, error) {
	if !(cores >= 0 && cores*1000 <= maxMillicores) {
		return 0, fault.E(fault.InvalidArgument, fault.Gotf("%v cores", cores), fault.Wantf("0 to %d, such as 2 or 0.5", int64(maxMillicores)/1000))
	}
	return int64(math.Ceil(cores * 1000)), nil
}

// Said is what the user of a job has said of what a role takes; nil: nothing.
func Said(spec *job.RoleSpec) *job.Needs {
	switch spec.GetRole() {
	case job.Role_TRAINER:
		return spec.GetSpec().GetTrainerNeeds()
	case job.Role_PSERVER, job.Role_STANDBY:
		return spec.GetSpec().GetPserverNeeds()
	default:
		return nil
	}
}

// What follows from a program is the least memory that a role can take. A role for which nobody has said more is bounded by so many times that, and so much beside:
// for the garbage of its heap, the records that it has read ahead, and the buffers of its connections.
const (
	slackTimes = 4
	slackBytes = 512 << 20
)

// Bounds returns what the process of a role may take at most, at a listener that counts cores, or memory; nil: whatever it can get. A role that takes no cores
// works while others wait, so its cores have no bound.
func Bounds(spec *job.RoleSpec, cores, memory bool) *job.Needs {
	b := &job.Needs{}
	if n := spec.GetNeeds().GetMillicores(); cores && n > 0 {
		b.Millicores = &n
	}
	if said := Said(spec).GetMemory(); memory && said > 0 {
		b.Memory = said
	} else if n := spec.GetNeeds().GetMemory(); memory && n > 0 {
		b.Memory = slackTimes*min(n, maxMemory) + slackBytes
	}
	if b.Millicores == nil && b.Memory == 0 {
		return nil
	}
	return b
}
