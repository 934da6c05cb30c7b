package edlcmd

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/listen"
)

// dryRun prints the objects that a listener of these flags would make for the roles of a job file. It calls neither the cluster nor etcd.
func (f *listenFlags) dryRun(ctx context.Context, c *console) error {
	namespace := f.cluster.namespace
	if namespace == "" {
		var err error
		if _, namespace, err = f.cluster.reach(); err != nil {
			return err
		}
	}
	s, err := f.cluster.settings(f, namespace)
	if err != nil {
		return err
	}
	file, err := jobspec.Load(f.cluster.dry)
	if err != nil {
		return err
	}
	if file.Program == "" {
		return fault.E(fault.InvalidArgument, fault.At(f.cluster.dry), fault.Got("no program"), fault.Want("one in the job file"))
	}
	p, _, err := loadWhole(file.Program)
	if err != nil {
		return err
	}
	if file.Spec.Program, err = p.Encode(); err != nil {
		return err
	}
	specs, err := listen.DryRun(ctx, listen.Config{Etcd: f.endpoints, ClearData: f.insecure, TraceRounds: uint64(f.traces.every)}, file.Spec)
	if err != nil {
		return err
	}
	b, err := kubernetes.Manifests(s, specs, len(f.endpoints) > 0)
	if err == nil {
		_, err = c.out.Write(b)
	}
	return err
}
