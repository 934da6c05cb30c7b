package launch_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/launch"
)

func TestProcessIsKilledByAnother(t *testing.T) {
	h, log := start(t, launched("wait"))
	log.until(t, "ready")
	p, err := os.FindProcess(h.Pid())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	expectFault(t, h.Wait(), fault.LostMember, "signal: killed", `"ready"`)
}

func TestStopInOrder(t *testing.T) {
	h, log := start(t, launched("orderly"))
	log.until(t, "ready")
	h.Stop(patience)
	if err := h.Wait(); err != nil {
		t.Fatal(err)
	}
	log.until(t, "drained")
	h.Stop(patience) // once more does nothing
}

func TestStopByForce(t *testing.T) {
	h, log := start(t, launched("deaf"))
	log.until(t, "ready")
	h.Stop(time.Millisecond)
	expectFault(t, h.Wait(), fault.Canceled, "signal: killed")
}

// The end of the context that a role was started with ends the role, in order.
func TestContextStopsRoles(t *testing.T) {
	var all nodes
	all.add(t, "a", launch.Goroutines(obedient))
	for name, l := range map[string]launch.Launcher{"process": launched("orderly"), "node": &launch.Nodes{Directory: &all}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			log := newTranscript()
			h, err := l.Start(ctx, trainer(1), log)
			if err != nil {
				t.Fatal(err)
			}
			log.until(t, "ready")
			cancel()
			if err := h.Wait(); err != nil {
				t.Fatal(err)
			}
			log.until(t, "drained")
		})
	}
}

// Kill does not ask, and a role that was killed counts as lost: that it was wanted is for whoever killed it to know.
func TestKill(t *testing.T) {
	h, log := start(t, launched("deaf"))
	log.until(t, "ready")
	h.Kill()
	expectFault(t, h.Wait(), fault.LostMember, "signal: killed")
	h.Kill() // once more does nothing
}
