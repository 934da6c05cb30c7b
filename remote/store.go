package remote

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/role"
)

// openNodes opens the directory of the cluster's nodes.
func openNodes(ctx context.Context, o *listening) (cluster.Registry, error) {
	if len(o.etcd) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.At("listen"), fault.Got("nodes without a cluster"),
			fault.Want("the endpoints of its etcd"))
	}
	return cluster.Open(ctx, cluster.Config{Endpoints: o.etcd, Prefix: cluster.Prefix("listener"), Access: o.access, Log: o.log})
}

// hosted starts roles that others send here: their servers listen on this node's host, and its scratch space is its own.
type hosted struct {
	launch.Launcher
	host string
}

func (h hosted) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (launch.Handle, error) {
	spec = proto.Clone(spec).(*job.RoleSpec)
	spec.Advertise, spec.RunDir = h.host, ""
	return h.Launcher.Start(ctx, spec, log)
}

// findEtcd makes the store that processes share, in a run directory that the last of them removes, unless the user has one.
func (l *Listener) findEtcd(ctx context.Context, config *listen.Config, o *listening) (err error) {
	if l.runDir, err = launch.MakeRunDir(""); err != nil {
		return err
	}
	config.RunDir, config.Etcd = l.runDir, o.etcd
	if len(o.etcd) == 0 {
		if l.etcd, err = cluster.Embed(ctx, filepath.Join(l.runDir, "etcd"), o.log); err != nil {
			return err
		}
		config.Etcd = l.etcd.Endpoints()
	} else if err = tryEtcd(ctx, o); err != nil {
		return err
	}
	config.Registry = func(ctx context.Context, spec *job.RoleSpec) (cluster.Registry, error) {
		return cluster.Open(ctx, cluster.Config{Endpoints: spec.Etcd, Prefix: spec.Prefix, Lease: spec.Spec.Lease.AsDuration(), Access: o.access,
			Log: o.log})
	}
	if config.Launcher == nil {
		config.Launcher = goroutines(config.Registry)
	}
	return nil
}

// tryEtcd finds out at once what jobs would find out later: that the user's etcd does not answer, or does not let us in.
func tryEtcd(ctx context.Context, o *listening) error {
	registry, err := cluster.Open(ctx, cluster.Config{Endpoints: o.etcd, Prefix: cluster.Prefix("listener"), Access: o.access, Log: o.log})
	if err != nil {
		return err
	}
	return registry.Close()
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
		return role.Run(ctx, spec, role.Options{Registry: registry, Log: slog.New(slog.NewTextHandler(log, nil))})
	})
}
