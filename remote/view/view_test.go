package view

import (
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
)

func TestLastEnd(t *testing.T) {
	killed := fault.E(fault.LostMember, fault.At("trainer 1 of job x"), fault.Got("signal: killed"), fault.Want("exit status 0"),
		fault.Hint("its last line"))
	for name, c := range map[string]struct {
		failure error
		want    string
	}{
		"waits":       {nil, "waits for round 7"},
		"killed":      {killed, "member lost: signal: killed"},
		"drained":     {fault.E(fault.Drained, fault.At("trainer-1"), fault.Got("got the request")), "drained"},
		"only a kind": {fault.New(fault.Fenced, ""), "fenced"},
		"many lines":  {fault.E(fault.Corrupt, fault.Got("a\n\tb")), "corrupt data: a b"},
		"a long one": {fault.E(fault.Corrupt,
			fault.Got(strings.Repeat("ä", 100))), "corrupt data: " + strings.Repeat("ä", maxLast-1-len("corrupt data: ")) + "…"},
		"a cause": {fault.E(fault.Internal, fault.At("x"), fault.Cause(errors.New("exit status 2"))), "exit status 2"},
	} {
		r := &job.RoleStatus{State: job.State_RUNNING, Waiting: "round 7"}
		if c.failure != nil {
			r.Failure = wire.FailureOf(c.failure)
		}
		if got := LastEnd(r); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A role that has ended waits for nothing any more.
func TestLastEndARoleThatHasEnded(t *testing.T) {
	for _, state := range []job.State{job.State_SUCCEEDED, job.State_FAILED, job.State_STOPPED, job.State_PENDING} {
		if got := LastEnd(&job.RoleStatus{State: state, Waiting: "round 7"}); got != "" {
			t.Errorf("a role that is %v: %q", state, got)
		}
	}
	if got := LastEnd(&job.RoleStatus{State: job.State_RUNNING}); got != "" {
		t.Errorf("a role that waits for nothing: %q", got)
	}
}
