package etcdtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Files are the names of PEM files: an authority of the test, and the certificates that it has signed.
type Files struct {
	CA                           string
	ServerCertificate, ServerKey string
	ClientCertificate, ClientKey string
}

// Certify writes certificates for servers on the loopback interface and for their clients.
func Certify(t testing.TB) *Files {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	f := &Files{CA: file("ca.pem"), ServerCertificate: file("server.pem"), ServerKey: file("server.key"),
		ClientCertificate: file("client.pem"), ClientKey: file("client.key")}
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign}
	key := sign(t, authority, authority, nil, f.CA, file("ca.key"))
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	sign(t, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usage}, authority, key, f.ServerCertificate, f.ServerKey)
	sign(t, &x509.Certificate{SerialNumber: big.NewInt(3), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usage}, authority, key,
		f.ClientCertificate, f.ClientKey)
	return f
}

// sign makes a key and a certificate for it, signed by the authority's key; nil: by itself.
func sign(t testing.TB, c, authority *x509.Certificate, by *ecdsa.PrivateKey, certificateFile, keyFile string) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, authority, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certificateFile, "CERTIFICATE", der)
	write(t, keyFile, "PRIVATE KEY", pkcs8)
	return key
}

func write(t testing.TB, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// config is that of the test's own client.
func (f *Files) config(t testing.TB) *tls.Config {
	t.Helper()
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(f.ClientCertificate, f.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}}
}
