package remote

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/policy"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/remote/wire"
)

// Listener is a listener of this process, with everything that its jobs need.
type Listener struct {
	manager  *listen.Manager
	address  string
	stop     context.CancelFunc
	served   chan error
	etcd     *cluster.Embedded
	keeper   *keeperLink   // has the processes of jobs, and their etcd; nil: this process has them
	hands    bool          // the jobs go on, for the next listener
	broken   chan struct{} // of Broken
	cause    error         // valid when broken is closed
	nodes    cluster.Registry
	runDir   string
	data     *listen.Data
	unsweep  context.CancelFunc // ends sweeping; nil: there is none
	sweeping sync.WaitGroup
	looking  sync.WaitGroup // for nodes, until stop is called
	once     sync.Once
	err      error
}

// stopGrace is how long a listener that ends lets calls in flight finish.
const stopGrace = 2 * time.Second

// Listen starts a listener. The caller ends it with Close.
func Listen(ctx context.Context, options ...Option) (_ *Listener, err error) {
	o := listening{log: slog.New(slog.DiscardHandler), address: "127.0.0.1:0"}
	for _, option := range options {
		option(&o)
	}
	host, err := o.host()
	if err != nil {
		return nil, err
	}
	l := &Listener{served: make(chan error, 1), broken: make(chan struct{}), stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.HandOver())
		}
	}()
	asking, toOthers, err := o.sides()
	if err != nil {
		return nil, err
	}
	allowed, err := o.allowed()
	if err != nil {
		return nil, err
	}
	if o.waits && o.dataDir == "" {
		return nil, fault.E(fault.InvalidArgument, fault.Got("a listener that waits, without a data folder"), fault.Want("the folder of the listener that it waits for"))
	}
	config := listen.Config{MaxRoles: o.maxRoles, Launcher: o.launcher, Host: host, ClearData: o.insecure, StateDir: o.stateDir, Log: o.log, Authority: o.authority,
		CredentialLife: o.credentialLife, MaxJobs: o.maxJobs, MaxJobBytes: o.maxJobBytes, Cores: o.cores, Memory: o.memory}
	if o.dataDir != "" {
		if l.data, err = openData(ctx, &o); err != nil {
			return nil, err
		}
		config.Data = l.data
		allowed.Guarded = append(allowed.Guarded, l.data.Dir()) // also against roles of other listeners
	}
	config.Allowed = allowed
	if len(o.keeper) > 0 && o.dataDir != "" && keepers {
		if l.keeper, err = findKeeper(ctx, l.data.Dir(), o.keeper, o.access.Environment()); err != nil {
			return nil, err
		}
		kept := launch.Kept{Keeper: l.keeper.client}
		config.Launcher, config.Kept = kept, &listen.Keeping{Launcher: kept, Keeper: l.keeper.about.Id}
	}
	if o.processes || len(o.etcd) > 0 {
		err = l.findEtcd(ctx, &config, &o)
	} else {
		shareMemory(&config)
	}
	if err != nil {
		return nil, err
	}
	if o.node != "" || o.spread {
		if l.nodes, err = openNodes(ctx, &o); err != nil {
			return nil, err
		}
	}
	here := config.Launcher
	if o.spread {
		config.Launcher, config.Spread = &launch.Nodes{Directory: uncordoned{l}, Side: toOthers}, true
	}
	port, err := wire.Listen(ctx, o.address)
	if err != nil {
		return nil, err
	}
	l.manager = listen.NewManager(config)
	if err = listen.TakeOver(ctx, l.manager); err == nil {
		err = listen.Recall(l.manager)
	}
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	l.address = port.Addr().String()
	server := &listen.Server{Manager: l.manager, Version: o.version, Node: o.node}
	service := wire.NewServer(asking, wire.Around(l.manager.Around)...)
	if o.node != "" {
		server.Local = hosted{here, host, allowed, o.insecure}
	}
	rpc.RegisterListenerServer(service, server)
	serving, stop := context.WithCancel(context.Background())
	l.stop = stop
	go func() { l.served <- wire.Serve(serving, service, port, stopGrace) }()
	go l.watchBreak(serving)
	if o.spread {
		l.looking.Go(func() { watchNodes(serving, l, toOthers, o.log) })
	}
	if o.node == "" {
		return l, nil
	}
	_, err = l.nodes.RegisterNode(ctx, o.node, l.address)
	return l, err
}

