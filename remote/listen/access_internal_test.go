package listen

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// A connection may outlive the certificate of its user, but calls on it do not.
func TestCallsEndWithTheCertificate(t *testing.T) {
	a, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	for life, good := range map[time.Duration]bool{time.Hour: true, -time.Minute: false} {
		c, err := a.Issue(credential.Name{Kind: credential.User, User: "u", Access: credential.Admin}, life)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := c.Certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		err = mayCall(calledWith(shown), "/edl.rpc.Listener/List", nil)
		if good != (err == nil) || !good && (!errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "valid until")) {
			t.Errorf("a certificate with %v left: %v", life, err)
		}
	}
}

// calledWith is the context of a call over a connection on which a client has shown a certificate.
func calledWith(shown *tls.Certificate) context.Context {
	return peer.NewContext(context.Background(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{shown.Leaf}}}})
}

// A certificate that was issued for a token counts as long as the token: not when it is revoked, has expired, or is one of another listener.
func TestCallsEndWithTheToken(t *testing.T) { synctest.Test(t, callsEndWithTheToken) }

func callsEndWithTheToken(t *testing.T) {
	a, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	tokens := credential.OpenTokens(filepath.Join(t.TempDir(), credential.TokenFile))
	made := func(secret string, err error) credential.Name {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		name, err := tokens.Check(secret)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	alice, lent := made(tokens.Create(credential.Name{User: "alice", Access: credential.Viewer}, time.Hour)), made(tokens.Lend("lent", credential.Viewer), nil)
	short := made(tokens.Create(credential.Name{User: "short", Access: credential.Viewer}, time.Second))
	calls := func(n credential.Name, at *credential.Tokens) error {
		t.Helper()
		own, err := a.Issue(n, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if own, err = credential.Parse(own.PEM()); err != nil { // as its user does
			t.Fatal(err)
		}
		shown, err := own.Certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return mayCall(calledWith(shown), "/edl.rpc.Listener/List", at)
	}
	good := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	bad := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "edl login") {
			t.Errorf("%s: %v, want a refusal", what, err)
		}
	}
	good("a token of the file", calls(alice, tokens))
	good("a token that was lent", calls(lent, tokens))
	good("no token", calls(credential.Name{Kind: credential.User, User: "bob", Access: credential.Viewer}, tokens))
	good("no token at a listener without tokens", calls(credential.Name{Kind: credential.User, User: "bob", Access: credential.Viewer}, nil))
	bad("a token at a listener without tokens", calls(alice, nil))
	good("a token that will expire", calls(short, tokens))
	bad("a token of another listener", calls(alice, credential.OpenTokens("")))
	if err := tokens.Revoke("alice"); err != nil {
		t.Fatal(err)
	}
	bad("a token that was revoked", calls(alice, tokens))
	made(tokens.Create(credential.Name{User: "alice", Access: credential.Viewer}, time.Hour))
	bad("a token whose name another one has now", calls(alice, tokens))
	good("a token that was lent, after that", calls(lent, tokens))
	time.Sleep(2 * time.Second)
	bad("a token that has expired", calls(short, tokens))
}
