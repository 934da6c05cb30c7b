package listen_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
)

// The listener says why a role has no trace, and keeps the traces of few jobs.
func TestMissingTraces(t *testing.T) {
	h := newHarness(t, listen.Config{}, all(func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
		if spec.Role == job.Role_PSERVER {
			launch.ReportOf(ctx).Trace(&job.Trace{Clock: 1})
		}
		return nil
	}))
	run := func(steps int32) *listen.Job {
		spec := reading(t)
		spec.ProfileSteps = steps
		j := h.begin(t, spec)
		_ = j.Wait(bounded(t)) // roles that do nothing may be missed
		return j
	}
	expect := func(j *listen.Job, pserver, trainer string) {
		t.Helper()
		for _, m := range j.Times(false, true, false) {
			want := trainer
			if m.Role == job.Role_PSERVER {
				want = pserver
			}
			if (m.Missing == "") != (want == "") || !strings.Contains(m.Missing, want) || (want == "") != (len(m.Trace) > 0) {
				t.Errorf("%v %d: a trace of %d bytes, missing %q, want %q", m.Role, m.Index, len(m.Trace), m.Missing, want)
			}
		}
	}
	expect(run(0), "", "profiles no steps") // what has arrived is told
	first := run(10)
	expect(first, "", "ended before it had told its whole trace")
	for range 4 {
		run(10)
	}
	expect(first, "last jobs only", "last jobs only")
}
