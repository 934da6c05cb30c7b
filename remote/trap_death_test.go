package remote_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/wire"
)

// pausing is a model whose trainers stop in every backward pass: the gradients of the last layer have been sent, those of the first have not.
func pausing(t testing.TB) testkit.Model {
	t.Helper()
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(testkit.Width)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.Batch(r, 8))
	hidden := pauses(layers.FC(v[0], 10, layers.Act("tanh")))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(hidden, 1), v[1]))
	optimizer.Momentum(0.1, 0.9).Minimize(loss)
	return testkit.Built(t, m, loss)
}

// A doomed job runs on processes, two trainers and two pservers, one of which will be lost.
type doomed struct {
	*rig
	id     string
	follow func() error
}

// submit starts a job that would train for a long time.
func submit(t *testing.T, spec *remote.JobSpec) *doomed {
	t.Helper()
	r := newRig(t)
	e := executorOf(t, r.listener(), spec)
	data := testkit.Samples(t, t.TempDir(), 64)
	j, err := e.Submit(bounded(t), pausing(t).Program, executor.TrainOptions{Data: data, Passes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	ctx := bounded(t)
	return &doomed{rig: r, id: j.ID, follow: func() error {
		_, err := j.Follow(ctx, nil)
		return err
	}}
}

// shortLived is a job in which members are missed soon.
func shortLived() *remote.JobSpec {
	return &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4, Lease: durationpb.New(3 * time.Second), RoundDeadline: durationpb.New(20 * time.Second)}
}

// mustMiss follows the job to its end and checks that it names who was lost, and that no process is left.
func (d *doomed) mustMiss(member string) {
	d.t.Helper()
	err := d.follow()
	if !errors.Is(err, fault.LostMember) || !strings.Contains(err.Error(), member) {
		d.t.Errorf("the job ends with %v, want the loss of %s", err, member)
	}
	d.gone()
}

// server connects to a pserver of the job.
func (d *doomed) server(index int) rpc.ParameterServerClient {
	return serverOf(d.t, d.etcd, d.id, index)
}

// serverOf finds a pserver of a job through the registry and connects to it.
func serverOf(t testing.TB, etcd []string, id string, index int) rpc.ParameterServerClient {
	t.Helper()
	registry, err := cluster.Open(bounded(t), cluster.Config{Endpoints: etcd, Prefix: cluster.Prefix(id)})
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	address, err := registry.Server(bounded(t), index)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return rpc.NewParameterServerClient(conn)
}

// waitsFor asks a pserver until it says that it waits for what contains text.
func waitsFor(t testing.TB, server rpc.ParameterServerClient, id, text string) {
	t.Helper()
	ctx := bounded(t)
	for {
		status, err := server.Status(ctx, &rpc.StatusRequest{Job: id})
		if err != nil {
			t.Fatalf("waiting for %q: %v", text, err)
		}
		if strings.Contains(strings.Join(status.Waiting, "\n"), text) {
			return
		}
	}
}

// Trap 3: a trainer is killed when it has sent a part of its gradients.
func TestTrainerKilledWhileSending(t *testing.T) {
	t.Parallel()
	for _, mode := range []job.Mode{job.Mode_SYNC, job.Mode_ASYNC} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			spec := shortLived()
			spec.Mode = mode
			d := submit(t, spec)
			d.resume("trainer-0", d.waitPaused("trainer-0"))
			d.waitPaused("trainer-1")
			d.signal("trainer-1", syscall.SIGKILL)
			d.mustMiss("trainer 1")
		})
	}
}

// Trap 3: a trainer is killed when it has declared its contribution and waits for new parameters.
func TestTrainerKilledWhileReceiving(t *testing.T) {
	t.Parallel()
	d := submit(t, shortLived())
	d.resume("trainer-0", d.waitPaused("trainer-0"))
	d.waitPaused("trainer-1")
	waitsFor(t, d.server(0), d.id, "trainer 1")
	d.signal("trainer-0", syscall.SIGKILL)
	d.mustMiss("trainer 0")
}

// Trap 4, as far as nothing restarts servers: a pserver is killed in the middle of a round.
func TestPServerKilled(t *testing.T) {
	t.Parallel()
	d := submit(t, shortLived())
	d.waitPaused("trainer-0")
	d.resume("trainer-1", d.waitPaused("trainer-1"))
	d.signal("pserver-0", syscall.SIGKILL)
	d.mustMiss("pserver 0")
}

// Nobody hands out data any more.
func TestCoordinatorKilled(t *testing.T) {
	t.Parallel()
	d := submit(t, shortLived())
	for _, name := range []string{"trainer-0", "trainer-1"} {
		d.resume(name, d.waitPaused(name))
	}
	d.signal("coordinator", syscall.SIGKILL)
	d.mustMiss("coordinator")
}

// A process that has stopped does not renew its lease; one whose lease is long is missed by the round.
func TestTrainerStopped(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*remote.JobSpec){
		"lease": func(*remote.JobSpec) {},
		"round deadline": func(s *remote.JobSpec) {
			s.Lease, s.RoundDeadline = durationpb.New(patience), durationpb.New(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := shortLived()
			change(spec)
			d := submit(t, spec)
			d.resume("trainer-0", d.waitPaused("trainer-0"))
			d.waitPaused("trainer-1")
			d.signal("trainer-1", syscall.SIGSTOP)
			d.mustMiss("trainer 1")
		})
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
