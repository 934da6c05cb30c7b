package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
)

// DefaultLease is the lease of a member when Config names none.
const DefaultLease = 5 * time.Second

// Config says where a registry is.
type Config struct {
	Endpoints []string      // of etcd
	Prefix    string        // of the job's keys; see Prefix
	Lease     time.Duration // after which a member that does not renew is lost; rounded up to seconds; 0: DefaultLease
	// Patience is how long a member waits for the listener of its job when etcd has lost its data; 0: 2 minutes.
	Patience time.Duration
	// Answers asks the process at an address whether it lives. A member whose lease has ended keeps its place while its process answers, for 4 leases at
	// most, so that it can take its key anew: it may be that its machine is overloaded. nil: nobody is asked.
	Answers func(ctx context.Context, address string) bool

	Access Access                  // what etcd asks for; the zero value: what the environment of this process says, see AccessFrom
	Own    *credential.Credentials // for an etcd that Embed has started with credentials of the same authority; it takes the place of Access. nil: none
	// Roles is the user of such an etcd that the roles of the job are. Open lets it reach the keys below Prefix, and no others, until Remove is called. A listener names
	// it, and roles do not. Empty: nothing changes.
	Roles string
	Log   *slog.Logger // nil: discarded

	renewEvery time.Duration            // of leases; 0: a third of their duration
	getenv     func(name string) string // nil: os.Getenv
}

// Open connects to etcd and returns a handle on the members of a job. It fails when etcd has not answered when ctx ends, or after 10 seconds.
func Open(ctx context.Context, c Config) (Registry, error) {
	if err := checkPrefix(c.Prefix); err != nil {
		return nil, err
	}
	if c.getenv == nil {
		c.getenv = os.Getenv
	}
	var secured *tls.Config
	if c.Own != nil {
		secured, c.Access = c.Own.Client(anybody), Access{}
	} else {
		if c.Access == (Access{}) {
			c.Access = AccessFrom(c.getenv)
		}
		var err error
		if secured, err = c.Access.tls(c.Endpoints); err != nil {
			return nil, err
		}
	}
	if c.Lease <= 0 {
		c.Lease = DefaultLease
	}
	where := "etcd at " + strings.Join(c.Endpoints, ", ")
	probed := probe(ctx, c.Endpoints, secured)
	if untrusted(probed) {
		return nil, fault.E(fault.InvalidArgument, fault.At(where), fault.Cause(probed), fault.Hint("name the authority of its certificate"))
	}
	s, err := connect(ctx, c, secured)
	if err == nil {
		if _, err = s.list(ctx, c.Prefix+"/", view{}); err == nil && c.Roles != "" {
			err = s.admit(ctx, c.Roles, c.Prefix)
		}
		if err == nil {
			r := newRegistry(s, c.Prefix)
			if c.Roles != "" {
				r.removed = func(ctx context.Context) error { return s.dismiss(ctx, c.Roles) }
			}
			r.patience, r.answers, r.lease = cmp.Or(c.Patience, r.patience), c.Answers, c.Lease
			return r, nil
		}
		_ = s.close()
	}
	if probed != nil && fault.KindOf(err) == fault.Unavailable {
		err = fault.E(fault.Unavailable, fault.At(where), fault.Cause(probed))
	}
	return nil, storeFault(ctx, nil, where, err)
}

// anybody accepts every peer of the same authority.
func anybody(credential.Name) error { return nil }

// connect makes a client. It lives until it is closed, also when ctx has ended.
func connect(ctx context.Context, c Config, secured *tls.Config) (*etcdStore, error) {
	base, cancel := context.WithCancel(context.Background())
	defer context.AfterFunc(ctx, cancel)() // the client may ask for a token
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints, TLS: secured, Username: c.Access.User, Password: c.Access.Password, DialTimeout: requestTimeout, Context: base,
		Logger: zapTo(base, c.Log), DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(reconnect)},
	})
	if err != nil {
		cancel()
		return nil, etcdFault("etcd", err)
	}
	seconds := int64((c.Lease + time.Second - 1) / time.Second)
	s := &etcdStore{client: client, cancel: cancel, seconds: seconds, renewEvery: c.renewEvery, leases: map[*etcdLease]bool{},
		reached: newContact("etcd at "+strings.Join(c.Endpoints, ", "), time.Duration(seconds)*time.Second)}
	s.again, s.breakOff = context.WithCancel(base)
	return s, nil
}

// reconnect says how often a client tries to connect to an etcd that was away. Leases count on when it is back, so the tries are closer to each other
// than the shortest lease is long, however long it was away.
var reconnect = grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
	MaxDelay: 400 * time.Millisecond}, MinConnectTimeout: 2 * time.Second}

