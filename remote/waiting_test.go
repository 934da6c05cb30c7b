package remote_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// serverOf finds a pserver of a job through the registry and connects to it.
func serverOf(t testing.TB, etcd []string, id string, index int) rpc.ParameterServerClient {
	t.Helper()
	registry, err := cluster.Open(bounded(t), cluster.Config{Endpoints: etcd, Prefix: cluster.Prefix(id)})
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	address, err := registry.Server(bounded(t), index)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return rpc.NewParameterServerClient(conn)
}

// waitsFor asks a pserver until it waits for a member.
func waitsFor(t testing.TB, server rpc.ParameterServerClient, id, member string) {
	t.Helper()
	ctx := bounded(t)
	for {
		status, err := server.Status(ctx, &rpc.StatusRequest{Job: id})
		if err != nil {
			t.Fatalf("waiting for %q: %v", member, err)
		}
		for _, w := range status.Waits {
			if len(w.By) == 1 && w.By[0] == member {
				return
			}
		}
	}
}

var errFound = errors.New("found")

// logged waits until a role has written a line that contains text.
func logged(t *testing.T, e *remote.Executor, id, role, text string) {
	t.Helper()
	found := false
	err := e.Client().Logs(bounded(t), id, role, true, func(_, line string) error {
		if found = strings.Contains(line, text); found {
			return errFound
		}
		return nil
	})
	if !found {
		t.Fatalf("%s does not log %q: %v", role, text, err)
	}
}

// waitsForTrainers asks the coordinator until it says that it waits for trainer 1.
func waitsForTrainers(t *testing.T, r *rig, id string) {
	t.Helper()
	registry, err := cluster.Open(bounded(t), cluster.Config{Endpoints: r.etcd, Prefix: cluster.Prefix(id)})
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	address, err := registry.Coordinator(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := bounded(t)
	for {
		q, err := wire.Queues(ctx, rpc.NewCoordinatorClient(conn), &rpc.QueuesRequest{Job: id})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range q.Waits {
			if slices.Contains(w.By, "trainer 1") {
				return
			}
		}
	}
}
