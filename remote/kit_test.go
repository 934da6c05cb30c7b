package remote_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential/credentialtest"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/wire"
)

// patience bounds every wait of these tests; none of them comes near it.
const patience = 60 * time.Second

// bounded returns a context that ends with the test, or with patience.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// listener starts a listener that ends with the test.
func listener(t testing.TB, options ...remote.Option) *remote.Listener {
	t.Helper()
	l, err := remote.Listen(bounded(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("the end of the listener: %v", err)
		}
	})
	return l
}

// executorOf connects to a listener until the test ends.
func executorOf(t testing.TB, l *remote.Listener, spec *remote.JobSpec) *remote.Executor {
	t.Helper()
	if spec.RoundDeadline == nil {
		spec.RoundDeadline = durationpb.New(patience)
	}
	e, err := remote.NewExecutor(l.Address(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("the end of the executor: %v", err)
		}
	})
	return e
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// why says what a job waits for that a test has given up.
func why(client *remote.Client, id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	answer, err := client.Why(ctx, id)
	return fmt.Sprintf("it waits for %v, %v", answer, err)
}

// lawCases is how many random cases a property is tested with; -rapid.checks=N asks for more.
const lawCases = "15"

// Environment of this test binary when it runs as a child.
const (
	behaviourEnv = "EDL_REMOTE_TEST"       // what the child does
	lifeEnv      = "EDL_REMOTE_TEST_LIFE"  // where it connects, so that its end is seen
	pauseEnv     = "EDL_REMOTE_TEST_PAUSE" // where test_pause connects
	workEnv      = "EDL_REMOTE_TEST_WORK"  // a directory of the test
)

// inShort skips a case in short tests if it is none of the kept ones.
func inShort(t *testing.T, name string, kept ...string) {
	t.Helper()
	if testing.Short() && !slices.Contains(kept, name) {
		t.Skip("takes its turn in the long form")
	}
}

// comparesValues skips a test in short tests, which look for races: other tests run the same code side by side.
func comparesValues(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("compares values that no race changes, in the long form")
	}
}

func TestMain(m *testing.M) {
	if behaviour, ok := behaviours[os.Getenv(behaviourEnv)]; ok {
		os.Exit(asChild(behaviour))
	}
	if err := flag.Set("rapid.checks", lawCases); err != nil {
		panic(err)
	}
	cleanup := credentialtest.Setup()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		cleanup()
		os.Exit(code)
	}))
}

// behaviours is what the test binary does as a child.
var behaviours = map[string]func(context.Context) error{
	"role":      func(ctx context.Context) error { return remote.RunChild(ctx, os.Stdin, os.Stderr) },
	"parent":    trainForever,
	"transpile": describeTranspiled,
}

func asChild(behave func(context.Context) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() { // as the command does: the first asks for an end in order, a second ends the process
		<-signals
		signal.Stop(signals)
		cancel(fault.New(fault.Drained, "terminated"))
	}()
	if address := os.Getenv(lifeEnv); address != "" {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return 1
		}
		defer conn.Close()
		fmt.Fprintln(conn, "lives", os.Getpid())
	}
	err := behave(ctx)
	if err != nil {
		fmt.Fprintln(io.Writer(os.Stderr), err)
	}
	return fault.KindOf(err).ExitCode()
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
	conn, err := wire.Dial(address, wire.OfJob(credentialtest.Listener(t), id))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return rpc.NewParameterServerClient(conn)
}

// waitsFor asks a pserver until it waits for a member.
func waitsFor(t testing.TB, server rpc.ParameterServerClient, id, member string) {
	t.Helper()
	ctx := bounded(t)
	for {
		status, err := server.Status(ctx, &rpc.StatusRequest{Job: id})
		if err != nil {
			t.Fatalf("waiting for %q: %v", member, err)
		}
		for _, w := range status.Waits {
			if len(w.By) == 1 && w.By[0] == member {
				return
			}
		}
	}
}

var errFound = errors.New("found")

// logged waits until a role has written a line that contains text.
func logged(t *testing.T, e *remote.Executor, id, role, text string) {
	t.Helper()
	found := false
	err := e.Client().Logs(bounded(t), id, role, true, func(_, line string) error {
		if found = strings.Contains(line, text); found {
			return errFound
		}
		return nil
	})
	if !found {
		t.Fatalf("%s does not log %q: %v", role, text, err)
	}
}

