package remote

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/listen/schedule"
	"github.com/edl-go/edl/remote/wire"
)

// Listener is a listener of this process, with everything that its jobs need.
type Listener struct {
	manager  *listen.Manager
	address  string
	stop     context.CancelFunc
	served   chan error
	etcd     *cluster.Embedded
	keeper   *keeperLink    // has the processes of jobs, and their etcd; nil: this process has them
	binary   *launch.Binary // from which the processes of new jobs start there; nil: from that of the keeper
	keeps    bool           // jobs can go on without this listener
	node     bool           // roles of other listeners are here
	hosts    *launch.Keeper // has them, where this listener has no keeper; nil: it has, or is no node
	hands    bool           // they do, for the next one
	broken   chan struct{}  // of Broken
	cause    error          // valid when broken is closed
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
	config, err := l.configure(ctx, &o, host)
	if err != nil {
		return nil, err
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
	here := hosted{config.Launcher, host, o.etcd, config.Allowed, o.insecure, o.cores > 0, o.memory > 0}
	if l.keeper != nil { // a role that ends with its listener is none of the keeper
		here.Launcher = o.launcher
	}
	if o.spread {
		if err = l.spread(&config, toOthers); err != nil {
			return nil, err
		}
	}
	l.keeps, l.node = config.Kept != nil, o.node != ""
	config.Spread = config.Spread || o.room != nil
	port, err := wire.Listen(ctx, o.address)
	if err != nil {
		return nil, err
	}
	l.manager = listen.NewManager(config)
	begin := beginning{begun: make(chan struct{})}
	serving := l.serve(&o, port, asking, here, begin)
	var nodes *watchedNodes
	if o.spread {
		nodes = newWatchedNodes(l, toOthers, o.log)
		nodes.look(ctx) // jobs that are taken over have cores there
	}
	if err = listen.TakeOver(ctx, l.manager); err == nil {
		err = listen.Recall(l.manager)
	}
	if err != nil {
		return nil, err
	}
	close(begin.begun)
	l.look(serving, &o, nodes)
	if o.node == "" {
		return l, nil
	}
	return l, l.register(ctx, o.node)
}

// configure opens the data folder, finds the keeper that has the roles, and says what jobs may read and write.
func (l *Listener) configure(ctx context.Context, o *listening, host string) (config listen.Config, err error) {
	allowed, err := o.allowed()
	if err != nil {
		return config, err
	}
	if o.waits && o.dataDir == "" {
		return config, fault.E(fault.InvalidArgument, fault.Got("a listener that waits, without a data folder"), fault.Want("the folder of the listener that it waits for"))
	}
	config = listen.Config{MaxRoles: o.maxRoles, Launcher: o.launcher, Host: host, ClearData: o.insecure, StateDir: o.stateDir, Log: o.log, Authority: o.authority,
		Tokens: o.tokens, Issuer: o.issuer, CredentialLife: o.credentialLife, MaxJobs: o.maxJobs, MaxJobBytes: o.maxJobBytes, MaxTime: o.maxTime, MaxDisk: o.maxDisk, TraceRounds: o.traceRounds, Cores: o.cores, Memory: o.memory}
	if o.dataDir != "" {
		if l.data, err = openData(ctx, o); err != nil {
			return config, err
		}
		config.Data = l.data
		if o.elsewhere && o.stateDir == "" {
			if config.StateDir, err = l.data.States(); err != nil {
				return config, err
			}
		}
		allowed.Guarded = append(allowed.Guarded, l.data.Dir()) // also against roles of other listeners
	}
	config.Allowed = allowed
	switch {
	case o.keeping != nil && o.dataDir != "" && len(o.etcd) > 0:
		config.Launcher, config.Kept = o.keeping.Launcher, o.keeping
	case o.keeping != nil:
		return config, fault.E(fault.InvalidArgument, fault.Got("roles that outlive the listener"), fault.Want("a data folder and an etcd that outlive it, too"))
	case len(o.keeper) > 0 && o.dataDir != "" && keepers && (!o.spread || o.node != ""):
		if l.keeper, err = findKeeper(ctx, l.data.Dir(), o.keeper, o.access.Environment()); err != nil {
			return config, err
		}
		if p, ok := o.launcher.(launch.Processes); ok {
			l.binary = p.Opened
		}
		kept := launch.Kept{Keeper: l.keeper.client, Binary: l.binary}
		config.Launcher, config.Kept = kept, &listen.Keeping{Launcher: kept, Keeper: l.keeper.about.Id}
	}
	return config, nil
}

// serve answers calls at a port, until stop is called. Those that ask for jobs wait for begin. here starts the roles that others send to a node. The context ends with stop.
func (l *Listener) serve(o *listening, port net.Listener, asking *wire.Side, here hosted, begin beginning) context.Context {
	l.address = port.Addr().String()
	server := &listen.Server{Manager: l.manager, Version: o.version, Node: o.node}
	around := append(wire.Around(l.manager.Around), wire.Around(begin.around)...)
	if o.issuer != nil {
		around = append(around, wire.Bearers(asking, listen.Bearer(l.manager))...)
	}
	service := wire.NewServer(asking, around...)
	if o.node != "" {
		server.Local = here
		rpc.RegisterKeeperServer(service, l.keeperFor(here))
	}
	rpc.RegisterListenerServer(service, server)
	serving, stop := context.WithCancel(context.Background())
	l.stop = stop
	go func() { l.served <- wire.Serve(serving, service, port, stopGrace) }()
	return serving
}

// look notices what becomes of the machines of the cluster, and of what jobs need of this one, until ctx ends. nodes is nil unless roles run there.
func (l *Listener) look(ctx context.Context, o *listening, nodes *watchedNodes) {
	go l.watchBreak(ctx)
	if nodes != nil {
		l.looking.Go(func() { nodes.watch(ctx) })
	}
	if o.room != nil {
		l.looking.Go(func() {
			o.room(ctx, func(list []schedule.Node) error { return listen.SetNodes(l.manager, list) })
		})
	}
}

// Address is where the listener listens.
func (l *Listener) Address() string { return l.address }

// Audit notes in the audit log of a listener with a data folder what a server beside it was asked for, such as that of its pages: who, what, and the error of a refusal. The name of an
// unknown caller has no kind.
func (l *Listener) Audit(by credential.Name, what string, err error) {
	listen.Note(l.manager, by, what, err)
}

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

// HandOver ends the listener, and leaves its jobs to the next one with the same data folder: their roles go on, and so do those of other listeners on this node. Without WithKeeper,
// WithKeeping or WithNodes it is Close, and so it is without jobs, unless it is a node.
func (l *Listener) HandOver() error {
	l.hands = l.keeps && (l.manager == nil || listen.Busy(l.manager) || l.node && l.keeper != nil) // what it has not taken over is the next one's
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
		if l.hosts != nil {
			l.hosts.End(fault.E(fault.Canceled, fault.At("keeper"), fault.Got("the end of the listener of the node")))
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

// openNodes opens the directory of the cluster's nodes.
func openNodes(ctx context.Context, o *listening) (cluster.Registry, error) {
	if len(o.etcd) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At("listen"), fault.Got("nodes without a cluster"),
			fault.Want("the endpoints of its etcd"))
	}
	return cluster.Open(ctx, cluster.Config{Endpoints: o.etcd, Prefix: cluster.Prefix("listener"), Access: o.access, Log: o.log})
}

// hosted starts roles that other listeners send: their servers listen on the host of this node, and they have no scratch directory of the sender.
// A node that says what jobs may read and write says so for them, too. They find each other in the etcd of the node, below the prefix of their job, whatever the sender names: they show
// it the password of this node.
type hosted struct {
	launch.Launcher
	host     string
	etcd     []string
	allowed  listen.Allowed
	insecure bool
	cores    bool // are counted here, so that roles keep to what they were admitted with
	memory   bool // likewise
}

func (h hosted) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (launch.Handle, error) {
	spec, err := h.change(spec)
	if err != nil {
		return nil, err
	}
	return h.Launcher.Start(ctx, spec, log)
}

// change makes of a role that another listener sends one of this node.
func (h hosted) change(spec *job.RoleSpec) (*job.RoleSpec, error) {
	if spec.ClearData && !h.insecure {
		return nil, fault.E(fault.Denied, fault.Got("a role whose tensors travel in clear text, for a listener with --insecure"), fault.Want("one over TLS"),
			fault.Hint("start the listeners of all nodes with --insecure, or none"))
	}
	spec = proto.Clone(spec).(*job.RoleSpec)
	spec.Advertise, spec.RunDir, spec.Bounds = h.host, "", jobspec.Bounds(spec, h.cores, h.memory)
	spec.Etcd, spec.Prefix = h.etcd, cluster.Prefix(spec.Job)
	p := jobspec.PolicyOf(spec.Policy)
	if bounds := h.allowed.Bounds(jobspec.NamespaceOf(spec.Job)); bounds != nil {
		bounds.Own, bounds.Guarded = spec.Policy.GetOwn(), spec.Policy.GetGuarded()
		p = bounds
	}
	spec.Policy = jobspec.PolicyMessage(p.Guard(h.allowed.Guarded...))
	return spec, nil
}
