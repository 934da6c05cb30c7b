package launch

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// Roles of a run that nobody has followed for long are killed, and those of others go on. Another listener cannot dismiss the keeper of a node.
func TestAbandonedRoles(t *testing.T) {
	k := NewKeeper(Goroutines(func(ctx context.Context, _ *job.RoleSpec, _ io.Writer) error {
		<-ctx.Done()
		return errors.New("ended")
	}), &rpc.KeeperState{})
	roles := map[string]Handle{}
	for _, run := range []string{"followed", "alone", "new"} {
		h, err := k.Launch(run, &job.RoleSpec{Job: run, Role: job.Role_TRAINER})
		if err != nil {
			t.Fatal(err)
		}
		roles[run] = h
	}
	k.mu.Lock()
	k.runs["followed"].followers = 1
	k.runs["new"].alone = time.Now().Add(time.Hour)
	k.mu.Unlock()
	k.endAbandoned(time.Now().Add(time.Minute))
	if err := roles["alone"].Wait(); err == nil {
		t.Error("a role that nobody follows has ended well")
	}
	for _, run := range []string{"followed", "new"} {
		select {
		case <-k.runs[run].roles["trainer-0/0"].done:
			t.Errorf("the role of the run %q has ended", run)
		default:
		}
	}
	if _, err := ForNodes(k).Dismiss(t.Context(), &rpc.DismissRequest{}); !errors.Is(err, fault.Denied) {
		t.Errorf("a dismissal by another listener: %v", err)
	}
	k.End(errors.New("the test has ended"))
}
