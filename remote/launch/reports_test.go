package launch_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/launch"
)

// A reporter takes the reports of a role.
type reporter interface {
	Rounds(m *job.RoundTimes)
	Trace(m *job.Trace)
}

// reportTimes is what a role of these tests reports: a trace of some reports' size.
func reportTimes(to reporter) {
	to.Rounds(&job.RoundTimes{First: 3, Last: 7, Rounds: 5, Median: 10, Worst: 20})
	to.Trace(longTrace())
}

func longTrace() *job.Trace {
	return &job.Trace{Clock: 17, Phases: []string{"read"}, Kernels: []*job.TracedKernel{{Name: strings.Repeat("mul", launch.MaxReport)}}}
}

// The times of the rounds of a role, and its trace, reach whoever has started it, in whatever way it was started.
func TestTimesAreReported(t *testing.T) {
	works := launch.Goroutines(func(ctx context.Context, _ *job.RoleSpec, _ io.Writer) error {
		reportTimes(launch.ReportOf(ctx))
		reportTimes(launch.ReportOf(context.Background())) // tells nobody
		return nil
	})
	var all nodes
	all.add(t, "a", launched("times"))
	for name, l := range map[string]launch.Launcher{"goroutine": works, "process": launched("times"), "node": &launch.Nodes{Directory: &all}} {
		h, _ := start(t, l)
		if err := h.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if m := h.Rounds(); m.GetFirst() != 3 || m.GetRounds() != 5 {
			t.Errorf("%s: rounds %v", name, m)
		}
		encoded, ahead := h.Trace()
		m := &job.Trace{}
		if err := proto.Unmarshal(encoded, m); err != nil || !proto.Equal(m, longTrace()) || ahead != 0 {
			t.Errorf("%s: a trace of %d bytes, %v; the clock is ahead by %v", name, len(encoded), err, ahead)
		}
	}
}

// lateClock is a node whose clock is an hour ahead.
type lateClock struct{ listener }

func (lateClock) Describe(context.Context, *rpc.DescribeRequest) (*rpc.DescribeResponse, error) {
	return &rpc.DescribeResponse{Now: time.Now().Add(time.Hour).UnixNano()}, nil
}

// The clock of a node is compared with that of the listener where a job is profiled.
func TestClockOfANode(t *testing.T) {
	var all nodes
	all.serve(t, "a", lateClock{listener{Launcher: launched("times")}})
	for _, steps := range []int32{0, 100} {
		spec := trainer(0)
		spec.Spec = &job.JobSpec{ProfileSteps: steps}
		h, err := (&launch.Nodes{Directory: &all}).Start(t.Context(), spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Wait(); err != nil {
			t.Error(err)
		}
		_, ahead := h.Trace()
		if right := (ahead - time.Hour).Abs() < 5*time.Second; right != (steps > 0) {
			t.Errorf("with %d steps the clock of the node is ahead by %v", steps, ahead)
		}
	}
}
