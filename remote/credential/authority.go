package credential

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"time"

	"github.com/edl-go/edl/fault"
)

// An Authority issues certificates. Who has it can be anybody: it stays with listeners. It is safe for concurrent use.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	pem         []byte
}

// How long certificates are valid. A clock may be skew behind that of the issuer.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	skew          = 24 * time.Hour
)

// NewAuthority makes an authority with a key of its own.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "authority", err)
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "EDL authority"}, NotBefore: time.Now().Add(-skew), NotAfter: time.Now().Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign}
	a := &Authority{key: key}
	certificate, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return a, a.set(certificate, key)
}

func (a *Authority) set(certificate []byte, key crypto.Signer) (err error) {
	if a.certificate, err = x509.ParseCertificate(certificate); err != nil || !a.certificate.IsCA {
		return corrupt("no certificate of an authority")
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return corrupt("a key that does not encode")
	}
	a.key = key
	a.pem = append(pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: certificate}), pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: encoded})...)
	return nil
}

// ParseAuthority is the inverse of PEM.
func ParseAuthority(b []byte) (*Authority, error) {
	certificates, key, err := blocks(b)
	if err != nil {
		return nil, err
	}
	if len(certificates) != 1 || key == nil {
		return nil, fault.E(fault.Corrupt, fault.At("authority"), fault.Gotf("%d certificates and %d keys", len(certificates), count(key)),
			fault.Want("a certificate and its key, as PEM"))
	}
	signer, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return nil, corrupt("a key that does not decode")
	}
	private, ok := signer.(*ecdsa.PrivateKey)
	if !ok {
		return nil, corrupt("a key of another sort")
	}
	a := &Authority{}
	if err := a.set(certificates[0], private); err != nil {
		return nil, err
	}
	if !private.PublicKey.Equal(a.certificate.PublicKey) {
		return nil, corrupt("a key of another certificate")
	}
	return a, nil
}

// PEM returns the certificate and the key of the authority. It must not be shown.
func (a *Authority) PEM() []byte { return a.pem }

// Expires is when the authority, and so everything that it has issued, is not valid any more.
func (a *Authority) Expires() time.Time { return a.certificate.NotAfter }

// Issue returns credentials for a name that are valid for so long from now on.
func (a *Authority) Issue(name Name, life time.Duration) (*Credentials, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "credentials of "+name.String(), err)
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name.EtcdUser(), SerialNumber: name.Token}, URIs: []*url.URL{{Scheme: scheme, Opaque: name.String()}}, DNSNames: []string{Host},
		NotBefore: time.Now().Add(-skew), NotAfter: time.Now().Add(life), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	if name.Kind == Listener { // the client of etcd looks for the address of the server, and a listener may have an etcd inside
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	}
	certificate, err := sign(template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "credentials of "+name.String(), err)
	}
	return newCredentials(certificate, encoded, a.certificate.Raw)
}

// IssueRenewing is Issue. Whenever a third of their life is over, the credentials issue others in their place, at the next connection.
func (a *Authority) IssueRenewing(name Name, life time.Duration) (*Credentials, error) {
	c, err := a.Issue(name, life)
	if err != nil {
		return nil, err
	}
	c.next, c.due = func() (*Credentials, error) { return a.Issue(name, life) }, dueAfter(c)
	return c, nil
}

// sign makes a certificate with a serial number of its own.
func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "certificate", err)
	}
	template.SerialNumber = serial
	b, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	return b, fault.Wrap(fault.Internal, "certificate", err)
}
