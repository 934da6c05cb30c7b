package chaos_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/etcdtest"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/credential/credentialtest"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/remote/wire"
)

// childEnv makes this test binary run a role.
const childEnv = "EDL_CHAOS_ROLE"

var (
	seed   = flag.Uint64("chaos.seed", 1, "seed of the first run of each kind")
	runs   = flag.Int("chaos.runs", 1, "runs of each kind, with seeds that follow each other")
	faults = flag.Int("chaos.faults", 5, "faults in each run")
	logs   = flag.String("chaos.logs", "", "directory that what the roles write goes to")
	kills  = flag.Int("chaos.kills", 3, "kills that a measurement is made of")
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(asRole())
	}
	cleanup := credentialtest.Setup()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		cleanup()
		os.Exit(code)
	}),
		// A link that is reset while it carries data leaves a goroutine of the proxy behind.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"))
}

func asRole() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := remote.RunChild(ctx, os.Stdin, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return fault.KindOf(err).ExitCode()
}

// patience bounds every wait of these tests; none of them comes near it.
const patience = 2 * 60e9

// bounded returns a context that ends with the test, or with patience.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A rig is a cluster on this machine whose roles, and whose etcd server, are processes, and whose connections go over links. It implements
// launch.Launcher.
type rig struct {
	*links
	listener *remote.Listener
	client   rpc.ListenerClient
	etcd     *etcdtest.Cluster // of one server
	store    *clientv3.Client
	job      string             // the last that was submitted
	suffers  func(fault string) // of its store of checkpoints
	scaling  sync.WaitGroup     // changes of its pservers that are under way

	mu      sync.Mutex
	handles map[string]launch.Handle // the last of each role, such as "trainer-1"
	starts  map[string]int
	moved   time.Time // when a coordinator has said last that the placement of its job has changed
	members int       // of the last generation that has begun
}

// said is what a role writes. It notes when the coordinator says that the placement of the job has changed, and how many members a generation has that begins.
type said struct{ of *rig }

var begins = regexp.MustCompile(`msg="generation begins" job=\S+ role=coordinator .*members=([0-9]+)`)

func (m said) Write(b []byte) (int, error) {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	if bytes.Contains(b, []byte("the placement of the job has changed")) {
		m.of.moved = time.Now()
	}
	if found := begins.FindAllSubmatch(b, -1); found != nil {
		m.of.members, _ = strconv.Atoi(string(found[len(found)-1][1]))
	}
	return len(b), nil
}

// lastMove is when the placement of the job has changed last.
func (r *rig) lastMove() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.moved
}

// shared waits until a generation has begun with so many members.
func (r *rig) shared(members int) {
	ctx := bounded(r.t)
	for ctx.Err() == nil {
		r.mu.Lock()
		now := r.members
		r.mu.Unlock()
		if now == members {
			return
		}
		pass(ctx, time.Millisecond)
	}
	r.t.Fatalf("no generation of %d members", members)
}

func newRig(t testing.TB) *rig {
	t.Helper()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	r := &rig{links: newLinks(t), etcd: etcd, store: etcd.Client(), handles: map[string]launch.Handle{}, starts: map[string]int{}}
	var err error
	if r.listener, err = remote.Listen(bounded(t), remote.WithLauncher(r), remote.WithEtcd(etcd.Endpoints()...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.listener.Close(); err != nil {
			t.Errorf("the end of the listener: %v", err)
		}
	})
	conn, err := wire.Dial(r.listener.Address(), wire.ToListener(credentialtest.Listener(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r.client = rpc.NewListenerClient(conn)
	return r
}

// Start implements launch.Launcher: each role reaches etcd over a link of its own.
func (r *rig) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (launch.Handle, error) {
	name := role.Name(spec)
	spec.Etcd = []string{r.to("etcd of "+name, strings.TrimPrefix(r.etcd.Endpoints()[0], "http://"))}
	if *logs != "" {
		file, err := os.OpenFile(filepath.Join(*logs, spec.Job+"-"+name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		r.t.Cleanup(func() { file.Close() })
		log = io.MultiWriter(log, file)
	}
	log = io.MultiWriter(log, said{r})
	h, err := launch.Processes{Binary: os.Args[0], Env: []string{childEnv + "=1"}}.Start(ctx, spec, log)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handles[name] = h
	r.starts[name]++
	return h, nil
}

// startsOf is how often a role was started.
func (r *rig) startsOf(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starts[name]
}

// signal sends a signal to the process of a role, if there is one.
func (r *rig) signal(name string, s syscall.Signal) error {
	r.mu.Lock()
	h := r.handles[name]
	r.mu.Unlock()
	if h == nil {
		return fmt.Errorf("no %s was started", name)
	}
	return syscall.Kill(h.Pid(), s)
}

// redirect replaces every address that a role of the job announces by that of a link to it, until ctx ends.
func (r *rig) redirect(ctx context.Context, id string) {
	prefix := cluster.Prefix(id) + "/"
	for event := range r.store.Watch(ctx, prefix, clientv3.WithPrefix()) {
		for _, e := range event.Events {
			key, value := string(e.Kv.Key), string(e.Kv.Value)
			name, isAddress := linkName(strings.TrimPrefix(key, prefix))
			if !isAddress || e.Type != clientv3.EventTypePut || r.owns(value) {
				continue
			}
			link := r.to(name, value)
			// The key keeps its lease and its create revision: it is still its holder's. Etcd may be away for a while.
			again := true
			for again {
				_, err := r.store.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", e.Kv.ModRevision)).
					Then(clientv3.OpPut(key, link, clientv3.WithIgnoreLease())).Commit()
				again = err != nil && pass(ctx, 10*time.Millisecond)
			}
		}
	}
}

// linkName names the link to what announces itself under a key.
func linkName(key string) (string, bool) {
	if key == "master/addr" {
		return "coordinator", true
	}
	index, ok := strings.CutPrefix(key, "ps/")
	return "pserver-" + index, ok
}

// What every job under test trains.
const (
	batch  = 16
	passes = 2
)

// records is how many a job trains in each pass: enough for every disturbance to find it at work, and no multiple of the batch.
func records() int { return 1501*(*faults) + 1501 }

// rounds is how many a job has.
func rounds() uint64 { return uint64(passes * ((records() + batch - 1) / batch)) }

// model shuffles, so that a trainer which comes back must find its place in the order.
func model(t testing.TB, o *optimizer.Optimizer) testkit.Model {
	t.Helper()
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(testkit.Width)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(r, 100, 7), batch)))
	hidden := layers.FC(v[0], 40, layers.Act("tanh"))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(hidden, 1), v[1]), layers.Name("loss"))
	o.Minimize(loss)
	return testkit.Built(t, m, loss)
}

