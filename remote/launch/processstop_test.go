package launch_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
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

func TestContextStopsProcess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	log := newTranscript()
	h, err := launched("orderly").Start(ctx, trainer(1), log)
	if err != nil {
		t.Fatal(err)
	}
	log.until(t, "ready")
	cancel()
	if err := h.Wait(); err != nil {
		t.Fatal(err)
	}
	log.until(t, "drained")
}

// Kill does not ask, and a role that was killed counts as lost: that it was wanted is for whoever killed it to know.
func TestKill(t *testing.T) {
	h, log := start(t, launched("deaf"))
	log.until(t, "ready")
	h.Kill()
	expectFault(t, h.Wait(), fault.LostMember, "signal: killed")
	h.Kill() // once more does nothing
}
