package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/edl-go/edl/fault"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEndpoints) != "" {
		os.Exit(coordinate())
	}
	if os.Getenv(embedEnv) != "" {
		embedOnce()
		os.Exit(0)
	}
	// These tests wait for servers and leases most of the time, also on a machine with few cores.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// embedEnv has the directory in which this binary, run as a child, embeds a server.
const embedEnv = "EDL_CLUSTER_EMBED"

// embedOnce embeds a server and says how that ended.
func embedOnce() {
	server, err := Embed(context.Background(), os.Getenv(embedEnv), nil, nil)
	if err == nil {
		err = server.Close()
	}
	fmt.Println("ended:", err)
}

// patience bounds waits that end at once unless something is broken.
const patience = time.Minute

func embedded(t *testing.T) *Embedded {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server, err := Embed(ctx, filepath.Join(t.TempDir(), "etcd"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// The server may end before its clients, though they watch and renew.
func TestEmbeddedEndsBeforeItsClients(t *testing.T) {
	t.Parallel()
	server := embedded(t)
	r, err := Open(t.Context(), Config{Endpoints: server.Endpoints(), Prefix: Prefix("digits")})
	if err != nil {
		t.Fatal(err)
	}
	held, err := r.JoinServer(t.Context(), 0, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	lost, err := r.WatchLost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	<-held.Done()
	if m, more := <-lost; more {
		t.Fatalf("%v counts as lost though the store is gone", m)
	}
}

// A server that cannot go on, as on a full disk, ends neither the process nor a caller of Close. Its members learn of it, and the log says why.
func TestEmbeddedBreaks(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	server, err := Embed(t.Context(), filepath.Join(t.TempDir(), "etcd"), slog.New(slog.NewTextHandler(&out, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), Config{Endpoints: server.Endpoints(), Prefix: Prefix("digits")})
	if err != nil {
		t.Fatal(err)
	}
	held, err := r.JoinServer(t.Context(), 0, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // as a goroutine of etcd does
		defer close(ended)
		zap.New(zapcore.NewNopCore(), zap.WithFatalHook(server.broken)).Fatal("failed to commit tx", zap.Error(syscall.ENOSPC))
		t.Error("a goroutine of etcd goes on after an error that it cannot bear")
	}()
	<-ended
	if s := out.String(); !strings.Contains(s, "level=ERROR") || !strings.Contains(s, "no space left") || !strings.Contains(s, "TMPDIR") {
		t.Errorf("the log says %q", s)
	}
	<-server.Broken()
	if err := server.Cause(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("it is broken because of %v", err)
	}
	if err := errors.Join(server.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	<-held.Done()
}

func TestEmbedRefuses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Embed(ctx, t.TempDir(), nil, nil); !errors.Is(err, fault.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if _, err := Embed(t.Context(), "/dev/null/etcd", nil, nil); !errors.Is(err, fault.Unavailable) {
		t.Errorf("no directory: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		kind   fault.Kind
	}{
		{"no endpoints", Config{Prefix: "/edl/a"}, fault.InvalidArgument},
		{"no prefix", Config{Endpoints: []string{"127.0.0.1:1"}}, fault.InvalidArgument},
		{"keys of nodes", Config{Endpoints: []string{"127.0.0.1:1"}, Prefix: "/edl/nodes"}, fault.InvalidArgument},
		{"odd prefix", Config{Endpoints: []string{"127.0.0.1:1"}, Prefix: "/edl/a//b"}, fault.InvalidArgument},
	} {
		if _, err := Open(t.Context(), c.config); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", c.name, err, c.kind)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Config{Endpoints: []string{"127.0.0.1:1"}, Prefix: "/edl/a"}); !errors.Is(err, fault.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// A user sees the errors of etcd that mean something, as warnings, until the server is closed.
func TestMessagesOfEtcd(t *testing.T) {
	var out strings.Builder
	closing, closes := context.WithCancel(t.Context())
	log := zapTo(closing, slog.New(slog.NewTextHandler(&out, nil)))
	log.Info("ready to serve")
	log.Warn("apply request took too long")
	log.Error("failed to update storage version")
	if out.Len() > 0 {
		t.Errorf("a user is told %s", &out)
	}
	log.Error("no space left")
	if s := out.String(); !strings.Contains(s, "level=WARN") || !strings.Contains(s, "no space left") || !strings.Contains(s, "from=etcd") {
		t.Errorf("a user is told %q, want the error as a warning", s)
	}
	out.Reset()
	closes()
	log.Error("use of closed connection")
	if out.Len() > 0 {
		t.Errorf("after the end a user is told %s", &out)
	}
}
