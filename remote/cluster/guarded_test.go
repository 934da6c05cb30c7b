package cluster

import (
	"crypto/tls"
	"errors"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// An embedded server with credentials answers those who have credentials of the same authority, and nobody else.
func TestEmbeddedServerAsksWhoCalls(t *testing.T) {
	issue := func() *credential.Credentials {
		a, err := credential.NewAuthority()
		if err != nil {
			t.Fatal(err)
		}
		c, err := a.Issue(credential.Name{Kind: credential.Listener}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	own := issue()
	server, err := Embed(t.Context(), filepath.Join(t.TempDir(), "etcd"), nil, own)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name, c := range map[string]*credential.Credentials{"own": own, "nobody": nil, "another authority": issue()} {
		r, err := Open(bounded(t), Config{Endpoints: server.Endpoints(), Prefix: Prefix("x"), Own: c, getenv: func(string) string { return "" }})
		if (err == nil) != (c == own) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			r.Close()
		} else if !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// It speaks no version of TLS before 1.3.
	endpoint, err := url.Parse(server.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", endpoint.Host, &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true})
	if err == nil {
		conn.Close()
		t.Errorf("the server speaks TLS version %x", conn.ConnectionState().Version)
	}
}
