package rig

import (
	"fmt"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// Patience is how long a test may take. What it waits for then does not come.
const Patience = 20 * time.Second

// Hurry calls giveUp when a test has taken longer than Patience. It is to fail the server that the test waits for, with TooLong. Benchmarks take
// their time.
func Hurry(t testing.TB, giveUp func()) {
	if _, ok := t.(*testing.T); ok {
		timer := time.AfterFunc(Patience, giveUp)
		t.Cleanup(func() { timer.Stop() })
	}
}

// TooLong says what a server waits for that was given up.
func TooLong(server string, waits []*job.Wait, err error) error {
	text := "nothing"
	for i, w := range waits {
		if i == 0 {
			text = ""
		} else {
			text += "; "
		}
		text += fmt.Sprintf("%s by %v", w.What, w.By)
	}
	return fault.E(fault.DeadlineExceeded, fault.At("the test of a "+server), fault.Gotf("no end within %v; it waits for %s", Patience, text),
		fault.Cause(err))
}