// Variables of the environment that say where etcd is and what it asks of its clients. Roles get a password in this way and not in their JobSpec or
// arguments, because those are shown to everybody.
const (
	EnvEndpoints   = "EDL_ETCD" // URLs separated by commas
	EnvCA          = "EDL_ETCD_CA"
	EnvCertificate = "EDL_ETCD_CERT"
	EnvKey         = "EDL_ETCD_KEY"
	EnvUser        = "EDL_ETCD_USER"
	EnvPassword    = "EDL_ETCD_PASSWORD"
)

// Access is what an etcd cluster asks of its clients. The zero value is for a cluster without TLS and users.
type Access struct {
	CA          string // file of the PEM certificates that signed the servers' certificates; empty: those that the system trusts
	Certificate string // file of this client's certificate, if the servers ask for one
	Key         string // file of its key
	User        string // empty: no authentication
	Password    string
}

// AccessFrom reads the variables of an environment, as of os.Getenv.
func AccessFrom(getenv func(string) string) Access {
	return Access{CA: getenv(EnvCA), Certificate: getenv(EnvCertificate), Key: getenv(EnvKey), User: getenv(EnvUser), Password: getenv(EnvPassword)}
}

// Environment returns the variables, as NAME=value, for another process, whose AccessFrom then returns a.
func (a Access) Environment() []string {
	return []string{EnvCA + "=" + a.CA, EnvCertificate + "=" + a.Certificate, EnvKey + "=" + a.Key, EnvUser + "=" + a.User,
		EnvPassword + "=" + a.Password}
}

// Check reports what is missing or wrong, before anybody connects. It reads the files.
func (a Access) Check(endpoints []string) error {
	_, err := a.tls(endpoints)
	return err
}

// usesTLS reports whether the connections to the endpoints use TLS.
func usesTLS(endpoints []string) (bool, error) {
	if len(endpoints) == 0 {
		return false, fault.E(fault.InvalidArgument, fault.At("etcd"), fault.Got("no endpoint"))
	}
	safe := 0
	for _, e := range endpoints {
		scheme, host, ok := strings.Cut(e, "://")
		if !ok {
			scheme, host = "http", e
		}
		u, err := url.Parse(scheme + "://" + host)
		if err != nil || scheme != "http" && scheme != "https" || u.Host == "" || u.Port() == "" || u.Host != host {
			return false, fault.E(fault.InvalidArgument, fault.At("etcd"), fault.Got("endpoint "+fault.Quote(e)),
				fault.Want("http://HOST:PORT, https://HOST:PORT or HOST:PORT"))
		}
		if scheme == "https" {
			safe++
		}
	}
	if safe != 0 && safe != len(endpoints) {
		return false, fault.E(fault.InvalidArgument, fault.At("etcd"), fault.Gotf("%d of %d endpoints with https", safe, len(endpoints)),
			fault.Want("all or none"))
	}
	return safe != 0, nil
}

// tls returns the configuration for the endpoints, nil for plain text.
func (a Access) tls(endpoints []string) (*tls.Config, error) {
	refuse := func(got, want, hint string, err error) error {
		return fault.E(fault.InvalidArgument, fault.At("etcd"), fault.Got(got), fault.Want(want), fault.Hint(hint), fault.Cause(err))
	}
	safe, err := usesTLS(endpoints)
	switch {
	case err != nil:
		return nil, err
	case (a.Certificate == "") != (a.Key == ""):
		return nil, refuse("a certificate without its key, or a key without its certificate", "both or none", "", nil)
	case (a.User == "") != (a.Password == ""):
		return nil, refuse("a user without a password, or a password without a user", "both or none",
			"the password is in the environment: "+EnvPassword, nil)
	case !safe:
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.CA != "" {
		pem, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, refuse("", "", "the file of the certificate authority must be readable", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, refuse("no certificate in "+a.CA, "PEM", "", nil)
		}
	}
	if a.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(a.Certificate, a.Key)
		if err != nil {
			return nil, refuse("", "", "the certificate and its key must be readable and fit", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

const probeTimeout = time.Second

// probe returns nil when one of the endpoints accepts a connection, and else why the last one does not. The client of etcd tries until its deadline,
// whatever the reason is, and does not report it.
func probe(ctx context.Context, endpoints []string, secured *tls.Config) error {
	var last error
	for _, e := range endpoints {
		if last = probeOne(ctx, e, secured); last == nil {
			return nil
		}
	}
	return last
}

func probeOne(ctx context.Context, endpoint string, secured *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, host, ok := strings.Cut(endpoint, "://")
	if !ok {
		host = endpoint
	}
	dialer := interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	}(&net.Dialer{})
	if secured != nil {
		dialer = &tls.Dialer{Config: secured}
	}
	c, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	return c.Close()
}

// untrusted reports whether a probe failed for a reason that another try cannot change: the server's certificate, or a server without TLS.
func untrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &verification) || errors.As(err, &record)
}
