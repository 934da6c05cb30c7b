package remote

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
)

// Listener is a listener of this process, with everything that its jobs need.
type Listener struct {
	manager *listen.Manager
	address string
	stop    context.CancelFunc
	served  chan error
	etcd    *cluster.Embedded
	nodes   cluster.Registry
	runDir  string
	once    sync.Once
	err     error
}

// stopGrace is how long calls in flight may take when a listener ends.
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
	l := &Listener{served: make(chan error, 1), stop: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	config := listen.Config{Launcher: o.launcher, Host: host, Log: o.log}
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
		config.Launcher = &launch.Nodes{Directory: l.nodes}
	}
	l.manager = listen.NewManager(config)
	port, err := wire.Listen(ctx, o.address)
	if err != nil {
		return nil, err
	}
	l.address = port.Addr().String()
	service := wire.NewServer()
	server := &listen.Server{Manager: l.manager, Version: o.version, Node: o.node}
	if o.node != "" {
		server.Local = hosted{here, host}
	}
	rpc.RegisterListenerServer(service, server)
	serving, stop := context.WithCancel(context.Background())
	l.stop = stop
	go func() { l.served <- wire.Serve(serving, service, port, stopGrace) }()
	if o.node == "" {
		return l, nil
	}
	_, err = l.nodes.RegisterNode(ctx, o.node, l.address)
	return l, err
}

// Address is where the listener listens.
func (l *Listener) Address() string { return l.address }

// Close stops every job, ends the listener, and removes what it has made.
func (l *Listener) Close() error {
	l.once.Do(func() {
		if l.manager != nil {
			l.err = l.manager.Close()
		}
		if l.nodes != nil {
			l.err = errors.Join(l.err, l.nodes.Close())
		}
		l.stop()
		if l.address != "" {
			l.err = errors.Join(l.err, <-l.served)
		}
		if l.etcd != nil {
			l.err = errors.Join(l.err, l.etcd.Close())
		}
		if l.runDir != "" {
			l.err = errors.Join(l.err, launch.RemoveRunDir(l.runDir))
		}
	})
	return l.err
}
