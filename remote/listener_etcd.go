package remote

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
)

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
		if l.data != nil {
			if err = replaceRunDir(l.data.Dir(), l.runDir); err != nil {
				return err
			}
		}
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
	open := func(ctx context.Context, spec *job.RoleSpec, roles string) (cluster.Registry, error) {
		side, err := listen.SideOf(o.authority, spec.Job, o.credentialLife)
		if err != nil {
			return nil, err
		}
		return cluster.Open(ctx, cluster.Config{Endpoints: spec.Etcd, Prefix: spec.Prefix, Lease: spec.Spec.Lease.AsDuration(), Access: o.access,
			Own: own, Roles: roles, Log: o.log, Answers: side.Answers})
	}
	config.Registry = func(ctx context.Context, spec *job.RoleSpec) (cluster.Registry, error) {
		roles := ""
		if own != nil { // the user of an etcd has made its users
			roles = credential.Name{Kind: credential.Role, Job: spec.Job}.EtcdUser()
		}
		return open(ctx, spec, roles)
	}
	if config.Launcher == nil {
		config.Launcher = goroutines(func(ctx context.Context, spec *job.RoleSpec) (cluster.Registry, error) { return open(ctx, spec, "") })
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

// runDirFile is the file of the data folder with the path of the run directory of a listener that has no keeper.
const runDirFile = "rundir"

// replaceRunDir notes a run directory in the data folder, and removes that of an earlier listener which was killed.
func replaceRunDir(dataDir, runDir string) error {
	known := filepath.Join(dataDir, runDirFile)
	earlier, err := os.ReadFile(known)
	if err == nil {
		err = launch.RemoveRunDir(string(earlier))
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, replaceFile(known, []byte(runDir)))
}
