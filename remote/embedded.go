package remote

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/remote/wire"
)

// An Option changes how an embedded cluster is started.
type Option func(*embedding)

type embedding struct {
	launcher launch.Launcher
	log      *slog.Logger
	host     string
	etcd     bool
}

// WithLauncher starts the roles as launcher does, with an etcd server inside of this process for them to find each other. The default is
// goroutines, which share a store in memory.
func WithLauncher(l launch.Launcher) Option {
	return func(e *embedding) { e.launcher, e.etcd = l, true }
}

// WithLogger reports what the embedded listener does. The default is silence.
func WithLogger(log *slog.Logger) Option { return func(e *embedding) { e.log = log } }

// Embedded is a listener of this process, with everything that its jobs need. It listens on loopback only.
type Embedded struct {
	manager *listen.Manager
	address string
	stop    context.CancelFunc
	served  chan error
	etcd    *cluster.Embedded
	runDir  string
	once    sync.Once
	err     error
}

// stopGrace is how long calls in flight may take when an embedded listener ends.
const stopGrace = 2 * time.Second

// StartEmbedded starts a listener on a free port of the loopback interface.
func StartEmbedded(ctx context.Context, options ...Option) (e *Embedded, err error) {
	o := embedding{log: slog.New(slog.DiscardHandler), host: "127.0.0.1"}
	for _, option := range options {
		option(&o)
	}
	e = &Embedded{served: make(chan error, 1), stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	config := listen.Config{Launcher: o.launcher, Host: o.host, Log: o.log}
	if o.etcd {
		err = e.startEtcd(ctx, &config, o.log)
	} else {
		shareMemory(&config)
	}
	if err != nil {
		return e, err
	}
	e.manager = listen.NewManager(config)
	l, err := wire.Listen(ctx, o.host+":0")
	if err != nil {
		return e, err
	}
	e.address = l.Addr().String()
	service := wire.NewServer()
	rpc.RegisterListenerServer(service, &listen.Server{Manager: e.manager, Version: "embedded"})
	serving, stop := context.WithCancel(context.Background())
	e.stop = stop
	go func() { e.served <- wire.Serve(serving, service, l, stopGrace) }()
	return e, nil
}

// startEtcd makes the store that processes share, in a run directory that the last of them removes.
func (e *Embedded) startEtcd(ctx context.Context, config *listen.Config, log *slog.Logger) (err error) {
	if e.runDir, err = launch.MakeRunDir(""); err != nil {
		return err
	}
	if e.etcd, err = cluster.Embed(ctx, filepath.Join(e.runDir, "etcd"), log); err != nil {
		return err
	}
	config.RunDir, config.Etcd = e.runDir, e.etcd.Endpoints()
	config.Registry = func(ctx context.Context, spec *job.RoleSpec) (cluster.Registry, error) {
		return cluster.Open(ctx, cluster.Config{Endpoints: spec.Etcd, Prefix: spec.Prefix, Lease: spec.Spec.Lease.AsDuration(), Log: log})
	}
	return nil
}

// shareMemory makes roles goroutines of this process.
func shareMemory(config *listen.Config) {
	store := cluster.NewMemory()
	config.Registry = func(_ context.Context, spec *job.RoleSpec) (cluster.Registry, error) { return store.Open(spec.Prefix) }
	if config.Launcher == nil {
		config.Launcher = launch.Goroutines(func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error {
			registry, err := store.Open(spec.Prefix)
			if err != nil {
				return err
			}
			defer registry.Close()
			return role.Run(ctx, spec, role.Options{Registry: registry, Log: slog.New(slog.NewTextHandler(log, nil))})
		})
	}
}

// Address is where the listener listens.
func (e *Embedded) Address() string { return e.address }

// Close stops every job, ends the listener, and removes what it has made.
func (e *Embedded) Close() error {
	e.once.Do(func() {
		if e.manager != nil {
			e.err = e.manager.Close()
		}
		e.stop()
		if e.address != "" {
			e.err = errors.Join(e.err, <-e.served)
		}
		if e.etcd != nil {
			e.err = errors.Join(e.err, e.etcd.Close())
		}
		if e.runDir != "" {
			e.err = errors.Join(e.err, launch.RemoveRunDir(e.runDir))
		}
	})
	return e.err
}
