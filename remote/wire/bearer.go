package wire

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// A caller without a certificate shows a token with each call, in the header "authorization". Everybody can open such a connection, so it costs a server little until a token has
// counted on it: nothing of a call is read but its head, few are open at a time, and each only for a short time. Connections with a certificate are not among these.
const (
	maxStrangers = 256              // connections on which no token has counted yet
	strangerTime = 15 * time.Second // for each of them; an issuer may be asked for its keys meanwhile
)

// Bearers are options of NewServer that let callers show a token in place of a certificate. who says whose it is; a header that is no token, or none, is empty or as it came.
// It is called for each such call before anything of the message is read, and must return within seconds: it holds up the connection. Where the caller has a certificate,
// that counts, and no token is looked at.
func Bearers(side *Side, who func(ctx context.Context, method, authorization string) (credential.Name, error)) []grpc.ServerOption {
	front := &strangers{TransportCredentials: credentials.NewTLS(side.credentials.ServerOfTokens(side.accept))}
	return []grpc.ServerOption{grpc.Creds(front), grpc.InTapHandle(func(ctx context.Context, call *tap.Info) (_ context.Context, err error) {
		defer func() { err = ToStatus(recovered(call.FullMethodName, recover(), err)) }()
		from, _ := peer.FromContext(ctx)
		if from == nil {
			return ctx, nil
		}
		stranger, ok := from.AuthInfo.(strangerInfo)
		if !ok {
			return ctx, nil
		}
		shown := ""
		if all := call.Header.Get("authorization"); len(all) == 1 {
			shown = all[0]
		}
		name, err := who(ctx, call.FullMethodName, shown)
		if err != nil {
			return ctx, err
		}
		stranger.conn.known()
		return context.WithValue(ctx, bearerKey{}, name), nil
	})}
}

// bearerKey is that of the credential.Name of a caller who has shown a token.
type bearerKey struct{}

// strangers are the connections of a server on which no token has counted yet.
type strangers struct {
	credentials.TransportCredentials

	mu   sync.Mutex
	open int
}

// ServerHandshake implements credentials.TransportCredentials.
func (s *strangers) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := s.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	of, ok := info.(credentials.TLSInfo)
	if ok && len(of.State.PeerCertificates) > 0 {
		return conn, info, nil
	}
	s.mu.Lock()
	full := s.open >= maxStrangers
	if !full {
		s.open++
	}
	s.mu.Unlock()
	if full {
		_ = conn.Close()
		return nil, nil, fault.E(fault.TooLarge, fault.Gotf("more than %d connections without a certificate or a token", maxStrangers), fault.Want("fewer"))
	}
	c := &strangerConn{Conn: conn, of: s}
	c.end = time.AfterFunc(strangerTime, func() { _ = c.Close() })
	return c, strangerInfo{of, c}, nil
}

// strangerInfo is what is known of the other end of a connection without a certificate.
type strangerInfo struct {
	credentials.TLSInfo
	conn *strangerConn
}

// strangerConn is such a connection. It ends soon if it is not known.
type strangerConn struct {
	net.Conn
	of   *strangers
	end  *time.Timer
	once sync.Once
}

// known says that a token has counted on the connection, which stays from now on.
func (c *strangerConn) known() {
	c.once.Do(func() {
		c.end.Stop()
		c.of.mu.Lock()
		c.of.open--
		c.of.mu.Unlock()
	})
}

// Close implements net.Conn.
func (c *strangerConn) Close() error {
	c.known()
	return c.Conn.Close()
}

// ToListenerAs is the side of who calls a listener and shows a token. It accepts listeners, and can take no calls.
func ToListenerAs(token *credential.TokenUse) *Side {
	return &Side{token: token, accept: onlyListeners}
}

// shownToken shows a token with each call.
type shownToken struct{ use *credential.TokenUse }

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (s shownToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := s.use.Token()
	if err != nil {
		return nil, ToStatus(fault.E(fault.Denied, fault.Cause(err))) // gRPC changes some other kinds
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (shownToken) RequireTransportSecurity() bool { return true }
