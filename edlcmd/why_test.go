package edlcmd

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// A job of which all trainers wait for some time does not go on, although nobody has said yet that a server is silent.
func TestWhySaysThatAllTrainersWait(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		state job.State
		waits [2]time.Duration // of the trainers; 0: it does not wait
		want  string
	}{
		{job.State_RUNNING, [2]time.Duration{6 * time.Second, 6 * time.Second}, "job x does not go on, after 520 steps: all of its trainers wait"},
		{job.State_RUNNING, [2]time.Duration{6 * time.Second, 0}, "job x is running, after 520 steps"},
		{job.State_RUNNING, [2]time.Duration{6 * time.Second, 100 * time.Millisecond}, "job x is running, after 520 steps"},
		{job.State_RUNNING, [2]time.Duration{}, "job x is running, after 520 steps"},
		{job.State_STARTING, [2]time.Duration{6 * time.Second, 6 * time.Second}, "job x is starting, after 520 steps"},
	} {
		r := &rpc.WhyResponse{Status: &job.JobStatus{Job: "x", State: c.state, Steps: 520}}
		for i, wait := range c.waits {
			r.Status.Roles = append(r.Status.Roles, &job.RoleStatus{Role: job.Role_TRAINER, Index: uint32(i), State: job.State_RUNNING})
			if wait > 0 {
				r.Waits = append(r.Waits, &job.Wait{Who: []string{"trainer 0", "trainer 1"}[i], What: "a task", By: []string{"coordinator"}, Since: timestamppb.New(now.Add(-wait))})
			}
		}
		r.Status.Roles = append(r.Status.Roles, &job.RoleStatus{Role: job.Role_TRAINER, Index: 2, State: job.State_STOPPED})
		if got, _, _ := strings.Cut(answerWhy(r, now), "\n"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if got, _, _ := strings.Cut(answerWhy(&rpc.WhyResponse{Status: &job.JobStatus{Job: "x", State: job.State_RUNNING}}, now), "\n"); got != "job x is running, after 0 steps" {
		t.Errorf("without trainers: %q", got)
	}
}
