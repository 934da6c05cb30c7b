package program

import (
	"fmt"

	"github.com/edl-go/edl/fault"
)

// maxFaults is the number of faults that one check reports; a hostile file could else fill a log.
const maxFaults = 100

// A report collects the faults of one check up to maxFaults and counts the rest.
type report struct {
	list fault.List
	more int
}

func (r *report) add(f *fault.Fault) {
	if len(r.list) < maxFaults {
		r.list.Add(f)
	} else {
		r.more++
	}
}

func (r *report) err() error {
	if r.more > 0 {
		r.list.Add(fault.E(r.list[0].Kind, fault.Cause(fmt.Errorf("and %d more faults", r.more))))
		r.more = 0
	}
	return r.list.Err()
}
