package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/credential"
)

// A Side is one end of connections: how it shows who it is, and whom it speaks to. A nil Side shows nothing, and speaks to everybody in clear text. Every listener,
// and every role that a listener has started, has a Side; servers that a program puts together by itself, as tests of one service do, may go without.
type Side struct {
	credentials *credential.Credentials
	token       *credential.TokenUse // of who calls a listener without credentials; nil: there are credentials
	accept      func(credential.Name) error
	clear       bool // data connections are not protected
}

// OfJob is the side of a role of a job, or of its listener when it speaks to them. It accepts the roles of the job, and listeners.
func OfJob(c *credential.Credentials, job string) *Side {
	return &Side{credentials: c, accept: func(n credential.Name) error {
		if n.Kind == credential.Listener || n.Kind == credential.Role && n.Job == job {
			return nil
		}
		return denied(n, "a role of job "+job+", or a listener")
	}}
}

// OfListener is the side of a listener that takes calls. It accepts users and listeners.
func OfListener(c *credential.Credentials) *Side {
	return &Side{credentials: c, accept: func(n credential.Name) error {
		if n.Kind == credential.Listener || n.Kind == credential.User {
			return nil
		}
		return denied(n, "a user or a listener")
	}}
}

// ToListener is the side of who calls a listener. It accepts listeners.
func ToListener(c *credential.Credentials) *Side {
	return &Side{credentials: c, accept: onlyListeners}
}

func onlyListeners(n credential.Name) error {
	if n.Kind == credential.Listener {
		return nil
	}
	return denied(n, "a listener")
}

func denied(n credential.Name, want string) error {
	return fault.E(fault.Denied, fault.Got("the certificate of "+n.String()), fault.Want(want))
}

func (s *Side) client() credentials.TransportCredentials {
	if s == nil {
		return insecure.NewCredentials()
	}
	if s.token != nil {
		return credentials.NewTLS(s.token.Client(s.accept))
	}
	return credentials.NewTLS(s.credentials.Client(s.accept))
}

func (s *Side) server() credentials.TransportCredentials {
	if s == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(s.credentials.Server(s.accept))
}

// ClearData returns the same side, whose data connections travel in clear text.
func (s *Side) ClearData() *Side {
	if s == nil {
		return nil
	}
	with := *s
	with.clear = true
	return &with
}

// DataServer is the configuration of data connections that are accepted; nil: they travel in clear text.
func (s *Side) DataServer() *tls.Config {
	if s == nil || s.clear {
		return nil
	}
	return s.credentials.Server(s.accept)
}

// DataClient is the configuration of data connections that are opened; nil: they travel in clear text.
func (s *Side) DataClient() *tls.Config {
	if s == nil || s.clear {
		return nil
	}
	return s.credentials.Client(s.accept)
}

// Caller returns who made the call that a handler answers. It is false where callers are not asked. If the call has neither a certificate nor a token that
// counts, the name has no kind, and such a caller may do nothing.
func Caller(ctx context.Context) (credential.Name, bool) {
	if name, ok := ctx.Value(bearerKey{}).(credential.Name); ok {
		return name, true
	}
	from, ok := peer.FromContext(ctx)
	if !ok {
		return credential.Name{}, false
	}
	switch info := from.AuthInfo.(type) {
	case credentials.TLSInfo:
		name, err := credential.NameOf(info.State) // which the handshake has checked
		if err != nil {
			return credential.Name{}, true
		}
		return name, true
	case strangerInfo:
		return credential.Name{}, true
	}
	return credential.Name{}, false
}

// CallerUntil is when the certificate of who made a call is not valid any more; a connection may outlive it. It is zero where there is none.
func CallerUntil(ctx context.Context) time.Time {
	if from, ok := peer.FromContext(ctx); ok {
		if info, ok := from.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
			return info.State.PeerCertificates[0].NotAfter
		}
	}
	return time.Time{}
}

// checkSpeaker refuses a message of a trainer that names another trainer as its sender, or another job.
func checkSpeaker(ctx context.Context, message any) error {
	m, ok := message.(interface{ GetId() *rpc.Identity })
	if !ok || m.GetId() == nil {
		return nil
	}
	name, ok := Caller(ctx)
	if !ok || name.Kind != credential.Role {
		return nil
	}
	id := m.GetId()
	if id.Job != name.Job || name.Role == trainerRole && id.Rank != uint32(name.Index) {
		return fault.E(fault.Denied, fault.Gotf("a message of rank %d of job %s from %s", id.Rank, fault.Quote(id.Job), name), fault.Want("its own rank and job"))
	}
	return nil
}

// trainerRole is the role of trainers in their certificates.
const trainerRole = "trainer"

// heardStream checks each message of a stream.
type heardStream struct{ grpc.ServerStream }

func (s heardStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return checkSpeaker(s.Context(), m)
}

// Silent reports whether a call has failed because its peer took the connection and did not greet in time: it is paused, or has too much to do.
func Silent(err error) bool {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Unavailable || f.Err == nil {
		return false
	}
	text := f.Err.Error()
	return strings.Contains(text, "error reading server preface") ||
		strings.Contains(text, "authentication handshake failed: ") && (strings.Contains(text, "deadline exceeded") || strings.Contains(text, "timeout"))
}

// Refused turns the error of a call into a fault.Denied if the two ends did not accept each other's certificates. It is for clients of a listener. Roles
// try again: where a role was, another process may listen meanwhile.
func Refused(err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Unavailable || f.Err == nil {
		return err
	}
	text := f.Err.Error()
	_, why, ours := strings.Cut(text, "authentication handshake failed: ")
	_, alert, theirs := strings.Cut(text, "remote error: tls: ")
	e := func(got, want, hint string) error {
		return fault.E(fault.Denied, fault.At(f.Where), fault.Got(got), fault.Want(want), fault.Hint(hint))
	}
	const sameFile = "the user of the listener writes credentials for you with \"edl credentials NAME -o FILE\": name that file in EDL_CREDENTIALS"
	switch {
	case theirs && strings.Contains(alert, "certificate required"):
		return e("a refusal of who shows no certificate", "a listener that takes tokens",
			"start it with --oidc-issuer, or get credentials for the token: \"edl login URL\", where URL is that of its pages")
	case theirs:
		return e("a refusal of the certificate that it was shown: "+alert, "one of the listener's authority that is valid", sameFile)
	case ours && strings.Contains(why, "unknown authority"):
		return e("a certificate of another authority", "that of the listener", sameFile)
	case ours && strings.Contains(why, "does not look like a TLS handshake"):
		return e("a server that does not speak TLS", "a listener of this version", "look at the address")
	case Silent(err) && (ours || strings.Contains(text, "use of closed network connection")): // which this end has closed after a while
		return fault.E(fault.Unavailable, fault.At(f.Where), fault.Got("a server that took the connection and says nothing"), fault.Want("one that answers"),
			fault.Hint("it hangs, is paused, or has too much to do: look at its log"))
	case ours && (strings.Contains(why, "EOF") || strings.Contains(why, "reset by peer") || strings.Contains(why, "broken pipe")):
		return fault.E(fault.Unavailable, fault.At(f.Where), fault.Got("a server that has closed the connection: "+why), fault.Want("one that answers"),
			fault.Hint("it may have ended just now, or be no listener: look at the address, and at its log"))
	case ours:
		return e(why, "a certificate of the listener's authority", sameFile)
	}
	return err
}
