package edlcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote"
)

// profileSteps is how many steps of a job on a cluster --profile records, from the first on, where the job file does not say.
const profileSteps = 1000

// profiled makes the runs of a place record what they do: on this machine each op, on a cluster also the phases of each round of each role. The returned
// function writes the record to path; it is to be called when the run has ended, with the error of the run, which it passes on.
func (where *place) profiled(path string) (write func(error) error, err error) {
	if path == "" {
		return func(err error) error { return err }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, "--profile", err)
	}
	if where.remote { // the executor writes it, while the listener is there
		where.trace = f
		return func(err error) error { return errors.Join(err, f.Close()) }, nil
	}
	where.profile = new(executor.Profile)
	return func(err error) error {
		return errors.Join(err, where.profile.WriteTrace(f), f.Close())
	}, nil
}

// traceTime bounds the transfer of the traces of all roles.
const traceTime = time.Minute

// writeTrace writes the trace of a job that has ended, and says on notices, which may be nil, which roles are missing. When the job itself has failed,
// the error of its trace is only a notice.
func writeTrace(ctx context.Context, to, notices io.Writer, client *remote.Client, id string, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceTime)
	defer cancel()
	missing, err := remote.WriteTrace(ctx, to, client, id)
	if notices == nil {
		notices = io.Discard
	}
	for _, text := range missing {
		fmt.Fprintf(notices, "edl: the profile lacks %s\n", text)
	}
	if err != nil && failed != nil {
		fmt.Fprintf(notices, "edl: the profile is not written: %s\n", oneLine(err.Error()))
		return nil
	}
	return err
}

// saveTrace is "edl jobs show --profile". It touches no file if there is no trace.
func saveTrace(ctx context.Context, c *console, client *remote.Client, id, path string) error {
	var trace bytes.Buffer
	if err := writeTrace(ctx, &trace, c.err, client, id, nil); err != nil {
		return err
	}
	return fault.Wrap(fault.InvalidArgument, "--profile", os.WriteFile(path, trace.Bytes(), 0o666))
}
