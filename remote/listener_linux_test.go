package remote_test

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote"
)

func init() { behaviours["full disk"] = trainOnFullDisk }

// trainOnFullDisk trains a job whose embedded etcd cannot write any more after the first step, and brings the listener another job then.
func trainOnFullDisk(ctx context.Context) error {
	dir := os.Getenv(workEnv)
	p, err := program.Load(filepath.Join(dir, "program.pb"), program.DefaultLimits())
	if err != nil {
		return err
	}
	l, err := remote.Listen(ctx, remote.WithLauncher(nil))
	if err != nil {
		return err
	}
	run := executor.TrainOptions{Data: map[string][]string{testkit.Dataset: {filepath.Join(dir, testkit.Dataset+"-*")}}, Passes: 1 << 20}
	train := func(each func(executor.StepResult) error) error {
		e, err := remote.NewExecutor(l.Address(), &remote.JobSpec{Trainers: 2, Pservers: 1})
		if err != nil {
			return err
		}
		defer e.Close()
		_, err = e.Train(ctx, p, run, each)
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	first := train(func(executor.StepResult) error {
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 64, Max: 64})
	})
	select {
	case <-l.Broken():
	case <-ctx.Done():
	}
	wrong := fault.List{}
	for name, err := range map[string]error{"the job": first, "the next job": train(nil), "the listener": l.Cause(), "its end": l.Close()} {
		wrong.Add(fault.E(fault.Unavailable, fault.At(name), fault.Cause(err)))
	}
	return wrong.Err()
}

// When the disk of the embedded etcd is full, jobs fail at once and say so, and the listener takes no more.
func TestListenerWithoutItsEtcd(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	testkit.Samples(t, work, 64)
	if err := testkit.Reading(t, 8, optimizer.SGD(0.01)).Program.Save(filepath.Join(work, "program.pb")); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(bounded(t), os.Args[0])
	child.Env = append(os.Environ(), behaviourEnv+"=full disk", workEnv+"="+work, "TMPDIR="+t.TempDir())
	out, err := child.CombinedOutput()
	if err == nil {
		t.Fatal("it trains on")
	}
	for _, who := range []string{"the job", "the next job", "the listener"} {
		_, says, _ := strings.Cut(string(out), "\n  "+who+": ")
		if says, _, _ = strings.Cut(says, "\n"); !strings.Contains(says, "file too large; raise the limit") {
			t.Errorf("%s ends with %q", who, says)
		}
	}
	if !strings.Contains(string(out), "its end: unavailable\n") {
		t.Errorf("the listener does not end well: %s", out)
	}
}
