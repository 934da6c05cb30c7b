package credential

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edl-go/edl/fault"
)

// Credentials are a certificate, its key, and the authority that others must have theirs from. Others of the same name may take their place: connections that
// begin from then on show those, and connections that stand go on. They are safe for concurrent use.
type Credentials struct {
	name Name
	held atomic.Pointer[held]

	mu   sync.Mutex
	next func() (*Credentials, error) // issues others when they are due; nil: whoever has issued these calls Renew
	due  time.Time                    // by the clock of the wall, which goes on while the machine sleeps; guarded by mu
}

// held is one certificate with its key. It does not change.
type held struct {
	own   tls.Certificate
	roots *x509.CertPool
	pem   [3][]byte // certificate, key, authority
}

func newCredentials(certificate, key, authority []byte) (*Credentials, error) {
	own, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, corrupt("a certificate that does not decode")
	}
	signer, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return nil, corrupt("a key that does not decode")
	}
	root, err := x509.ParseCertificate(authority)
	if err != nil {
		return nil, corrupt("an authority that does not decode")
	}
	h := &held{own: tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: signer, Leaf: own}, roots: x509.NewCertPool()}
	if !bytes.Equal(root.RawIssuer, root.RawSubject) { // for a peer that only trusts the root of the PKI of this authority
		h.own.Certificate = append(h.own.Certificate, authority)
	}
	h.roots.AddCert(root)
	c := &Credentials{}
	if c.name, err = NameOf(tls.ConnectionState{PeerCertificates: []*x509.Certificate{own}}); err != nil {
		return nil, err
	}
	for i, b := range []*pem.Block{{Type: certificateBlock, Bytes: certificate}, {Type: keyBlock, Bytes: key}, {Type: certificateBlock, Bytes: authority}} {
		h.pem[i] = pem.EncodeToMemory(b)
	}
	c.held.Store(h)
	return c, nil
}

// RenewAfter is the part of the life of a certificate after which the next one is issued: a third. What is left of it bridges the time in which that fails.
const RenewAfter = 3

// Renew lets other credentials of the same name, which may be of another authority, take the place of these.
func (c *Credentials) Renew(next *Credentials) error {
	if next.name != c.name {
		return fault.E(fault.Denied, fault.At(c.String()), fault.Got("those of "+next.name.String()+" in their place"), fault.Want("others of the same name"))
	}
	c.held.Store(next.held.Load())
	return nil
}

// current returns what counts now. If the next certificate is due and cannot be issued, the last one counts.
func (c *Credentials) current() *held {
	if c.next == nil {
		return c.held.Load()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !time.Now().Before(c.due) {
		if next, err := c.next(); err == nil && c.Renew(next) == nil {
			c.due = dueAfter(next)
		}
	}
	return c.held.Load()
}

// dueAfter is when the next credentials are due after c, which are new.
func dueAfter(c *Credentials) time.Time {
	now := time.Now().Round(0)
	return now.Add(c.held.Load().own.Leaf.NotAfter.Sub(now) / RenewAfter)
}

// Name is whom the certificate was issued to.
func (c *Credentials) Name() Name { return c.name }

// Expires is when the certificate is not valid any more.
func (c *Credentials) Expires() time.Time { return c.current().own.Leaf.NotAfter }

// PEM returns what Parse reads: the certificate, its key, and the certificate of the authority. Who has it is the one that it names: it must not be shown.
func (c *Credentials) PEM() []byte {
	parts := c.current().pem
	return bytes.Join(parts[:], nil)
}

// Parts are the three of PEM, for a program that reads them from files.
func (c *Credentials) Parts() (certificate, key, authority []byte) {
	parts := c.current().pem
	return parts[0], parts[1], parts[2]
}

// String does not show the key.
func (c *Credentials) String() string { return "credentials of " + c.name.String() }

// Host stands in every certificate in place of a host: what identifies a peer is its Name, wherever it runs.
const Host = "edl"

// Server is the configuration of the side that accepts connections. Only peers that accept accepts get through the handshake. No session is resumed, so each
// connection is checked against the authority of that moment.
func (c *Credentials) Server(accept func(Name) error) *tls.Config {
	return c.server(tls.RequireAndVerifyClientCert, func(state tls.ConnectionState) error { return accepted(state, accept) })
}

// ServerOfTokens is Server, but a peer may come without a certificate. Who it is has to be asked of each of its calls then.
func (c *Credentials) ServerOfTokens(accept func(Name) error) *tls.Config {
	return c.server(tls.VerifyClientCertIfGiven, func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return nil
		}
		return accepted(state, accept)
	})
}

func (c *Credentials) server(asked tls.ClientAuthType, verified func(tls.ConnectionState) error) *tls.Config {
	asks := &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: asked, SessionTicketsDisabled: true, VerifyConnection: verified}
	begins := asks.Clone()
	begins.GetCertificate = c.Certificate
	begins.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		h, now := c.current(), asks.Clone()
		now.Certificates, now.ClientCAs = []tls.Certificate{h.own}, h.roots
		return now, nil
	}
	return begins
}

// Certificate is the certificate of now, for a server whose peers need not show one, as that of pages.
func (c *Credentials) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &c.current().own, nil
}

// Client is the configuration of the side that opens connections. It hangs up on peers that accept does not accept. It shows no certificate that has expired: the
// error says which it is, where the server's would not.
func (c *Credentials) Client(accept func(Name) error) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, ServerName: Host,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			h := c.current()
			if time.Now().After(h.own.Leaf.NotAfter) {
				return nil, expired(c.name, h.own.Leaf)
			}
			return &h.own, nil
		},
		InsecureSkipVerify: true, // VerifyConnection verifies, against the authority of that moment
		VerifyConnection: func(state tls.ConnectionState) error {
			if err := verify(state, c.current().roots); err != nil {
				return err
			}
			return accepted(state, accept)
		}}
}

// verify checks the certificate of a server as package tls does.
func verify(state tls.ConnectionState, roots *x509.CertPool) error {
	leaf := state.PeerCertificates[0] // every server shows one
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: Host, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err == nil {
		return nil
	}
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired && time.Now().After(leaf.NotAfter) {
		if name, unnamed := NameOf(state); unnamed == nil {
			err = expired(name, leaf)
		}
	}
	return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
}

func accepted(state tls.ConnectionState, accept func(Name) error) error {
	name, err := NameOf(state)
	if err == nil {
		err = accept(name)
	}
	return err
}

// expired says of whom a certificate was, and what brings the next.
func expired(name Name, leaf *x509.Certificate) error {
	hint := "the user of the listener writes others: \"edl credentials NAME -o FILE\""
	switch name.Kind {
	case Listener:
		hint = "a listener renews its certificate by itself: compare the clocks of the two machines"
	case Role:
		hint = "the listener of the job renews it: look whether that runs and at its log, and compare the clocks of the machines"
	}
	return fault.E(fault.Denied, fault.Gotf("the certificate of %s, which was valid until %s", name, leaf.NotAfter.UTC().Format(time.RFC3339)), fault.Want("one that is valid"), fault.Hint(hint))
}