// Address is where the listener listens.
func (l *Listener) Address() string { return l.address }

// Broken is closed when the listener has lost the etcd inside of this process, as on a full disk: its jobs fail, and it takes no more. Cause says why.
func (l *Listener) Broken() <-chan struct{} { return l.broken }

// Cause is why the listener is Broken; nil while it is not.
func (l *Listener) Cause() error {
	select {
	case <-l.broken:
		return l.cause
	default:
		return nil
	}
}

// watchBreak notices when the listener has lost what its jobs need, until ctx ends.
func (l *Listener) watchBreak(ctx context.Context) {
	var etcd, keeper <-chan struct{}
	if l.etcd != nil {
		etcd = l.etcd.Broken()
	}
	if l.keeper != nil {
		keeper = l.keeper.gone
	}
	select {
	case <-etcd:
		l.cause = l.etcd.Cause()
	case <-keeper:
		l.cause = l.keeper.cause
	case <-ctx.Done():
		return
	}
	l.manager.Fail(l.cause)
	close(l.broken)
}

// HandOver ends the listener, and leaves its jobs to the next one with the same data folder: their processes go on. Without a keeper (WithKeeper) it is Close, and
// so it is without jobs.
func (l *Listener) HandOver() error {
	l.hands = l.keeper != nil && (l.manager == nil || listen.Busy(l.manager)) // what it has not taken over is the next one's
	return l.Close()
}

// Close stops every job, ends the listener, and removes what it has made.
func (l *Listener) Close() error {
	l.once.Do(func() {
		if l.unsweep != nil {
			l.unsweep()
			l.sweeping.Wait()
		}
		if l.manager != nil && l.hands {
			l.err = listen.HandOver(l.manager)
		} else if l.manager != nil {
			l.err = l.manager.Close()
		}
		if l.nodes != nil {
			l.err = errors.Join(l.err, l.nodes.Close())
		}
		l.stop()
		l.looking.Wait()
		if l.address != "" {
			l.err = errors.Join(l.err, <-l.served)
		}
		if l.etcd != nil {
			l.err = errors.Join(l.err, l.etcd.Close())
		}
		if l.keeper != nil && l.hands {
			l.err = errors.Join(l.err, l.keeper.close())
		} else if l.keeper != nil {
			l.err = errors.Join(l.err, l.keeper.dismiss())
		}
		if l.data != nil {
			l.err = errors.Join(l.err, l.data.Close())
		}
		if l.runDir != "" {
			l.err = errors.Join(l.err, launch.RemoveRunDir(l.runDir))
		}
	})
	return l.err
}

// An Option changes how a listener is started.
type Option func(*listening)

type listening struct {
	address     string
	launcher    launch.Launcher
	processes   bool // roles are processes, so they need etcd to find each other
	elsewhere   bool // and run on machines that reach this one by the host of its address
	etcd        []string
	access      cluster.Access
	node        string
	spread      bool
	insecure    bool
	stateDir    string
	dataDir     string
	waits       bool     // for the data folder
	maxJobs     int      // that the listener remembers; 0: as listen.Config has it
	maxJobBytes int64    // likewise
	cores       int64    // thousandths of cores that jobs share; 0: they are not counted
	memory      int64    // bytes that jobs share; 0: they are not counted
	keeper      []string // command that runs a keeper
	version     string
	log         *slog.Logger
	authority   *credential.Authority
	own         *credential.Credentials // of a client
	data        []string                // places that jobs may read
	save        []string                // places that jobs may write
	notice      func(text string)       // of a client
	maxRoles    int                     // of all jobs that run
	// credentialLife is how long credentials of roles and the listener are valid; 0: listen.CredentialLife
	credentialLife time.Duration
}

// WithAddress makes the listener listen on host:port. The default is a free port of the loopback interface.
func WithAddress(address string) Option { return func(o *listening) { o.address = address } }

// WithLauncher starts roles as launcher does. They find each other through etcd: the servers of WithEtcd, or one inside of this process. The
// default is roles that are goroutines; without WithEtcd they share a store in memory.
func WithLauncher(l launch.Launcher) Option {
	return func(o *listening) { o.launcher, o.processes = l, true }
}

