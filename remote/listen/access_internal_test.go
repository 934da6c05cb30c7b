package listen

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
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
		ctx := peer.NewContext(context.Background(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{shown.Leaf}}}})
		err = mayCall(ctx, "/edl.rpc.Listener/List")
		if good != (err == nil) || !good && (!errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "valid until")) {
			t.Errorf("a certificate with %v left: %v", life, err)
		}
	}
}
