package cluster

import (
	"context"
	"log/slog"
	"strings"
	"testing"
)

// A user is told of the errors of etcd that mean something, as warnings, until the server is closed.
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
