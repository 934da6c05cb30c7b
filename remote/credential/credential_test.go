package credential

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
)

func authority(t *testing.T) *Authority {
	t.Helper()
	a, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issued(t *testing.T, a *Authority, name Name, life time.Duration) *Credentials {
	t.Helper()
	c, err := a.Issue(name, life)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(c.PEM())
	if err != nil || again.Name() != name {
		t.Fatalf("parsed %v, %v, want %v", again, err, name)
	}
	return again
}

func anybody(Name) error { return nil }

// shake lets two ends shake hands and exchange one byte. It returns the error of each.
func shake(server, client *tls.Config) (atServer, atClient error) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	var group sync.WaitGroup
	group.Go(func() {
		c := tls.Server(a, server)
		if atServer = c.Handshake(); atServer == nil {
			_, atServer = c.Write([]byte{1})
		}
		a.Close()
	})
	c := tls.Client(b, client)
	if atClient = c.Handshake(); atClient == nil {
		_, atClient = io.ReadFull(c, make([]byte, 1))
	}
	b.Close()
	group.Wait()
	return atServer, atClient
}

func TestHandshakes(t *testing.T) {
	a, other := authority(t), authority(t)
	trainer := Name{Kind: Role, Job: "j 1/2", Role: "trainer", Index: 3}
	server := issued(t, a, Name{Kind: Listener}, time.Hour)
	onlyTrainer := func(n Name) error {
		if n != trainer {
			return errors.New("another one")
		}
		return nil
	}
	for name, c := range map[string]struct {
		server func(Name) error
		client *tls.Config
		good   bool
	}{
		"of the same authority":  {onlyTrainer, issued(t, a, trainer, time.Hour).Client(anybody), true},
		"of another authority":   {anybody, issued(t, other, trainer, time.Hour).Client(anybody), false},
		"of another name":        {onlyTrainer, issued(t, a, Name{Kind: User, User: "u", Access: Admin}, time.Hour).Client(anybody), false},
		"expired":                {anybody, issued(t, a, trainer, -time.Minute).Client(anybody), false},
		"expired, yet shown":     {anybody, shown(issued(t, a, trainer, -time.Minute)), false},
		"without a certificate":  {anybody, &tls.Config{RootCAs: server.current().roots, ServerName: Host}, false},
		"that wants another one": {anybody, issued(t, a, trainer, time.Hour).Client(onlyTrainer), false},
	} {
		t.Run(name, func(t *testing.T) {
			atServer, atClient := shake(server.Server(c.server), c.client)
			if good := atServer == nil && atClient == nil; good != c.good {
				t.Errorf("the server says %v, the client %v", atServer, atClient)
			}
		})
	}
}

// An authority may be an intermediate of the user's own PKI: what it issues is good among its own, and for whoever trusts the root of the PKI.
func TestAuthorityOfAPKI(t *testing.T) {
	root := authority(t)
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "training"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	rootTemplate, err := x509.ParseCertificate(root.certificate.Raw)
	if err != nil {
		t.Fatal(err)
	}
	rootTemplate.MaxPathLen, rootTemplate.MaxPathLenZero = 1, false
	signed, err := sign(rootTemplate, rootTemplate, root.key.Public(), root.key) // one that may have authorities below it
	if err != nil {
		t.Fatal(err)
	}
	parent, err := x509.ParseCertificate(signed)
	if err != nil {
		t.Fatal(err)
	}
	below, err := sign(template, parent, key.Public(), root.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "authority.pem")
	b := append(pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: below}), pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: encoded})...)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := OpenOrMake(file)
	if err != nil {
		t.Fatal(err)
	}
	server, client := issued(t, a, Name{Kind: Listener}, time.Minute), issued(t, a, Name{Kind: User, User: "u", Access: Viewer}, time.Minute)
	if atServer, atClient := shake(server.Server(anybody), client.Client(anybody)); atServer != nil || atClient != nil {
		t.Errorf("the server says %v, the client %v", atServer, atClient)
	}
	stranger := issued(t, root, Name{Kind: User, User: "u", Access: Admin}, time.Minute)
	if atServer, atClient := shake(server.Server(anybody), stranger.Client(anybody)); atServer == nil && atClient == nil {
		t.Error("a certificate of the root itself is taken for one of the authority")
	}
	trusts := &TokenUse{roots: x509.NewCertPool()}
	trusts.roots.AddCert(parent)
	if atServer, atClient := shake(server.ServerOfTokens(anybody), trusts.Client(anybody)); atServer != nil || atClient != nil {
		t.Errorf("who trusts the root: the server says %v, the client %v", atServer, atClient)
	}
}

// shown is the configuration of a client that shows its certificate whether it is valid or not.
func shown(c *Credentials) *tls.Config {
	config := c.Client(anybody)
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.Certificate(nil) }
	return config
}