// waitsForTrainers asks the coordinator until it says that it waits for trainer 1.
func waitsForTrainers(t *testing.T, r *rig, id string) {
	t.Helper()
	registry, err := cluster.Open(bounded(t), cluster.Config{Endpoints: r.etcd, Prefix: cluster.Prefix(id)})
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	address, err := registry.Coordinator(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Dial(address, wire.OfJob(credentialtest.Listener(t), id))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := bounded(t)
	for {
		q, err := wire.Queues(ctx, rpc.NewCoordinatorClient(conn), &rpc.QueuesRequest{Job: id})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range q.Waits {
			if slices.Contains(w.By, "trainer 1") {
				return
			}
		}
	}
}

// later is a role that is launched when it is released, unless it is stopped before. It implements launch.Handle.
type later struct {
	stop    chan struct{}
	once    sync.Once
	started chan struct{}
	inner   launch.Handle // set when started is closed; nil when it was stopped before
	err     error
}

// startLater calls start when released is closed.
func startLater(ctx context.Context, released <-chan struct{}, start func() (launch.Handle, error)) launch.Handle {
	h := &later{stop: make(chan struct{}), started: make(chan struct{})}
	go func() {
		defer close(h.started)
		select {
		case <-released:
			h.inner, h.err = start()
		case <-h.stop:
		case <-ctx.Done():
		}
	}()
	return h
}

func (h *later) Wait() error {
	<-h.started
	if h.inner == nil {
		return h.err
	}
	return h.inner.Wait()
}

func (h *later) Stop(grace time.Duration) {
	h.once.Do(func() { close(h.stop) })
	<-h.started
	if h.inner != nil {
		h.inner.Stop(grace)
	}
}

func (h *later) Kill() {
	h.once.Do(func() { close(h.stop) })
	<-h.started
	if h.inner != nil {
		h.inner.Kill()
	}
}

// Renew waits for the launch.
func (h *later) Renew(m *job.RoleRenewal) error {
	<-h.started
	if h.inner == nil {
		return h.err
	}
	return h.inner.Renew(m)
}

// Waits is nothing until the role is launched.
func (h *later) Waits() (list []*job.Wait, changed <-chan struct{}) {
	select {
	case <-h.started:
	default:
		return nil, h.started
	}
	if h.inner == nil {
		return nil, nil
	}
	return h.inner.Waits()
}

func (h *later) Rounds() *job.RoundTimes {
	select {
	case <-h.started:
	default:
		return nil
	}
	if h.inner == nil {
		return nil
	}
	return h.inner.Rounds()
}

func (h *later) Trace() (encoded []byte, ahead time.Duration) {
	select {
	case <-h.started:
	default:
		return nil, 0
	}
	if h.inner == nil {
		return nil, 0
	}
	return h.inner.Trace()
}

func (h *later) Node() string { return "" }

func (h *later) Pid() int {
	select {
	case <-h.started:
	default:
		return 0
	}
	if h.inner == nil {
		return 0
	}
	return h.inner.Pid()
}

// trainOn trains m on a job of processes and returns the values that it saves. Every role must have ended with status 0.
func trainOn(t *testing.T, e *remote.Executor, m testkit.Model, run executor.TrainOptions,
	started func(id string)) (executor.Summary, *job.JobStatus) {
	t.Helper()
	j, err := e.Submit(bounded(t), m.Program, run)
	if err != nil {
		t.Fatal(err)
	}
	if started != nil {
		started(j.ID)
	}
	summary, err := j.Follow(bounded(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	status, err := e.Client().Status(bounded(t), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range status.Roles {
		if r.State != job.State_SUCCEEDED || r.ExitCode != 0 {
			t.Errorf("%v %d: %v, exit code %d", r.Role, r.Index, r.State, r.ExitCode)
		}
	}
	return summary, status
}

// mustEqualReference compares what a job of some trainers has saved with what the reference computes.
func mustEqualReference(t *testing.T, m testkit.Model, trainers int32, run executor.TrainOptions) {
	t.Helper()
	want, err := reference.New(m.Program, int(trainers))
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	saved := run.Save
	run.Save = ""
	if _, err := want.Train(bounded(t), m.Program, run, nil); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Difference(testkit.Saved(t, saved, m.Program), testkit.Persistables(want.Scope(), m.Program)); err != nil {
		t.Error(err)
	}
}
