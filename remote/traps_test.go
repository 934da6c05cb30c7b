package remote_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/wire"
)

// Trap 1: trainers that get different numbers of rows, or of tasks, finish without a hang
// and without losing a gradient, and servers end by themselves.
func TestUnequalData(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		records, batch int
		spec           *remote.JobSpec
	}{
		"a rest":               {35, 16, &remote.JobSpec{Trainers: 3, Pservers: 2, MinBlockSize: 4}},
		"fewer than trainers":  {6, 3, &remote.JobSpec{Trainers: 4, Pservers: 2, MinBlockSize: 4}},
		"one record":           {1, 8, &remote.JobSpec{Trainers: 3, Pservers: 2}},
		"async":                {35, 4, &remote.JobSpec{Trainers: 3, Pservers: 2, Mode: job.Mode_ASYNC, RecordsPerTask: 20}},
		"async without a task": {5, 2, &remote.JobSpec{Trainers: 3, Pservers: 1, Mode: job.Mode_ASYNC, RecordsPerTask: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := testkit.Reading(t, c.batch, optimizer.Adam(0.01))
			run := executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), c.records), Passes: 2, Save: t.TempDir()}
			r := newRig(t)
			summary, status := trainOn(t, executorOf(t, r.listener(), c.spec), m, run, nil)
			if summary.Records != int64(2*c.records) || status.Refused != 0 {
				t.Errorf("%d records trained, want %d; %d messages refused", summary.Records, 2*c.records, status.Refused)
			}
			if c.spec.Mode == job.Mode_SYNC {
				mustEqualReference(t, m, c.spec.Trainers, run)
			}
		})
	}
}

// Trap 2: a role that is started when all others already wait for it changes nothing.
func TestLateStarters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		late   []string
		others []string // wait before any late one starts
	}{
		"pservers":    {[]string{"pserver-0", "pserver-1"}, []string{"coordinator", "trainer-0", "trainer-1"}},
		"a trainer":   {[]string{"trainer-1"}, []string{"coordinator", "pserver-0", "pserver-1", "trainer-0"}},
		"coordinator": {[]string{"coordinator"}, []string{"pserver-0", "pserver-1", "trainer-0", "trainer-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := testkit.Reading(t, 8, optimizer.Momentum(0.05, 0.9))
			run := executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), 30), Save: t.TempDir()}
			r := newRig(t)
			r.hold(c.late...)
			e := executorOf(t, r.listener(), &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4})
			trainOn(t, e, m, run, func(id string) {
				for _, role := range c.others {
					logged(t, e, id, role, "role starts")
				}
				if name == "a trainer" {
					waitsForTrainers(t, r, id)
				}
				for _, role := range c.late {
					r.release(role)
				}
			})
			mustEqualReference(t, m, 2, run)
		})
	}
}

// Whoever is lost is started again, and the job computes what it would have computed.
func TestDeathsAreMended(t *testing.T) {
	t.Parallel()
	for name, strike := range deaths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := submit(t, shortLived())
			member := strike(s)
			for who, starts := range s.mustEqualUndisturbed() {
				want := int32(1)
				if who == member || strings.HasPrefix(member, "pserver") { // which begins the job anew
					want = 2
				}
				if starts != want {
					t.Errorf("%s was started %d times, want %d", who, starts, want)
				}
			}
			s.gone()
		})
	}
}

// The end of a process is known before its lease ends: a member that is killed in the
// middle of a round is out of the membership, and back, within it.
func TestDeathsAreKnownBeforeTheLeaseEnds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"trainer while sending", "coordinator"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := shortLived()
			spec.Lease = durationpb.New(time.Hour) // far beyond the patience of the test
			s := submit(t, spec)
			deaths[name](s)
			s.mustEqualUndisturbed()
			s.gone()
		})
	}
}

// A job that allows no restarts ends at once, and names who was lost.
func TestDeathsWithoutRestarts(t *testing.T) {
	t.Parallel()
	for name, strike := range deaths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := shortLived()
			spec.MaxRestarts = -1
			inShort(t, name, "pserver", "stopped coordinator")
			s := submit(t, spec)
			s.mustMiss(strike(s))
		})
	}
}

// In async mode a trainer that is lost leaves its tasks to the others: the job ends, and no more than its last push is counted twice.
func TestTrainerKilledInAsync(t *testing.T) {
	for _, push := range []int32{1, 3} {
		t.Run(fmt.Sprintf("push every %d", push), func(t *testing.T) { killedInAsync(t, push) })
	}
}

func killedInAsync(t *testing.T, push int32) {
	t.Parallel()
	spec := shortLived()
	spec.Mode, spec.PushEvery, spec.PullEvery = job.Mode_ASYNC, push, push
	s := submit(t, spec)
	deaths["trainer while sending"](s)
	s.flow()
	if _, err := s.follow(); err != nil {
		t.Fatal(err)
	}
	d, err := s.client.Show(bounded(t), s.id)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Ledger.GetPasses()) != struckPasses {
		t.Errorf("the ledger is %v", d.Ledger)
	}
	for _, p := range d.Ledger.GetPasses() {
		if p.Records != struckRecords || p.Again > 8*int64(push) {
			t.Errorf("the ledger of pass %d: %d records, %d again", p.Pass, p.Records, p.Again)
		}
	}
}

// A role that never comes is named when the start deadline has passed.
func TestMissingRole(t *testing.T) {
	t.Parallel()
	for role, member := range map[string]string{"trainer-1": "trainer 1", "pserver-1": "pserver 1"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.hold(role)
			spec := shortLived()
			spec.StartDeadline = durationpb.New(4 * time.Second) // long enough for the others to start on a busy machine
			e := executorOf(t, r.listener(), spec)
			_, err := e.Train(bounded(t), pausing(t).Program, executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), 8)}, nil)
			if err == nil || !strings.Contains(err.Error(), member) {
				t.Errorf("the job ends with %v, want one that names %s", err, member)
			}
			r.gone()
		})
	}
}

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

// A child whose parent is gone removes the run directory although nobody reads its log any more.
func TestChildWithoutReader(t *testing.T) {
	t.Parallel()
	scratch := t.TempDir()
	dir, err := launch.MakeRunDir(scratch)
	if err != nil {
		t.Fatal(err)
	}
	spec := &remote.JobSpec{Trainers: 1, Pservers: 1}
	jobspec.Complete(spec)
	b, err := proto.Marshal(&job.RoleSpec{Job: "digits", Role: job.Role_COORDINATOR, Spec: spec, Protocol: wire.Protocol, Registry: ops.Fingerprint(),
		Etcd: []string{"127.0.0.1:1"}, Prefix: cluster.Prefix("digits"), RunDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	closed, log, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	closed.Close()
	child := exec.CommandContext(bounded(t), os.Args[0])
	child.Env = append(os.Environ(), behaviourEnv+"=role")
	child.Stdin, child.Stderr = bytes.NewReader(append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)), log
	err = child.Run()
	if left, wrong := os.ReadDir(scratch); wrong != nil || len(left) > 0 {
		t.Errorf("the child ends with %v, and leaves %v, %v", err, left, wrong)
	}
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
