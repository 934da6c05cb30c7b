package listen_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/listen"
)

// follow reads a stream to its end.
func follow[M any](t *testing.T, recv func() (M, error), each func(M)) {
	t.Helper()
	for {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		each(m)
	}
}

// A job that ends well has told every step in order, to whoever watches, from the first on, and every role has ended with status 0.
func TestWatchFromTheFirstEvent(t *testing.T) {
	h := newHouse(t, listen.Config{}, nil)
	client := serve(t, h.Manager)
	spec := reading(t)
	spec.Passes = 2
	j := h.begin(t, spec)
	watch := func() (told []string, last *job.JobStatus) {
		t.Helper()
		stream, err := client.Watch(bounded(t), &rpc.JobRequest{Job: j.ID})
		if err != nil {
			t.Fatal(err)
		}
		follow(t, stream.Recv, func(e *job.Event) {
			if s := e.GetStatus(); s != nil {
				last = s
				told = append(told, s.State.String())
				return
			}
			told = append(told, fmt.Sprintf("step %d of pass %d: %d rows, %d values", e.GetStep().Step, e.GetStep().Pass, e.GetStep().Rows,
				len(e.GetStep().Fetched)))
		})
		return told, last
	}
	during, last := watch()
	after, _ := watch()
	want := []string{"STARTING", "RUNNING"}
	for step := range 8 {
		want = append(want, fmt.Sprintf("step %d of pass %d: 5 rows, 1 values", step, step/4))
	}
	want = append(want, "SUCCEEDED")
	if !slices.Equal(during, want) || !slices.Equal(after, want) {
		t.Errorf("told while it ran\n%q and afterwards\n%q, want\n%q", during, after, want)
	}
	if last.Steps != 8 || last.Records != 40 || last.Passes != 2 || last.Seconds <= 0 || last.Failure != nil || len(last.Roles) != 5 {
		t.Errorf("the last status is %v", last)
	}
	status, err := client.Status(bounded(t), &rpc.JobRequest{Job: j.ID})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range status.Roles {
		if r.State != job.State_SUCCEEDED || r.ExitCode != 0 {
			t.Errorf("%v %d: %v", r.Role, r.Index, r)
		}
	}
}

// Logs are those of all roles, or of one.
func TestLogs(t *testing.T) {
	h := newHouse(t, listen.Config{}, nil)
	client := serve(t, h.Manager)
	j := h.begin(t, reading(t))
	read := func(role string, followed bool) (roles, lines []string) {
		t.Helper()
		stream, err := client.Logs(bounded(t), &rpc.LogsRequest{Job: j.ID, Role: role, Follow: followed})
		if err != nil {
			t.Fatal(err)
		}
		follow(t, stream.Recv, func(l *rpc.LogLine) {
			if roles = append(roles, l.Role); strings.Contains(l.Line, "role ends") {
				lines = append(lines, l.Role)
			}
		})
		slices.Sort(roles)
		slices.Sort(lines)
		return slices.Compact(roles), lines
	}
	want := []string{"coordinator", "pserver-0", "pserver-1", "trainer-0", "trainer-1"}
	if roles, ended := read("", true); !slices.Equal(roles, want) || !slices.Equal(ended, want) {
		t.Errorf("lines of %v, of which %v have ended", roles, ended)
	}
	if roles, _ := read("trainer-1", false); !slices.Equal(roles, want[4:]) {
		t.Errorf("lines of %v where those of trainer-1 were asked for", roles)
	}
}
