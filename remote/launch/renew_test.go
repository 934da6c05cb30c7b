package launch_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/wire"
)

// keeper serves a Keeper with a launcher until the test ends.
func keeper(t *testing.T, l launch.Launcher) launch.Kept {
	t.Helper()
	k := launch.NewKeeper(l, &rpc.KeeperState{})
	at, err := wire.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := wire.NewServer(nil)
	rpc.RegisterKeeperServer(s, k)
	served := make(chan error, 1)
	go func() { served <- s.Serve(at) }()
	conn, err := wire.Dial(at.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.End(fault.New(fault.Canceled, "the end of the test"))
		conn.Close()
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return launch.Kept{Keeper: rpc.NewKeeperClient(conn)}
}

// However a role was started, it is given the next credentials while it runs, and nobody can give some to a role that has ended.
func TestRolesAreRenewed(t *testing.T) {
	inside := launch.Goroutines(func(ctx context.Context, _ *job.RoleSpec, log io.Writer) error {
		fmt.Fprintln(log, "ready")
		for range 2 {
			m := <-launch.RenewalsOf(ctx)
			fmt.Fprintf(log, "has %s and %s\n", m.Credentials, m.EtcdCredentials)
		}
		return nil
	})
	var all nodes
	all.add(t, "a", launched("renewed"))
	kept := keeper(t, launched("renewed"))
	for name, l := range map[string]launch.Launcher{"goroutine": inside, "process": launched("renewed"), "node": &launch.Nodes{Directory: &all}, "keeper": kept} {
		t.Run(name, func(t *testing.T) {
			var h launch.Handle
			var log transcript
			if name == "keeper" { // which has the log
				spec := trainer(1)
				spec.CheckpointRun = "run"
				var err error
				if h, err = l.Start(t.Context(), spec, nil); err != nil {
					t.Fatal(err)
				}
				log = newTranscript()
				lines := make(chan error, 1)
				go func() {
					lines <- kept.Lines(t.Context(), "run", 0, true, func(l *rpc.LogLine) { fmt.Fprintln(log, l.Line) })
				}()
				defer func() {
					if err := kept.Release(t.Context(), "run"); err != nil {
						t.Error(err)
					}
					if err := <-lines; err != nil {
						t.Error(err)
					}
				}()
			} else {
				h, log = start(t, l)
			}
			log.until(t, "ready")
			for _, text := range []string{"one", "two"} {
				if err := h.Renew(&job.RoleRenewal{Credentials: []byte(text), EtcdCredentials: []byte(text + " of etcd")}); err != nil {
					t.Fatal(err)
				}
				log.until(t, "has "+text+" and "+text+" of etcd")
			}
			if err := h.Wait(); err != nil {
				t.Fatal(err)
			}
			if err := h.Renew(&job.RoleRenewal{Credentials: []byte("three")}); err == nil {
				t.Error("a role that has ended takes credentials")
			}
		})
	}
}
