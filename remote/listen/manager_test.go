package listen_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// A job that ends with its listener was stopped; it has not failed.
func TestJobsStopWithTheirManager(t *testing.T) {
	h := newHouse(t, listen.Config{}, func(string) run { return idle })
	j := h.begin(t, reading(t))
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if s := j.Status(); s.State != job.State_STOPPED || !strings.Contains(wire.FaultOf(s.Failure).Error(), "stopped with its listener") {
		t.Errorf("%v", s)
	}
}

// Jobs that have ended are forgotten, the oldest first, and those that run never.
func TestOldJobsAreForgotten(t *testing.T) {
	h := newHouse(t, listen.Config{MaxJobs: 3}, all(idle))
	var names []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		j := h.begin(t, fedAs(t, name))
		if name != "b" {
			if err := j.Stop(bounded(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, j := range h.Jobs() {
		names = append(names, j.ID)
	}
	if got := strings.Join(names, " "); got != "b d e" {
		t.Errorf("jobs %s, want b, which runs, and the last two", got)
	}
}

// A manager that closes ends its jobs and takes no more.
func TestCloseEndsJobs(t *testing.T) {
	h := newHouse(t, listen.Config{}, all(idle))
	j := h.begin(t, fed(t))
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if s := j.Status(); s.State == job.State_RUNNING || !j.Ended() || !errors.Is(j.Wait(bounded(t)), fault.Canceled) {
		t.Errorf("the job is %v: %v", s.State, s.Failure)
	}
	if _, err := h.Start(bounded(t), fed(t)); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a job after the end: %v", err)
	}
}
