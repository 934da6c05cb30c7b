package main

import (
	"github.com/spf13/cobra"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
)

// runOnce feeds, runs one step and prints what was fetched.
func runOnce(cmd *cobra.Command, c *console, f *runFlags, spec *job.JobSpec, p *program.Program) (err error) {
	ctx, flags := cmd.Context(), cmd.Flags()
	if err := refuseIdle(flags, readingFlags, "a program that is run once", "one that reads its own data, and no --feed"); err != nil {
		return err
	}
	fetch := spec.Fetch
	if len(fetch) == 0 {
		fetch = p.Targets()
	}
	if len(fetch) == 0 {
		return fault.E(fault.InvalidArgument, fault.Got("nothing to compute: the program has no fetch op"), fault.Want("--fetch NAME"))
	}
	where := f.where
	where.remote = where.remote && trains(p) // what trains nothing has nothing to spread
	if !where.remote {
		ofCluster := append(append([]string{"etcd"}, accessFlags...), clusterFlags...)
		if err := refuseIdle(flags, ofCluster, "a program that trains nothing, which no cluster runs", "one that trains"); err != nil {
			return err
		}
		if spec.Save != "" {
			return fault.E(fault.InvalidArgument, fault.At("--save"), fault.Got("a program that runs once and changes nothing"),
				fault.Want("one that trains on its own data"))
		}
		if p, err = p.CloneForTest().Prune(fetch...); err != nil {
			return err
		}
	}
	feed, err := readFeeds(p, f.feed)
	if err != nil {
		return err
	}
	if err := checkFeeds(p, feed); err != nil {
		return err
	}
	e, err := openExecutor(where, spec)
	if err != nil {
		return err
	}
	defer closeExecutor(e, &err)
	if local, ok := e.(*executor.Local); ok && spec.Params != "" {
		if err := executor.LoadParams(local.Scope(), spec.Params, p); err != nil {
			return err
		}
	}
	values, err := e.Run(ctx, p, feed, fetch...)
	if err != nil {
		return err
	}
	r := newReporter(c, f.output.value, watch{every: f.every}, nil)
	defer r.close()
	for i, value := range values {
		if err := r.value(fetch[i], value); err != nil {
			return err
		}
	}
	return nil
}
