package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
)

// The error of a connection that could not be made says why: who was not let in is told what to show, and a server that hangs is not blamed on certificates.
func TestRefused(t *testing.T) {
	for text, want := range map[string]struct {
		kind fault.Kind
		says string
	}{
		`connection error: desc = "transport: authentication handshake failed: context deadline exceeded"`:                            {fault.Unavailable, "says nothing"},
		`connection error: desc = "transport: authentication handshake failed: read tcp 127.0.0.1:1->127.0.0.1:2: i/o timeout"`:       {fault.Unavailable, "says nothing"},
		`connection error: desc = "transport: authentication handshake failed: EOF"`:                                                  {fault.Unavailable, "has closed the connection"},
		`connection error: desc = "transport: authentication handshake failed: read: connection reset by peer"`:                       {fault.Unavailable, "has closed the connection"},
		`connection error: desc = "transport: authentication handshake failed: tls: first record does not look like a TLS handshake"`: {fault.Denied, "does not speak TLS"},
		`connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority"`: {fault.Denied,
			"another authority"},
		`error reading server preface: read tcp 127.0.0.1:1->127.0.0.1:2: use of closed network connection`: {fault.Unavailable, "says nothing"},
		`error reading server preface: remote error: tls: bad certificate`:                                  {fault.Denied, "bad certificate"},
		`error reading server preface: remote error: tls: certificate required`:                             {fault.Denied, "--oidc-issuer"},
		`dial tcp 127.0.0.1:9: connect: connection refused`:                                                 {fault.Unavailable, "connection refused"},
	} {
		err := Refused(fault.E(fault.Unavailable, fault.At("listener"), fault.Cause(errors.New(text))))
		if !errors.Is(err, want.kind) || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s\nis told as %v, want kind %v and %q", text, err, want.kind, want.says)
		}
	}
}

// A peer that took the connection and did not greet in time may only be busy; one that is not there, or speaks otherwise, is not.
func TestSilent(t *testing.T) {
	for text, want := range map[string]bool{
		`connection error: desc = "error reading server preface: read tcp 127.0.0.1:1->127.0.0.1:2: use of closed network connection"`: true,
		`connection error: desc = "transport: authentication handshake failed: context deadline exceeded"`:                             true,
		`connection error: desc = "transport: authentication handshake failed: tls: first record does not look like a TLS handshake"`:  false,
		`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`:                 false,
	} {
		if got := Silent(fault.E(fault.Unavailable, fault.Cause(errors.New(text)))); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
