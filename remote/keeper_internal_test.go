package remote

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/thisbuild"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/wire"
)

// A keeper removes what one has left that was killed, and nothing else that a file of the data folder may name.
func TestFilesOfAKilledKeeper(t *testing.T) {
	data, parent := t.TempDir(), t.TempDir()
	left, err := launch.MakeRunDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	foreign := t.TempDir()
	for _, dir := range []string{foreign, left} {
		if err := os.WriteFile(filepath.Join(data, keeperFile), []byte(filepath.Join(dir, "keeper.sock")), 0o600); err != nil {
			t.Fatal(err)
		}
		removeKilled(data, slog.New(slog.DiscardHandler))
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a folder that is none of a keeper: %v", err)
	}
	if list, err := os.ReadDir(parent); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
	removeKilled(t.TempDir(), slog.New(slog.DiscardHandler))
}

// A listener does not begin beside a keeper of another protocol, which goes on: its user is told of both builds, and what to do.
func TestKeeperOfAnotherProtocol(t *testing.T) {
	if !keepers {
		t.Skip("this system has no keepers")
	}
	data, err := os.MkdirTemp("", "edl") // its path is short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(data)
	about := &rpc.KeeperState{}
	k := launch.NewKeeper(launch.Processes{}, about)
	about.Protocol, about.Build = wire.Protocol+1, "v9.9.9"
	socket := filepath.Join(data, "socket")
	port, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	service := wire.NewServer(nil, wire.OfThisMachine())
	rpc.RegisterKeeperServer(service, k)
	serving, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- wire.Serve(serving, service, port, stopGrace) }()
	defer func() {
		k.End(errors.New("the test has ended"))
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	if err := os.WriteFile(filepath.Join(data, keeperFile), []byte(socket), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = findKeeper(t.Context(), data, []string{filepath.Join(data, "nothing")}, nil)
	for _, want := range []string{"keeper of " + data, "v9.9.9", thisbuild.Name(), "end or suspend its jobs"} {
		if !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
