package remote

import (
	"context"
	"path"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// A beginning is the time from which a listener has its port until it knows the jobs of the listener before it. To read their journals, and to reach the machines where their roles run, may take
// seconds. Meanwhile callers are greeted, and machines get what they ask for: the kernel would take their connections for a server that says nothing.
type beginning struct{ begun chan struct{} } // closed when the jobs are known

// beginTime bounds how long a call waits for the end of the beginning. Callers that follow a job try again.
const beginTime = 10 * time.Second

// around lets calls that need the jobs wait for them. It is for wire.Around.
func (b beginning) around(ctx context.Context, method string, handle func(context.Context) error) error {
	if path.Dir(method) == "/"+rpc.Keeper_ServiceDesc.ServiceName || method == rpc.Listener_Describe_FullMethodName {
		return handle(ctx)
	}
	waiting, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	select {
	case <-b.begun:
		return handle(ctx)
	case <-waiting.Done():
		return fault.E(fault.Unavailable, fault.Got("a listener that still takes over the jobs of the one before it"), fault.Want("one that has them"),
			fault.Hint("try again; its log names what it cannot reach"))
	}
}
