package remote_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/credential"
)

// A listener that reads what an earlier one has left greets its callers meanwhile, and answers those who ask for jobs when it has them.
func TestCallersAreGreetedWhileAListenerBegins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	left := filepath.Join(dir, "jobs", "old", "job") // a pipe: the listener waits for a writer
	if err := os.MkdirAll(filepath.Dir(left), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(left, 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.77:0") // an address of the loopback interface that only this test uses
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	authority, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	ctx := bounded(t)
	begun := make(chan error, 1)
	var l *remote.Listener
	go func() {
		var err error
		l, err = remote.Listen(ctx, remote.WithAddress(address), remote.WithDataDir(dir), remote.WithAuthority(authority))
		begun <- err
	}()
	var client *remote.Client
	for client == nil { // until the port is open
		if client, err = remote.Attach(ctx, address, remote.WithAuthority(authority)); err != nil && !strings.Contains(err.Error(), "connection refused") {
			t.Fatal(err)
		}
	}
	defer client.Close()
	asked := make(chan error, 1)
	go func() {
		_, err := client.Jobs(ctx)
		asked <- err
	}()
	select {
	case err := <-begun:
		t.Fatalf("the listener has begun: %v", err)
	default:
	}
	pipe, err := os.OpenFile(left, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-asked, l.Close()); err != nil {
		t.Error(err)
	}
}