// An end that shows or sees a certificate that has expired says whose it is, since when, and what to do.
func TestExpired(t *testing.T) {
	a := authority(t)
	trainer := Name{Kind: Role, Job: "j", Role: "trainer", Index: 3}
	good, old := issued(t, a, Name{Kind: Listener}, time.Hour), issued(t, a, trainer, -time.Minute)
	_, ofOwn := shake(good.Server(anybody), old.Client(anybody))
	_, ofPeer := shake(old.Server(anybody), good.Client(anybody))
	for at, err := range map[string]error{"its client": ofOwn, "its peer": ofPeer} {
		for _, want := range []string{"job/j/trainer/3", "valid until 2", "renews it"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s says %v, without %q", at, err, want)
			}
		}
	}
}

// Credentials take the place of others in both ends, also those of another authority, without new configurations.
func TestRenew(t *testing.T) {
	a, other := authority(t), authority(t)
	server, client := issued(t, a, Name{Kind: Listener}, -time.Minute), issued(t, a, Name{Kind: User, User: "u", Access: Admin}, -time.Minute)
	atServer, atClient := server.Server(anybody), client.Client(anybody)
	works := func() bool {
		one, two := shake(atServer, atClient)
		return one == nil && two == nil
	}
	for _, step := range []struct {
		of   *Credentials
		from *Authority
		good bool
	}{{server, a, false}, {client, a, true}, {server, other, false}, {client, other, true}} {
		if err := step.of.Renew(issued(t, step.from, step.of.Name(), time.Hour)); err != nil {
			t.Fatal(err)
		}
		if works() != step.good {
			t.Errorf("after new %v it works: %t", step.of, !step.good)
		}
	}
	if err := client.Renew(issued(t, other, Name{Kind: Listener}, time.Hour)); !errors.Is(err, fault.Denied) || !works() {
		t.Errorf("credentials of another name: %v", err)
	}
}

// Credentials that renew themselves do so when a third of their life is over, and not before.
func TestIssueRenewing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := authority(t)
		c, err := a.IssueRenewing(Name{Kind: Listener}, 3*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		first, began := c.Expires(), time.Now()
		time.Sleep(59 * time.Minute)
		if c.Expires() != first {
			t.Error("new ones came before their time")
		}
		for range 4 {
			time.Sleep(2 * time.Hour)
			if left := time.Until(c.Expires()); left < 3*time.Hour-time.Second {
				t.Errorf("%v after the beginning they are valid for %v", time.Since(began), left)
			}
		}
	})
}

func TestNames(t *testing.T) {
	for _, n := range []Name{{Kind: Listener}, {Kind: User, User: "a/b c", Access: Submitter}, {Kind: Role, Job: "j/../x", Role: "pserver", Index: 12}} {
		if got, err := parseName(n.String()); err != nil || got != n {
			t.Errorf("%q is %v, %v", n, got, err)
		}
	}
	for _, text := range []string{"", "listener/x", "user", "job/a/b", "job/a/b/-1", "job/a/b/x", "user/%zz", "user/u", "user/u/root", "user/u/admin/x", "root"} {
		if n, err := parseName(text); !errors.Is(err, fault.Denied) {
			t.Errorf("%q is %v, %v", text, n, err)
		}
	}
}

func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "edl", "authority.pem")
	t.Setenv(fileEnv, file)
	if got, err := File(); got != file || err != nil {
		t.Fatalf("the file is %q, %v", got, err)
	}
	if _, err := Open(file); !errors.Is(err, fault.NotFound) {
		t.Errorf("a file that is not there: %v", err)
	}
	var group sync.WaitGroup
	made := make([]*Authority, 8)
	for i := range made {
		group.Go(func() {
			a, err := OpenOrMake(file)
			if err != nil {
				t.Error(err)
			}
			made[i] = a
		})
	}
	group.Wait()
	for _, a := range made {
		if a != nil && !bytes.Equal(a.PEM(), made[0].PEM()) {
			t.Error("two processes have different authorities")
		}
	}
	if files, err := os.ReadDir(filepath.Dir(file)); err != nil || len(files) != 1 {
		t.Errorf("%v are left, %v", files, err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOrMake(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others read: %v", err)
	}
	for _, bad := range [][]byte{nil, []byte("x"), made[0].PEM()[:200], bytes.Repeat([]byte{'-'}, maxPEM+1)} {
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenOrMake(file); err == nil {
			t.Errorf("%d bytes are an authority", len(bad))
		}
	}
}

func FuzzParse(f *testing.F) {
	a, err := NewAuthority()
	if err != nil {
		f.Fatal(err)
	}
	c, err := a.Issue(Name{Kind: User, User: "u", Access: Admin}, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(c.PEM())
	f.Add(a.PEM())
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := Parse(b); (c == nil) == (err == nil) {
			t.Errorf("%v, %v", c, err)
		}
		if a, err := ParseAuthority(b); (a == nil) == (err == nil) {
			t.Errorf("%v, %v", a, err)
		}
	})
}