// WithRolesElsewhere says that the launcher starts roles on other machines, such as pods: the etcd inside of this process, if there is one, listens on the host of
// WithAddress.
func WithRolesElsewhere() Option { return func(o *listening) { o.elsewhere = true } }

// WithEtcd uses a real etcd cluster instead of one inside of this process.
func WithEtcd(endpoints ...string) Option { return func(o *listening) { o.etcd = endpoints } }

// WithEtcdAccess says what the etcd cluster asks for; the default is what the environment says. Launchers of processes give the same to their
// children, through cluster.Access.Environment: it is never part of a job.
func WithEtcdAccess(a cluster.Access) Option { return func(o *listening) { o.access = a } }

// WithNode joins this listener to the nodes of the etcd cluster under an id, so that other listeners may start roles here.
func WithNode(id string) Option { return func(o *listening) { o.node = id } }

// WithNodes starts the roles of jobs on the nodes of the etcd cluster, in turns, instead of on this machine.
func WithNodes() Option { return func(o *listening) { o.spread = true } }

// WithStateDir says where the listener holds the states that executors leave between jobs. Where roles run on other machines, these must reach the
// directory under the same path. The default is a scratch directory of this machine.
func WithStateDir(dir string) Option { return func(o *listening) { o.stateDir = dir } }

// WithDataDir gives the listener a folder that outlives it: for checkpoints of jobs that name no place for them, and for what is needed to resume a job by its
// name. No other listener may use it. Where roles run on other machines, these must reach it under the same path. The default is no such folder.
func WithDataDir(dir string) Option { return func(o *listening) { o.dataDir = dir } }

// WithWaiting lets Listen wait while another listener of this machine has the data folder, however long, and go on with its jobs when that has gone. The address is
// not open before. With it, a listener needs a data folder.
func WithWaiting() Option { return func(o *listening) { o.waits = true } }

// openData opens the data folder of a listener.
func openData(ctx context.Context, o *listening) (*listen.Data, error) {
	if !o.waits {
		return listen.OpenData(o.dataDir)
	}
	return listen.AwaitData(ctx, o.dataDir, func() {
		o.log.Info("another listener has the data folder: this one waits until it has gone", "folder", o.dataDir)
	})
}

// WithAllowedData bounds what jobs may read: to folders, with all that is below them, and to buckets or folders in them, such as s3://bucket/folder. The query of
// a URL, such as an endpoint, is part of it. With this option or WithAllowedSave, jobs read and write nothing else. Without both, jobs of admins may do what the
// process may, unless other machines reach the listener; jobs of others read and write nothing but what the listener does for them.
func WithAllowedData(places ...string) Option {
	return func(o *listening) { o.data = append(o.data, places...) }
}

// WithAllowedSave bounds what jobs may write, in the same way. What they may write they may also read. A folder that is missing is made.
func WithAllowedSave(places ...string) Option {
	return func(o *listening) { o.save = append(o.save, places...) }
}

// allowed is what jobs may read and write at the listener.
func (o *listening) allowed() (a listen.Allowed, err error) {
	a.Exposed = !Loopback(o.address)
	a.Guarded = o.secrets()
	for _, of := range []struct {
		flag string
		list []string
		to   **policy.Places
	}{{policy.ReadFlag, o.data, &a.Data}, {policy.WriteFlag, o.save, &a.Save}} {
		if of.list == nil {
			continue
		}
		places, err := policy.ParsePlaces(of.flag, of.list)
		if err != nil {
			return a, err
		}
		for _, place := range places.List {
			if bucket.IsURL(place) {
				continue
			}
			if of.to == &a.Save {
				err = os.MkdirAll(place, policy.FolderMode)
			} else {
				_, err = os.ReadDir(place)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return a, fault.E(fault.InvalidArgument, fault.At(of.flag+" "+place), fault.Got("no such folder"), fault.Want("one that is there"),
					fault.Hint("make it, or name the folder that has the data of jobs"))
			}
			if err != nil {
				return a, fault.File(fault.InvalidArgument, of.flag+" "+place, err)
			}
		}
		*of.to = &places
	}
	return a, nil
}

