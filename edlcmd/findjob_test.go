package edlcmd

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// A listener of this machine that is paused is not one that is gone: its user is told to look at it, and not to start another.
func TestFindAPausedListener(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	authority := filepath.Join(t.TempDir(), "authority.pem")
	t.Setenv("EDL_AUTHORITY", authority)
	t.Setenv("EDL_CREDENTIALS", "")
	if _, err := credential.OpenOrMake(authority); err != nil {
		t.Fatal(err)
	}
	paused, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections for it
	if err != nil {
		t.Fatal(err)
	}
	address := paused.Addr().String()
	t.Cleanup(announce(address))
	find := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		client, err := (&findFlags{}).open(ctx, "digits")
		if err == nil {
			client.Close()
		}
		return err
	}
	if err := find(); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "paused") {
		t.Errorf("of a paused listener: %v", err)
	}
	if err := paused.Close(); err != nil {
		t.Fatal(err)
	}
	if err := find(); !errors.Is(err, fault.NotFound) {
		t.Errorf("of one that is gone: %v, want %v", err, fault.NotFound)
	}
	if _, err := os.ReadFile(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "edl", "listeners", strings.ReplaceAll(address, ":", "_")+".json")); err != nil {
		t.Errorf("a process that is there stays on the list: %v", err)
	}
}
