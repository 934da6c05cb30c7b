package remote_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/launch"
)

// trainForever is a process that trains on an embedded cluster of processes until it is
// interrupted, with what TestEndOfParent has put into its directory.
func trainForever(ctx context.Context) error {
	dir := os.Getenv(workEnv)
	p, err := program.Load(filepath.Join(dir, "program.pb"), program.DefaultLimits())
	if err != nil {
		return err
	}
	e, err := remote.NewExecutor("", &remote.JobSpec{Trainers: 2, Pservers: 2},
		remote.WithLauncher(launch.Processes{Binary: os.Args[0], Env: []string{behaviourEnv + "=role"}}))
	if err != nil {
		return err
	}
	defer e.Close()
	run := executor.TrainOptions{Data: map[string][]string{testkit.Dataset: {filepath.Join(dir, testkit.Dataset+"-*")}}, Passes: 1 << 20}
	_, err = e.Train(ctx, p, run, func(r executor.StepResult) error {
		if r.Step == 0 {
			fmt.Println("training")
		}
		return nil
	})
	return err
}

// Whatever ends the process that has started a cluster, nothing of the cluster is left: no process, no file.
func TestEndOfParent(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]syscall.Signal{"interrupted": syscall.SIGINT, "terminated": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			work, scratch := t.TempDir(), t.TempDir()
			testkit.Samples(t, work, 64)
			if err := testkit.Reading(t, 8, optimizer.SGD(0.01)).Program.Save(filepath.Join(work, "program.pb")); err != nil {
				t.Fatal(err)
			}
			parent := exec.Command(os.Args[0])
			parent.Env = append(os.Environ(), append(r.env("parent"), workEnv+"="+work, "TMPDIR="+scratch)...)
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			var said string
			if _, err := fmt.Fscanln(out, &said); err != nil || said != "training" {
				t.Errorf("the parent says %q, %v", said, err)
			}
			if err := parent.Process.Signal(s); err != nil {
				t.Error(err)
			}
			_ = parent.Wait()
			if s != syscall.SIGKILL && parent.ProcessState.ExitCode() != 130 {
				t.Errorf("the parent ends with %v", parent.ProcessState)
			}
			r.gone()
			if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
