package launch_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/launch"
)

func TestStopOnNode(t *testing.T) {
	for _, c := range []struct {
		name     string
		launcher launch.Launcher
	}{
		{"goroutine", launch.Goroutines(obedient)},
		{"process", launched("orderly")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all nodes
			all.add(t, "a", c.launcher)
			h, log := start(t, &launch.Nodes{Directory: &all})
			log.until(t, "ready")
			h.Stop(patience)
			if err := h.Wait(); err != nil {
				t.Fatal(err)
			}
			log.until(t, "drained")
		})
	}
}

// Kill reaches the role: the node says that it has ended.
func TestKillOnNode(t *testing.T) {
	var all nodes
	all.add(t, "a", launched("deaf"))
	h, log := start(t, &launch.Nodes{Directory: &all})
	log.until(t, "ready")
	h.Kill()
	expectFault(t, h.Wait(), fault.LostMember, "trainer 1 of job digits on node a", "signal: killed")
}

// A client without patience breaks the stream, and the node ends the role.
func TestStopOnNodeByForce(t *testing.T) {
	var all nodes
	release := make(chan struct{})
	ended := make(chan struct{})
	all.add(t, "a", launch.Goroutines(func(ctx context.Context, _ *job.RoleSpec, log io.Writer) error {
		defer close(ended)
		fmt.Fprintln(log, "ready")
		<-ctx.Done()
		<-release
		return nil
	}))
	h, log := start(t, &launch.Nodes{Directory: &all})
	log.until(t, "ready")
	h.Stop(0)
	expectFault(t, h.Wait(), fault.Canceled, "trainer 1 of job digits on node a")
	close(release)
	<-ended
}

func TestNodeIsLost(t *testing.T) {
	var all nodes
	ended := make(chan struct{})
	node := all.add(t, "a", launch.Goroutines(func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
		defer close(ended)
		return obedient(ctx, spec, log)
	}))
	h, log := start(t, &launch.Nodes{Directory: &all})
	log.until(t, "ready")
	node.Stop()
	expectFault(t, h.Wait(), fault.LostMember, "trainer 1 of job digits on node a")
	<-ended
}
