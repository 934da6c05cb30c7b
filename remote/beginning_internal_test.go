package remote

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// A call waits for the jobs of the earlier listener for a time only, and what a machine of the cluster is asked does not wait.
func TestCallsWaitForTheJobs(t *testing.T) {
	tests := map[string]struct {
		method  string
		begins  bool // while the call waits
		handled bool
	}{
		"begun in time":     {rpc.Listener_List_FullMethodName, true, true},
		"takes too long":    {rpc.Listener_List_FullMethodName, false, false},
		"a greeting":        {rpc.Listener_Describe_FullMethodName, false, true},
		"a role on its way": {rpc.Keeper_Follow_FullMethodName, false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := beginning{begun: make(chan struct{})}
				handled := false
				answer := make(chan error)
				go func() {
					answer <- b.around(t.Context(), tt.method, func(context.Context) error { handled = true; return nil })
				}()
				synctest.Wait()
				if tt.begins {
					close(b.begun)
				}
				err := <-answer
				if handled != tt.handled || errors.Is(err, fault.Unavailable) == tt.handled {
					t.Errorf("handled: %v, %v", handled, err)
				}
			})
		})
	}
}
