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

// A traceFile gets the trace of a run on a cluster from the executor, which can ask the listener for it before it ends.
type traceFile struct {
	io.Writer
	written bool  // whole
	err     error // of writing it
}

// profiled makes the runs of a place record what they do: on this machine each op, on a cluster also the phases of each round of each role. The returned
// function writes the record to path; it is to be called when the run has ended, with the error of the run, which it passes on. A record that is not
// whole is removed: the run itself is not worse for it.
func (where *place) profiled(path string) (write func(error) error, err error) {
	if path == "" {
		return func(err error) error { return err }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, "--profile", err)
	}
	where.trace = &traceFile{Writer: f}
	if !where.remote {
		where.profile = new(executor.Profile)
	}
	return func(failed error) error {
		t := where.trace
		if !where.remote {
			t.err, t.written = where.profile.WriteTrace(f), true
		}
		wrong := errors.Join(t.err, f.Close())
		if wrong != nil || !t.written {
			removeFile(path)
		}
		if wrong != nil {
			wrong = fault.E(fault.Unavailable, fault.At("--profile"), fault.Cause(wrong), fault.Hint(where.traceAgain()))
		}
		return errors.Join(failed, wrong)
	}, nil
}

// traceAgain says how a trace is had that could not be written; empty: not at all.
func (where *place) traceAgain() string {
	if !where.remote || where.address == "" {
		return ""
	}
	return "the listener still has the trace: edl jobs show JOB --profile FILE"
}

// removeFile removes a file that is not whole. It leaves devices alone.
func removeFile(path string) {
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		_ = os.Remove(path)
	}
}

// traceTime bounds the transfer of the traces of all roles.
const traceTime = time.Minute

// writeTrace writes the trace of a job that has ended, and says on notices, which may be nil, which roles are missing. It reports whether the trace is
// whole. When the job itself has failed, the error of its trace is only a notice.
func writeTrace(ctx context.Context, to, notices io.Writer, client *remote.Client, id string, failed error) (written bool, err error) {
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
		return false, nil
	}
	return err == nil, err
}

// saveTrace is "edl jobs show --profile". It touches no file if there is no trace.
func saveTrace(ctx context.Context, c *console, client *remote.Client, id, path string) error {
	var trace bytes.Buffer
	if _, err := writeTrace(ctx, &trace, c.err, client, id, nil); err != nil {
		return err
	}
	err := os.WriteFile(path, trace.Bytes(), 0o666)
	if err != nil {
		removeFile(path)
	}
	return fault.Wrap(fault.InvalidArgument, "--profile", err)
}
