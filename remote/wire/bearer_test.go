package wire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// Strangers, who show no certificate, hold few connections of a server, each until it ends or a token has counted on it. They take none from who has a certificate.
func TestStrangersAreBounded(t *testing.T) {
	authority, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name credential.Name) *credential.Credentials {
		c, err := authority.Issue(name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	side := OfListener(issue(credential.Name{Kind: credential.Listener}))
	front := &strangers{TransportCredentials: credentials.NewTLS(side.credentials.ServerOfTokens(side.accept))}
	connect := func(client *tls.Config) (net.Conn, credentials.AuthInfo, error) {
		here, there := net.Pipe()
		client.NextProtos = []string{"h2"}
		go func() {
			conn := tls.Client(there, client)
			if conn.Handshake() == nil {
				_, _ = io.Copy(io.Discard, conn)
			}
			_ = there.Close()
		}()
		conn, info, err := front.ServerHandshake(here)
		if err != nil {
			_ = here.Close()
		}
		return conn, info, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.PEM())
	nobody := &tls.Config{RootCAs: roots, ServerName: credential.Host}
	var open []net.Conn
	for range maxStrangers {
		conn, info, err := connect(nobody)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := info.(strangerInfo); !ok {
			t.Fatalf("a connection without a certificate is a %T", info)
		}
		open = append(open, conn)
	}
	if _, _, err := connect(nobody); !errors.Is(err, fault.TooLarge) {
		t.Errorf("one stranger more: %v", err)
	}
	user := ToListener(issue(credential.Name{Kind: credential.User, User: "ann", Access: credential.Viewer}))
	conn, info, err := connect(user.credentials.Client(user.accept))
	if err != nil {
		t.Fatalf("who has a certificate, beside them: %v", err)
	}
	if _, ok := info.(credentials.TLSInfo); !ok {
		t.Errorf("a connection with a certificate is a %T", info)
	}
	open = append(open, conn)
	open[0].(*strangerConn).known() // a token has counted on it
	again, _, err := connect(nobody)
	if err != nil {
		t.Fatalf("in the place of one who is known: %v", err)
	}
	for _, c := range append(open, again) {
		_ = c.Close()
		_ = c.Close()
	}
	if front.open != 0 {
		t.Errorf("%d places are taken by connections that have ended", front.open)
	}
}
