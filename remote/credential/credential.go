// Package credential says who is who: each listener, user and role of a job has a certificate, and shows it to whoever it speaks to.
//
// Files in reading order: credential.go has names and how certificates are written; grants.go has what users may do in single namespaces; held.go has certificates that others take the place of, and what the two ends
// of a connection check; authority.go issues certificates; file.go keeps the authority of a user in a file; token.go has bearer tokens, for who cannot show a
// certificate; bearer.go whose they are, and how a client shows one.
//
// All certificates come from one authority, which the listener has:
//
//	Authority (a file of the user, mode 0600)
//	├── listener             speaks to roles and to other listeners of the authority
//	├── user/NAME/ROLES      speaks to listeners, and may there what its Access and its Grants say
//	└── job/JOB/ROLE/INDEX   speaks to the roles of its job
//
// A connection is TLS 1.3, and both ends show certificates. So whoever has none from the same authority can neither call nor be called, and the bytes of a
// connection are a secret. Who may call what is decided by package wire, from the names.
package credential

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/edl-go/edl/fault"
)

// Kind says what somebody with a certificate is.
type Kind string

// The kinds of names.
const (
	Listener Kind = "listener"
	User     Kind = "user"
	Role     Kind = "job"
)

// A Name is whom a certificate was issued to.
type Name struct {
	Kind   Kind
	User   string // of a user, and what follows
	Access Access // in all namespaces, and at the listener itself; empty: nothing
	Within Grants // in single namespaces beside that
	Token  string // the Sum of the token for which the certificate was issued: it counts as long as that does; empty: for none. String does not show it
	Job    string // of a role, and what follows
	Role   string
	Index  int
}

// Access says what a user may do at a listener.
type Access string

// The accesses of users, each with what those before it may.
const (
	Viewer    Access = "viewer"    // reads what the listener knows of jobs
	Submitter Access = "submitter" // submits jobs, and acts on its own ones
	Admin     Access = "admin"     // acts on all jobs. In all namespaces: also on the listener itself, as the user who runs it
)

// Accesses lists them, the least first.
func Accesses() []Access { return []Access{Viewer, Submitter, Admin} }

// Covers reports whether who has a may do what b allows.
func (a Access) Covers(b Access) bool {
	return slices.Index(Accesses(), a) >= slices.Index(Accesses(), b)
}

// scheme is that of the URI in a certificate that is its Name.
const scheme = "edl"

// String returns the name as it stands in a certificate after "edl:".
func (n Name) String() string {
	switch n.Kind {
	case User:
		return fmt.Sprintf("%s/%s/%s", User, url.PathEscape(n.User), n.Roles())
	case Role:
		return fmt.Sprintf("%s/%s/%s/%d", Role, url.PathEscape(n.Job), url.PathEscape(n.Role), n.Index)
	}
	return string(n.Kind)
}

// EtcdUser is the user that an etcd takes somebody of this name for: the common name of the certificate. All roles of a job are one.
func (n Name) EtcdUser() string {
	if n.Kind == Role {
		return fmt.Sprintf("%s/%s", Role, url.PathEscape(n.Job))
	}
	return n.String()
}

// maxUser bounds the name of a user in bytes.
const maxUser = 100

// CheckUser refuses what is no name of a user.
func CheckUser(name string) error {
	if name == "" || len(name) > maxUser || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fault.E(fault.InvalidArgument, fault.At("credentials"), fault.Got("name "+fault.Quote(name)), fault.Wantf("1 to %d bytes without control characters", maxUser))
	}
	return nil
}

// parseName is the inverse of String, which leaves out the token.
func parseName(text string) (Name, error) {
	parts := strings.Split(text, "/")
	for i, part := range parts {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return Name{}, unreadable(text)
		}
		parts[i] = plain
	}
	switch kind := Kind(parts[0]); {
	case kind == Listener && len(parts) == 1:
		return Name{Kind: Listener}, nil
	case kind == User && len(parts) == 3:
		access, within, err := ParseGrants(strings.Split(parts[2], ",")...)
		if err == nil {
			return Name{Kind: User, User: parts[1], Access: access, Within: within}, nil
		}
	case kind == Role && len(parts) == 4:
		index, err := strconv.Atoi(parts[3])
		if err == nil && index >= 0 {
			return Name{Kind: Role, Job: parts[1], Role: parts[2], Index: index}, nil
		}
	}
	return Name{}, unreadable(text)
}

func unreadable(text string) error {
	return fault.E(fault.Denied, fault.Got("a certificate for "+fault.Quote(text)), fault.Want("one for a listener, a user, or a role of a job"))
}

// NameOf returns whom the certificate of the other end of a connection was issued to. The chain has been verified.
func NameOf(state tls.ConnectionState) (Name, error) {
	if len(state.PeerCertificates) == 0 || len(state.PeerCertificates[0].URIs) != 1 || state.PeerCertificates[0].URIs[0].Scheme != scheme {
		return Name{}, fault.E(fault.Denied, fault.Got("a connection without a certificate of EDL"), fault.Want("one that the listener's authority has issued"))
	}
	name, err := parseName(state.PeerCertificates[0].URIs[0].Opaque)
	name.Token = state.PeerCertificates[0].Subject.SerialNumber
	return name, err
}

// maxPEM bounds what is parsed.
const maxPEM = 64 << 10

// Parse reads credentials. Bytes that are none give a fault of kind fault.Corrupt that does not quote them.
func Parse(b []byte) (*Credentials, error) {
	certificates, key, err := blocks(b)
	if err != nil {
		return nil, err
	}
	if len(certificates) != 2 || key == nil {
		return nil, corrupt(fmt.Sprintf("%d certificates and %d keys", len(certificates), count(key)))
	}
	return newCredentials(certificates[0], key, certificates[1])
}

func count(key []byte) int {
	if key == nil {
		return 0
	}
	return 1
}

// blocks cuts PEM into certificates and a key, which may be absent.
func blocks(b []byte) (certificates [][]byte, key []byte, err error) {
	if len(b) > maxPEM {
		return nil, nil, corrupt(fmt.Sprintf("%d bytes", len(b)))
	}
	for len(b) > 0 {
		block, rest := pem.Decode(b)
		switch {
		case block == nil:
			return certificates, key, nil
		case block.Type == certificateBlock:
			certificates = append(certificates, block.Bytes)
		case block.Type == keyBlock && key == nil:
			key = block.Bytes
		default:
			return nil, nil, corrupt("another block of PEM")
		}
		b = rest
	}
	return certificates, key, nil
}

// The types of PEM blocks.
const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
)

func corrupt(got string) error {
	return fault.E(fault.Corrupt, fault.At("credentials"), fault.Got(got), fault.Want("a certificate, its key, and the certificate of the authority, as PEM"))
}
