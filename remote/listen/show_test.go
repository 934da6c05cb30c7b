package listen_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// wordy is a coordinator that has more entries than fit into one message of the transport.
type wordy struct {
	rpc.UnimplementedCoordinatorServer
}

const wordyEntries = 300

func (wordy) Queues(m *rpc.QueuesRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	r := &rpc.QueuesResponse{Phase: "running", Entries: map[string][]byte{}}
	for i := range wordyEntries {
		if m.Entries {
			r.Entries[fmt.Sprintf("data/d/files/%d", i)] = make([]byte, 100_000)
		}
	}
	return wire.Send(stream, r)
}

// The listener passes on what is larger than one message of the transport.
func TestShowOfManyEntries(t *testing.T) {
	var h *house
	h = newHouse(t, listen.Config{}, func(name string) run {
		if name != "coordinator" {
			return idle
		}
		return func(ctx context.Context, spec *job.RoleSpec, _ io.Writer) error {
			return serveCoordinator(ctx, h.store, spec, wordy{})
		}
	})
	client := serve(t, h.Manager)
	j := h.begin(t, reading(t))
	var d *rpc.JobDetails
	if err := wire.Retry(bounded(t), func(uint32) (err error) { // until the job runs
		d, err = wire.Show(bounded(t), "listener", client, &rpc.JobRequest{Job: j.ID, Entries: true})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(d.Queues.Entries) != wordyEntries || len(d.Queues.Entries["data/d/files/7"]) != 100_000 {
		t.Errorf("%d entries", len(d.Queues.Entries))
	}
}
