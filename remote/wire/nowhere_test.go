package wire_test

import (
	"errors"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// A call that does not wait for an address fails as soon as it is known that there is none, also when that is the first thing that is known: whoever
// calls can tell of the wait, and bound it.
func TestFollowSaysThatThereIsNoAddress(t *testing.T) {
	addresses := make(chan string)
	client := follow(t, t.Context(), addresses)
	addresses <- ""
	_, err := client.Status(bounded(t), &rpc.StatusRequest{}, grpc.WaitForReady(false))
	if err = wire.FromStatus("pserver", err); !errors.Is(err, fault.Unavailable) {
		t.Errorf("nowhere: %v", err)
	}
}
