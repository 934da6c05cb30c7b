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
	v := layers.Read(layers.Batch(r, struckBatch))
	hidden := pauses(layers.FC(v[0], 10, layers.Act("tanh")))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(hidden, 1), v[1]))
	optimizer.Momentum(0.1, 0.9).Minimize(loss)
	return testkit.Built(t, m, loss)
}

// A struck job runs on processes, two trainers and two pservers. One of them will be lost.
type struck struct {
	*rig
	id     string
	model  testkit.Model
	run    executor.TrainOptions
	client *remote.Client
	follow func() (executor.Summary, error)
}

// Records, passes and rows of a batch of a struck job.
const (
	struckRecords = 64
	struckBatch   = 8
	struckPasses  = 3
)

// submit starts a job.
func submit(t *testing.T, spec *remote.JobSpec) *struck {
	t.Helper()
	r := newRig(t)
	e := executorOf(t, r.listener(), spec)
	s := &struck{rig: r, model: pausing(t), client: e.Client(),
		run: executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), struckRecords), Passes: struckPasses, Save: t.TempDir()}}
	j, err := e.Submit(bounded(t), s.model.Program, s.run)
	if err != nil {
		t.Fatal(err)
	}
	s.id = j.ID
	s.follow = func() (executor.Summary, error) { return j.Follow(bounded(t), nil) }
	return s
}

// shortLived is a job in which members are missed soon.
func shortLived() *remote.JobSpec {
	return &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4, Lease: durationpb.New(3 * time.Second),
		RoundDeadline: durationpb.New(20 * time.Second)}
}

// mustMiss follows the job to its end and checks that it names who was lost, and that no process is left.
func (s *struck) mustMiss(member string) {
	s.t.Helper()
	s.flow()
	_, err := s.follow()
	if !errors.Is(err, fault.LostMember) || !strings.Contains(err.Error(), member) {
		s.t.Errorf("the job ends with %v, want the loss of %s; %s", err, member, why(s.client, s.id))
	}
	s.gone()
}

// mustEqualUndisturbed follows the job to its end, which must be that of a job to which nothing happened: every record counts once per pass, and the
// parameters are the same bits. It returns how often the roles were started.
func (s *struck) mustEqualUndisturbed() map[string]int32 {
	s.t.Helper()
	s.flow()
	summary, err := s.follow()
	if err != nil {
		s.t.Fatalf("the job ends with %v; %s", err, why(s.client, s.id))
	}
	if summary.Records > struckPasses*struckRecords {
		s.t.Errorf("%d records are told, of %d", summary.Records, struckPasses*struckRecords)
	}
	if want := uint64(struckPasses * struckRecords / struckBatch); summary.Steps != want {
		s.t.Errorf("%d steps are counted, of %d", summary.Steps, want)
	}
	mustEqualReference(s.t.(*testing.T), s.model, 2, s.run)
	d, err := s.client.Show(bounded(s.t), s.id)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(d.Ledger.GetPasses()) != struckPasses {
		s.t.Errorf("the ledger is %v", d.Ledger)
	}
	for _, p := range d.Ledger.GetPasses() {
		if p.Records != struckRecords || p.Again != 0 {
			s.t.Errorf("the ledger of pass %d: %d records, %d again", p.Pass, p.Records, p.Again)
		}
	}
	for _, r := range d.Status.Roles {
		if r.Failure != nil {
			s.t.Logf("%v %d ended before with: %v", r.Role, r.Index, wire.FaultOf(r.Failure))
		}
	}
	return startsOf(d.Status)
}

// startsOf returns how often each role was started.
func startsOf(status *job.JobStatus) map[string]int32 {
	starts := map[string]int32{}
	for _, r := range status.Roles {
		starts[cluster.Member{Role: r.Role, Index: int(r.Index)}.String()] = r.Starts
	}
	return starts
}

// server connects to a pserver of the job.
func (s *struck) server(index int) rpc.ParameterServerClient {
	return serverOf(s.t, s.etcd, s.id, index)
}

// Deaths of a job whose trainers have paused in the middle of a step. Each returns who was struck.
var deaths = map[string]func(s *struck) string{
	// Trap 3: a trainer is killed when it has sent a part of its gradients.
	"trainer while sending": func(s *struck) string {
		s.resume("trainer-0", s.waitPaused("trainer-0"))
		s.waitPaused("trainer-1")
		s.signal("trainer-1", syscall.SIGKILL)
		return "trainer 1"
	},
	// Trap 3: a trainer is killed when it has declared its contribution and waits for new parameters.
	"trainer while receiving": func(s *struck) string {
		s.resume("trainer-0", s.waitPaused("trainer-0"))
		other := s.waitPaused("trainer-1")
		waitsFor(s.t, s.server(0), s.id, "trainer 1")
		s.signal("trainer-0", syscall.SIGKILL)
		s.resume("trainer-1", other)
		return "trainer 0"
	},
	// Trap 4, as far as no checkpoint brings parameters back: a pserver is killed in the middle of a round.
	"pserver": func(s *struck) string {
		other := s.waitPaused("trainer-0")
		s.resume("trainer-1", s.waitPaused("trainer-1"))
		s.signal("pserver-0", syscall.SIGKILL)
		s.resume("trainer-0", other)
		return "pserver 0"
	},
	// Nobody hands out data any more.
	"coordinator": func(s *struck) string {
		for _, name := range []string{"trainer-0", "trainer-1"} {
			s.resume(name, s.waitPaused(name))
		}
		s.signal("coordinator", syscall.SIGKILL)
		return "coordinator"
	},
	// A process that has stopped does not renew its lease.
	"stopped trainer": func(s *struck) string {
		s.resume("trainer-0", s.waitPaused("trainer-0"))
		s.waitPaused("trainer-1")
		s.signal("trainer-1", syscall.SIGSTOP)
		return "trainer 1"
	},
	"stopped pserver": func(s *struck) string {
		for _, name := range []string{"trainer-0", "trainer-1"} {
			s.resume(name, s.waitPaused(name))
		}
		s.signal("pserver-1", syscall.SIGSTOP)
		return "pserver 1"
	},
	"stopped coordinator": func(s *struck) string {
		for _, name := range []string{"trainer-0", "trainer-1"} {
			s.resume(name, s.waitPaused(name))
		}
		s.signal("coordinator", syscall.SIGSTOP)
		return "coordinator"
	},
}