// sharesTotals reports whether a seed draws the model of which trainers share totals: every second one, and not the first, which the short form takes.
func sharesTotals(seed uint64) bool { return seed%2 == 0 }

// modelOf is the model that a seed draws.
func modelOf(t testing.TB, seed uint64) testkit.Model {
	t.Helper()
	if sharesTotals(seed) {
		return totalled(t, momentum())
	}
	return model(t, momentum())
}

// totalled is model with a loss for which trainers share sums and means over the batch twice in a step: each cost is divided by the sum of the weights of the batch, and
// their sum by its mean weight.
func totalled(t testing.TB, o *optimizer.Optimizer) testkit.Model {
	t.Helper()
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("x", layers.Dims(testkit.Width)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(r, 100, 7), batch)))
	cost := layers.SquareErrorCost(layers.FC(layers.FC(v[0], 40, layers.Act("tanh")), 1), v[1])
	weight := layers.Scale(layers.Square(v[1]), 1, 0.5)
	sum := layers.ReduceSum(layers.Div(layers.Mul(cost, weight), layers.Scale(layers.ReduceSum(weight), 1, 1e-3)))
	loss := layers.Div(sum, layers.Scale(layers.Mean(weight), 1, 0.5), layers.Name("loss"))
	o.Minimize(loss)
	return testkit.Built(t, m, loss)
}

// spec is a job of these trainers, whose members are missed soon and started again as often as needed.
func spec(trainers, most int32, mode job.Mode) *remote.JobSpec {
	return &remote.JobSpec{Trainers: trainers, TrainersMax: most, Pservers: 2, MinBlockSize: 64, Mode: mode, RecordsPerTask: 100, MaxRestarts: 1000,
		Lease: durationpb.New(lease), RoundDeadline: durationpb.New(30 * time.Second), StartDeadline: durationpb.New(time.Minute)}
}

// An outcome is what a job has left behind.
type outcome struct {
	steps   []executor.StepResult // as they were seen, without what was fetched
	saved   string
	details *rpc.JobDetails
	hits    int // disturbances that happened
}

// run trains the model under a plan of disturbances.
func (r *rig) run(m testkit.Model, s *remote.JobSpec, data map[string][]string, plan []disturbance) outcome {
	t := r.t
	t.Helper()
	ctx := bounded(t)
	e, err := remote.NewExecutor(r.listener.Address(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	out := outcome{saved: filepath.Join(t.TempDir(), "saved")}
	j, err := e.Submit(ctx, m.Program, executor.TrainOptions{Data: data, Passes: passes, Fetch: []string{m.Loss}, Save: out.saved})
	if err != nil {
		t.Fatal(err)
	}
	r.job = j.ID
	watching, unwatch := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer unwatch()
	defer r.scaling.Wait() // a job that has ended answers
	beside.Go(func() { r.redirect(watching, j.ID) })

	var seen atomic.Uint64 // steps
	moved := make(chan struct{}, 1)
	var hits atomic.Int64
	beside.Go(func() { r.disturb(watching, plan, &seen, moved, &hits) })
	_, err = j.Follow(ctx, func(step executor.StepResult) error {
		step.Fetched = nil
		out.steps = append(out.steps, step)
		seen.Store(uint64(len(out.steps)))
		select {
		case moved <- struct{}{}:
		default:
		}
		return nil
	})
	if err != nil {
		t.Fatalf("the job has failed: %v\nunder %v", err, plan)
	}
	out.hits = int(hits.Load())
	if out.details, err = wire.Show(ctx, "listener", r.client, &rpc.JobRequest{Job: j.ID}); err != nil {
		t.Fatal(err)
	}
	return out
}

// disturb carries out a plan, one disturbance after the other, each when the job has come as far as it says.
func (r *rig) disturb(ctx context.Context, plan []disturbance, seen *atomic.Uint64, moved <-chan struct{}, hits *atomic.Int64) {
	for _, d := range plan {
		for seen.Load() < d.after {
			select {
			case <-moved:
			case <-ctx.Done():
				return
			}
		}
		if !pass(ctx, d.delay) {
			return
		}
		if d.saved {
			if _, err := r.client.Checkpoint(ctx, &rpc.JobRequest{Job: r.job}); err != nil {
				r.t.Errorf("no checkpoint before %v: %v", d, err)
			}
		}
		r.t.Logf("at step %d: %v", seen.Load(), d)
		end, err := r.begin(d)
		if err != nil {
			r.t.Logf("%v: %v", d, err) // a role that is between two lives cannot be hit
		} else {
			hits.Add(1)
		}
		pass(ctx, d.lasts)
		end()
	}
}

// pass lets time pass, which is what a disturbance is made of, and reports whether ctx still goes on.
func pass(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
