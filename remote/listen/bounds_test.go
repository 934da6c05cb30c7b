package listen_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/listen"
)

// A job that has run for as long as it may fails, whatever its roles do, and says so.
func TestJobRunsForTooLong(t *testing.T) {
	h := newHarness(t, listen.Config{}, all(idle))
	spec := reading(t)
	spec.MaxTime = durationpb.New(time.Second)
	j := h.begin(t, spec)
	err := j.Wait(bounded(t))
	if s := j.Status(); fault.KindOf(err).ExitCode() != 2 || s.State != job.State_FAILED || s.RanMs < 1000 || !strings.Contains(err.Error(), "--max-time") {
		t.Errorf("%v after %d ms: %v", s.State, s.RanMs, err)
	}
}