// secrets are the files with which somebody is the listener, or its user: that of the authority, credentials, and what the etcd asks for.
func (o *listening) secrets() (files []string) {
	authority, _ := credential.File() // a listener that needs it has failed without it
	for _, file := range []string{authority, credential.UserFile(), o.access.CA, o.access.Certificate, o.access.Key} {
		if absolute, err := filepath.Abs(file); file != "" && err == nil {
			files = append(files, absolute)
		}
	}
	return files
}

// WithHistory says how many jobs the listener remembers, those that have ended among them, and how many bytes of those that have ended may stay in its data
// folder. The oldest are forgotten first. 0 is the default: 100 jobs, and 4 GiB.
func WithHistory(jobs int, bytes int64) Option {
	return func(o *listening) { o.maxJobs, o.maxJobBytes = jobs, bytes }
}

// WithResources lets the jobs of a listener share so many thousandths of cores and so many bytes of memory: jobs that do not fit wait. Of 0 there is no bound, and
// without the option there is none of either.
func WithResources(millicores, memory int64) Option {
	return func(o *listening) { o.cores, o.memory = millicores, memory }
}

// WithKeeper lets the jobs of a listener with a data folder outlive it: the processes of their roles, and the etcd inside, are those of a process that command
// runs, with the path of the folder as its last argument. That process calls RunKeeper. If the listener dies, or its HandOver was called, the next listener with the
// folder goes on with the jobs. It takes the place of WithLauncher. On a system without Unix sockets it changes nothing.
func WithKeeper(command ...string) Option { return func(o *listening) { o.keeper = command } }

// WithMaxRoles bounds the roles of all jobs that run at a time; the default is 1024. Jobs of a user who is no admin may have half of them.
func WithMaxRoles(n int) Option { return func(o *listening) { o.maxRoles = n } }

// WithCredentialLife says how long the credentials of roles and of the listener are valid; the default is 24 hours. Others take their place when a third of it is
// over, and connections that stand go on. A machine that is away for two thirds of it, and then comes back, may have to wait up to a minute for the next ones.
func WithCredentialLife(life time.Duration) Option {
	return func(o *listening) { o.credentialLife = life }
}

// WithoutSecurity lets gradients and parameters travel between machines in clear text, which costs less than TLS, and takes an etcd of another machine that
// answers everybody. It is for networks that nobody else reaches.
func WithoutSecurity() Option { return func(o *listening) { o.insecure = true } }

// WithAuthority says which authority issues the credentials of a listener, of its roles and, for a client, of the user. The default is that of the file
// that credential.File names. A listener makes the file if there is none.
func WithAuthority(a *credential.Authority) Option { return func(o *listening) { o.authority = a } }

// WithCredentials gives a client the credentials of a user, for a listener of an authority that the user does not have.
func WithCredentials(c *credential.Credentials) Option { return func(o *listening) { o.own = c } }

// WithNotice lets a client say when it has lost its listener and waits for the next one, and when that is there. It is for a listener whose jobs outlive it.
func WithNotice(notice func(text string)) Option { return func(o *listening) { o.notice = notice } }

// sides are how a listener takes calls and how it makes them to other listeners. It finds the authority that both come from.
func (o *listening) sides() (asking, toOthers *wire.Side, err error) {
	if o.authority == nil {
		file, err := credential.File()
		if err != nil {
			return nil, nil, err
		}
		if o.authority, err = credential.OpenOrMake(file); err != nil {
			return nil, nil, err
		}
	}
	own, err := listen.OwnCredentials(o.authority, o.credentialLife)
	if err != nil {
		return nil, nil, err
	}
	return wire.OfListener(own), wire.ToListener(own), nil
}

// WithVersion is the version that the listener reports.
func WithVersion(version string) Option { return func(o *listening) { o.version = version } }

// WithLogger logs what the listener does. The default is no log.
func WithLogger(log *slog.Logger) Option { return func(o *listening) { o.log = log } }

// host returns the host that roles listen on. An etcd of another machine that is reached in clear text is refused without WithoutSecurity: who changes its keys
// changes the jobs.
func (o *listening) host() (string, error) {
	host, _, err := net.SplitHostPort(o.address)
	if err != nil {
		return "", fault.Wrap(fault.InvalidArgument, "listen on "+o.address, err)
	}
	for _, e := range o.etcd {
		if at, secret := strings.CutPrefix(e, "https://"); !secret && !o.insecure && !Loopback(strings.TrimPrefix(at, "http://")) {
			return "", fault.E(fault.InvalidArgument, fault.At("listen on "+o.address), fault.Got("the etcd "+e+", which is reached in clear text"),
				fault.Want("an https:// endpoint, or one on the loopback interface"),
				fault.Hint("who changes its keys changes the jobs; in a network that nobody else reaches, say --insecure"))
		}
	}
	if o.insecure && o.log != nil {
		o.log.Warn("--insecure: gradients and parameters travel between machines in clear text")
	}
	return host, nil
}

