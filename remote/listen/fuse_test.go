package listen_test

import (
	"context"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
)

// A fuse is told of the points of a job's life, and burns out at one of them.
type fuse struct {
	left atomic.Int64
	burn func()
	wait int  // how often others may run before the point is passed
	hold bool // the point is passed when the job is over
}

func (f *fuse) point(ctx context.Context) {
	if f.left.Add(-1) != 0 {
		return
	}
	f.burn()
	for range f.wait {
		runtime.Gosched()
	}
	if f.hold {
		<-ctx.Done()
	}
}

// fused is a registry whose calls are points.
type fused struct {
	cluster.Registry
	*fuse
}

func (f fused) Live(ctx context.Context) (map[cluster.Member]uint64, error) {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.Live(ctx)
}

func (f fused) Forget(ctx context.Context) error {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.Forget(ctx)
}

func (f fused) SetTrainers(ctx context.Context, n int) error {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.SetTrainers(ctx, n)
}

func (f fused) WatchTrainers(ctx context.Context) (<-chan int, error) {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.WatchTrainers(ctx)
}

func (f fused) Lost(ctx context.Context) (<-chan cluster.Member, error) {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.Lost(ctx)
}

func (f fused) Bury(ctx context.Context, m cluster.Member, incarnation uint64) error {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.Bury(ctx, m, incarnation)
}

func (f fused) Follow(ctx context.Context, m cluster.Member) (<-chan string, error) {
	f.point(ctx)
	defer f.point(ctx)
	return f.Registry.Follow(ctx, m)
}

// fusedLauncher is a launcher whose starts are points.
type fusedLauncher struct {
	launch.Launcher
	*fuse
}

func (f fusedLauncher) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (launch.Handle, error) {
	over, cancel := context.WithCancel(ctx)
	cancel() // a start has no end but its own
	f.point(over)
	defer f.point(over)
	return f.Launcher.Start(ctx, spec, log)
}
