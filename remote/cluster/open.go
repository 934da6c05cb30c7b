package cluster

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edl-go/edl/fault"
)

// DefaultLease is the lease of a member when Config names none.
const DefaultLease = 5 * time.Second

// Config says where a registry is.
type Config struct {
	Endpoints []string      // of etcd
	Prefix    string        // of the job's keys; see Prefix
	Lease     time.Duration // after which a member that does not renew is lost; rounded up to seconds; 0: DefaultLease
	Access    Access        // what etcd asks for; the zero value: what the environment of this process says, see AccessFrom
	Log       *slog.Logger  // nil: discarded
}

// Open connects to etcd and returns a handle on the job's members. It fails when etcd does not answer before ctx ends, and after 10 seconds in any
// case.
func Open(ctx context.Context, c Config) (Registry, error) {
	if err := checkPrefix(c.Prefix); err != nil {
		return nil, err
	}
	if c.Access == (Access{}) {
		c.Access = AccessFrom(os.Getenv)
	}
	secured, err := c.Access.tls(c.Endpoints)
	if err != nil {
		return nil, err
	}
	if c.Lease <= 0 {
		c.Lease = DefaultLease
	}
	where := "etcd at " + strings.Join(c.Endpoints, ", ")
	probed := probe(ctx, c.Endpoints, secured)
	if mistrust(probed) {
		return nil, fault.E(fault.InvalidArgument, fault.At(where), fault.Cause(probed), fault.Hint("name the authority of its certificate"))
	}
	s, err := connect(ctx, c, secured)
	if err == nil {
		if _, err = s.list(ctx, c.Prefix+"/", view{}); err == nil {
			return newRegistry(s, c.Prefix), nil
		}
		_ = s.close()
	}
	if probed != nil && fault.KindOf(err) == fault.Unavailable {
		err = fault.E(fault.Unavailable, fault.At(where), fault.Cause(probed))
	}
	return nil, storeFault(ctx, where, err)
}

// connect makes a client, which lives until its close, not until ctx ends.
func connect(ctx context.Context, c Config, secured *tls.Config) (*etcdStore, error) {
	base, cancel := context.WithCancel(context.Background())
	defer context.AfterFunc(ctx, cancel)() // the client may ask for a token
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints, TLS: secured, Username: c.Access.User, Password: c.Access.Password, DialTimeout: requestTimeout, Context: base,
		Logger: zapTo(base, c.Log), DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
	})
	if err != nil {
		cancel()
		return nil, etcdFault("etcd", err)
	}
	return &etcdStore{client: client, cancel: cancel, seconds: int64((c.Lease + time.Second - 1) / time.Second), leases: map[*etcdLease]bool{}}, nil
}
