package remote

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/role"
)

// orphanTime is how long a role may take to end after its parent is gone.
const orphanTime = time.Second

// RunChild is the life of a child process: it reads its RoleSpec from stdin and runs the role. When stdin ends, the parent is gone: the
// role is told to end, and what the embedded cluster has left on disk is removed. The process must end when RunChild returns.
func RunChild(ctx context.Context, stdin io.Reader, log io.Writer) (err error) {
	spec, lost, err := launch.ChildSpec(stdin)
	if err != nil {
		return err
	}
	defer func() { launch.ReportFailure(log, err) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() {
		ended <- role.Run(ctx, spec, role.Options{Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))})
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
