package remote_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
)

// otherOps is a listener of a build that lacks an op and has another one.
type otherOps struct {
	rpc.UnimplementedListenerServer
}

func (otherOps) Describe(context.Context, *rpc.DescribeRequest) (*rpc.DescribeResponse, error) {
	hashes := ops.Hashes()
	delete(hashes, "mul")
	hashes["zigzag"] = "0123456789abcdef"
	return &rpc.DescribeResponse{Version: "v1.2.3", Registry: "other", Ops: hashes}, nil
}

func TestDialNamesTheOpsThatDiffer(t *testing.T) {
	address, stop := serveListener(t, otherOps{})
	defer stop()
	_, err := remote.Dial(bounded(t), address)
	if !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "it lacks mul; only it has zigzag; run the same version") ||
		!strings.Contains(err.Error(), "v1.2.3") {
		t.Errorf("%v", err)
	}
}
