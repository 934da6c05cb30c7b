package remote

import (
	"log/slog"
	"net"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
)

// An Option changes how a listener is started.
type Option func(*listening)

type listening struct {
	address   string
	launcher  launch.Launcher
	processes bool // roles are processes, so they need etcd to find each other
	etcd      []string
	access    cluster.Access
	node      string
	spread    bool
	insecure  bool
	version   string
	log       *slog.Logger
}

// WithAddress makes the listener listen on host:port. The default is a free port of the loopback interface.
func WithAddress(address string) Option { return func(o *listening) { o.address = address } }

// WithLauncher starts roles as launcher does. They find each other through etcd: the servers of WithEtcd, or one inside of this process. The
// default is roles that are goroutines; without WithEtcd they share a store in memory.
func WithLauncher(l launch.Launcher) Option {
	return func(o *listening) { o.launcher, o.processes = l, true }
}

// WithEtcd uses a real etcd cluster instead of one inside of this process.
func WithEtcd(endpoints ...string) Option { return func(o *listening) { o.etcd = endpoints } }

// WithEtcdAccess says what the etcd cluster asks for; the default is what the environment says. Launchers of processes give the same to their
// children, through cluster.Access.Environment: it is never part of a job.
func WithEtcdAccess(a cluster.Access) Option { return func(o *listening) { o.access = a } }

// WithNode joins this listener to the nodes of the etcd cluster under an id, so that other listeners may start roles here.
func WithNode(id string) Option { return func(o *listening) { o.node = id } }

// WithNodes starts the roles of jobs on the nodes of the etcd cluster, in turns, instead of on this machine.
func WithNodes() Option { return func(o *listening) { o.spread = true } }

// WithoutSecurity allows an address that other machines reach, although nobody who connects is asked who he is.
func WithoutSecurity() Option { return func(o *listening) { o.insecure = true } }

// WithVersion is what the listener says of itself.
func WithVersion(version string) Option { return func(o *listening) { o.version = version } }

// WithLogger reports what the listener does. The default is silence.
func WithLogger(log *slog.Logger) Option { return func(o *listening) { o.log = log } }

// host returns the host that roles listen on, and refuses one that other machines reach unless the user insists: whoever reaches a listener can
// run programs on it.
func (o *listening) host() (string, error) {
	host, _, err := net.SplitHostPort(o.address)
	if err != nil {
		return "", fault.Wrap(fault.InvalidArgument, "listen on "+o.address, err)
	}
	ip := net.ParseIP(host)
	if !o.insecure && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", fault.E(fault.InvalidArgument, fault.At("listen on "+o.address), fault.Got("an address that other machines reach"),
			fault.Want("a loopback address, such as 127.0.0.1:7164"),
			fault.Hint("a listener does not ask who connects; in a closed network, say --insecure"))
	}
	return host, nil
}