// Loopback reports whether only this machine reaches an address host:port.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// openNodes opens the directory of the cluster's nodes.
func openNodes(ctx context.Context, o *listening) (cluster.Registry, error) {
	if len(o.etcd) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At("listen"), fault.Got("nodes without a cluster"),
			fault.Want("the endpoints of its etcd"))
	}
	return cluster.Open(ctx, cluster.Config{Endpoints: o.etcd, Prefix: cluster.Prefix("listener"), Access: o.access, Log: o.log})
}

// hosted starts roles that other listeners send: their servers listen on the host of this node, and they have no scratch directory of the sender.
// A node that says what jobs may read and write says so for them, too.
type hosted struct {
	launch.Launcher
	host     string
	allowed  listen.Allowed
	insecure bool
}

func (h hosted) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (launch.Handle, error) {
	if spec.ClearData && !h.insecure {
		return nil, fault.E(fault.Denied, fault.Got("a role whose tensors travel in clear text, for a listener with --insecure"), fault.Want("one over TLS"),
			fault.Hint("start the listeners of all nodes with --insecure, or none"))
	}
	spec = proto.Clone(spec).(*job.RoleSpec)
	spec.Advertise, spec.RunDir = h.host, ""
	p := jobspec.PolicyOf(spec.Policy)
	if bounds := h.allowed.Bounds(); bounds != nil {
		bounds.Own, bounds.Guarded = spec.Policy.GetOwn(), spec.Policy.GetGuarded()
		p = bounds
	}
	spec.Policy = jobspec.PolicyMessage(p.Guard(h.allowed.Guarded...))
	return h.Launcher.Start(ctx, spec, log)
}

// findEtcd opens the user's etcd, or starts one in a run directory that the last process removes.
func (l *Listener) findEtcd(ctx context.Context, config *listen.Config, o *listening) (err error) {
	config.Etcd = o.etcd
	if l.keeper != nil {
		config.RunDir = l.keeper.about.RunDir
	} else {
		if l.runDir, err = launch.MakeRunDir(""); err != nil {
			return err
		}
		config.RunDir = l.runDir
	}
	var own *credential.Credentials // for etcd
	switch {
	case l.keeper != nil && len(l.keeper.about.Etcd) > 0:
		config.Etcd = l.keeper.about.Etcd
		if config.EtcdAuthority, err = credential.ParseAuthority(l.keeper.about.Authority); err != nil {
			return err
		}
		if own, err = listen.OwnCredentials(config.EtcdAuthority, o.credentialLife); err != nil {
			return err
		}
	case len(o.etcd) == 0:
		// The etcd has an authority of its own: users and other listeners have no business there.
		if config.EtcdAuthority, err = credential.NewAuthority(); err != nil {
			return err
		}
		server, err := listen.EtcdCredentials(config.EtcdAuthority)
		if err != nil {
			return err
		}
		if own, err = listen.OwnCredentials(config.EtcdAuthority, o.credentialLife); err != nil {
			return err
		}
		embed := cluster.Embed
		if host, _ := o.host(); o.elsewhere {
			embed = func(ctx context.Context, dir string, log *slog.Logger, own *credential.Credentials) (*cluster.Embedded, error) {
				return cluster.EmbedOn(ctx, host, dir, log, own)
			}
		}
		if l.etcd, err = embed(ctx, filepath.Join(l.runDir, "etcd"), o.log, server); err != nil {
			return err
		}
		config.Etcd = l.etcd.Endpoints()
	default:
		if err = tryEtcd(ctx, o); err != nil {
			return err
		}
		sweeping, stop := context.WithCancel(context.Background())
		l.unsweep = stop
		l.sweeping.Go(func() { removeAbandoned(sweeping, o) })
	}
	config.Registry = func(ctx context.Context, spec *job.RoleSpec) (cluster.Registry, error) {
		side, err := listen.SideOf(o.authority, spec.Job, o.credentialLife)
		if err != nil {
			return nil, err
		}
		return cluster.Open(ctx, cluster.Config{Endpoints: spec.Etcd, Prefix: spec.Prefix, Lease: spec.Spec.Lease.AsDuration(), Access: o.access,
			Own: own, Log: o.log, Answers: side.Answers})
	}
	if config.Launcher == nil {
		config.Launcher = goroutines(config.Registry)
	}
	return nil
}

