package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/role"
)

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
	gone := fmt.Errorf("%s: %w", role.Name(spec), role.ErrOrphan)
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
