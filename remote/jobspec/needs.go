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