// tryEtcd fails at once if the user's etcd does not answer or refuses access, so that jobs need not find out later.
func tryEtcd(ctx context.Context, o *listening) error {
	registry, err := cluster.Open(ctx, cluster.Config{Endpoints: o.etcd, Prefix: cluster.Prefix("listener"), Access: o.access, Log: o.log})
	if err != nil {
		return err
	}
	return registry.Close()
}

// removeAbandoned removes from etcd what listeners have left that were killed. Leases that live may be their last ones, so it looks once more.
func removeAbandoned(ctx context.Context, o *listening) {
	for range 2 {
		others, err := sweep(ctx, o)
		if err != nil && ctx.Err() == nil {
			o.log.Warn("keys of jobs whose listeners were killed may stay in etcd", "error", err)
		}
		if err != nil || !others {
			return
		}
		timer := time.NewTimer(lastLeases)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// lastLeases is when the leases of a listener that was killed have ended, unless its jobs have longer ones.
const lastLeases = 3 * cluster.DefaultLease

func sweep(ctx context.Context, o *listening) (others bool, err error) {
	registry, err := cluster.Open(ctx, cluster.Config{Endpoints: o.etcd, Prefix: cluster.Prefix("listener"), Access: o.access, Log: o.log})
	if err != nil {
		return false, err
	}
	removed, others, err := registry.RemoveAbandoned(ctx)
	if len(removed) > 0 {
		o.log.Info("removed from etcd what killed listeners have left", "jobs", removed)
	}
	return others, errors.Join(err, registry.Close())
}

// shareMemory makes roles goroutines of this process.
func shareMemory(config *listen.Config) {
	store := cluster.NewMemory()
	config.Registry = func(_ context.Context, spec *job.RoleSpec) (cluster.Registry, error) { return store.Open(spec.Prefix) }
	config.Launcher = goroutines(config.Registry)
}

// goroutines runs roles in this process, each with a registry of its own.
func goroutines(open func(ctx context.Context, spec *job.RoleSpec) (cluster.Registry, error)) launch.Launcher {
	return launch.Goroutines(func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
		registry, err := open(ctx, spec)
		if err != nil {
			return err
		}
		defer registry.Close()
		return role.Run(ctx, spec, role.Options{Registry: registry, Log: slog.New(slog.NewTextHandler(log, nil)),
			Report: launch.ReportOf(ctx), Renewals: launch.RenewalsOf(ctx)})
	})
}

// orphanTime is how long a role may take to end after its parent is gone.
const orphanTime = time.Second

// RunChild runs a child process: it reads its RoleSpec from stdin and runs the role. When stdin ends, the parent is gone: RunChild ends the role, and
// removes what the embedded cluster has left on disk. The process must end when RunChild returns.
func RunChild(ctx context.Context, stdin io.Reader, log io.Writer) (err error) {
	signal.Ignore(syscall.SIGPIPE) // nobody reads the log of a parent that is gone: the signal would end this process before it has removed anything
	reporter := launch.OpenReporter()
	defer func() { reporter.Close(err) }()
	spec, renewed, lost, err := launch.ChildSpec(stdin)
	if err != nil {
		return err
	}
	text := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if reporter == nil {
		text.Warn("nobody reads the reports of this role: edl why does not know what it waits for")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() {
		ended <- role.Run(ctx, spec, role.Options{Log: text, Report: reporter, Renewals: renewed})
	}()
	select {
	case err := <-ended:
		return err
	case <-lost:
	}
	gone := fault.E(fault.Canceled, fault.At(role.Name(spec)), fault.Got("the end of the process that started this role"))
	cancel(gone)
	timer := time.NewTimer(orphanTime)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	if spec.RunDir != "" {
		return errors.Join(gone, launch.RemoveRunDir(spec.RunDir))
	}
	return gone
}
