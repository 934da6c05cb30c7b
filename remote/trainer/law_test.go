package trainer

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
)

// A case of the law: data, and how often it is read.
type lawCase struct {
	model   testkit.Model
	data    map[string][]string
	records int
	passes  int
	servers int
	over    string   // grpc, or one of carriers: how the slices of rounds travel
	hosts   []string // of the trainers, where those of one host merge first; nil: they do not
	devices int32    // of each trainer; 0: 1
	form    string   // in which gradients travel; empty: as they are
}

// run trains on 3 trainers with trouble, and checks what is left of it. It returns how many calls the trainers made.
func (l lawCase) run(t *testing.T, seed uint64, at map[int]bool, kills float64, vary bool) (calls int) {
	t.Helper()
	ctx := bounded(t)
	spec := &job.JobSpec{Trainers: 3, Pservers: int32(l.servers), Save: t.TempDir(), Fetch: []string{l.model.Loss, parameterOf(l.model)},
		CompressGradients: l.form, Devices: l.devices}
	c := newTestJob(t, l.model, l.data, spec, queue.Policy{Passes: l.passes, RecordsPerTask: 7, MaxFailures: 3})
	x := &trouble{job: c, ctx: ctx, kills: kills, vary: vary, chance: seeded(seed), at: at, until: uint64(l.passes*((l.records+4)/5) - 3)}
	c.call, c.cut, c.over, c.hosts = x.call, x.cut, l.over, l.hosts
	err := c.train(ctx, 3)
	x.group.Wait()
	if err = errors.Join(withoutCanceled(err), x.err); err != nil {
		t.Fatalf("%v\nafter %q", err, x.happened)
	}
	oracle, err := reference.New(l.model.Program, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer oracle.Close()
	oracle.Vary(c.coordinator.members)
	oracle.Devices(func(uint64) int { return int(l.devices) })
	oracle.Slice(c.roles.Placement.Rows)
	oracle.Regroup(c.coordinator.begins)
	if err := oracle.Compress(l.form, "none"); err != nil {
		t.Fatal(err)
	}
	if l.hosts != nil {
		oracle.Group(c.coordinator.groups)
	}
	if _, err := oracle.Train(ctx, l.model.Program, executor.TrainOptions{Data: l.data, Passes: l.passes}, nil); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Difference(testkit.Saved(t, spec.Save, l.model.Program), testkit.Persistables(oracle.Scope(), l.model.Program)); err != nil {
		t.Errorf("%v\nafter %q", err, x.happened)
	}
	l.checkReports(t, c, kills == 0) // one that is killed reports nothing any more
	l.checkLedger(t, c, 0)
	if len(x.happened) == 0 && len(at) > 0 {
		t.Error("nothing happened")
	}
	return x.calls
}

// checkLedger checks that every record was committed in every pass, and at most so many again.
func (l lawCase) checkLedger(t *testing.T, c *testJob, again int64) {
	t.Helper()
	ledger, err := wire.Ledger(bounded(t), "pserver 0", c.servers[0], &rpc.LedgerRequest{Job: pstest.Identity.Job})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ledger.Passes {
		if p.Records != int64(l.records) || p.Again > again {
			t.Errorf("the ledger has %v of %d records", p, l.records)
		}
	}
	if len(ledger.Passes) != l.passes {
		t.Errorf("the ledger has %d passes, want %d", len(ledger.Passes), l.passes)
	}
}

// lawSeeds is how many histories TestLawOfGenerations tries.
const lawSeeds = 12

// The law: wherever trainers are superseded, in whatever step of a round, whatever connections break, and whether they live through it or are killed, a sync run computes what
// the reference does with as many trainers in each round; every record is trained once in every pass.
func TestLawOfGenerations(t *testing.T) {
	for _, l := range []lawCase{
		{servers: 2, over: "grpc"}, {servers: 2, over: "tcp"}, {servers: 1, over: "tcp"}, {servers: 2, over: "shm"}, {servers: 1, over: "shm"},
	} {
		t.Run(fmt.Sprintf("%s, %d servers", l.over, l.servers), func(t *testing.T) {
			l.model, l.data, l.records, l.passes = shuffling(t, 5, 12), testkit.Samples(t, t.TempDir(), 48), 48, 2
			l.ofGenerations(t)
		})
	}
}

// The law of topk: the same, where each generation begins with residuals of 0.
func TestLawOfResiduals(t *testing.T) {
	for _, l := range []lawCase{{servers: 2, over: "grpc"}, {servers: 1, over: "tcp"}, {servers: 3, over: "shm"}} {
		t.Run(fmt.Sprintf("%s, %d servers", l.over, l.servers), func(t *testing.T) {
			l.model, l.data, l.records, l.passes, l.form = shuffling(t, 5, 12), testkit.Samples(t, t.TempDir(), 48), 48, 2, "topk:0.2:5"
			l.ofGenerations(t)
		})
	}
}

// The law of groups: the same, where trainers of one host merge first.
func TestLawOfGroups(t *testing.T) {
	for _, l := range []lawCase{
		{servers: 2, over: "tcp", hosts: []string{"a", "b", "a"}}, {servers: 1, over: "tcp", hosts: []string{"a", "a", "a"}},
		{servers: 2, over: "shm", hosts: []string{"a", "a", "b"}},
	} {
		t.Run(fmt.Sprintf("%s, %d servers", l.over, l.servers), func(t *testing.T) {
			l.model, l.data, l.records, l.passes = shuffling(t, 5, 12), testkit.Samples(t, t.TempDir(), 48), 48, 2
			l.ofGenerations(t)
		})
	}
}

// The law of devices: the same, where two or three devices share the rows of each trainer. Batches are of 5 rows, so most devices have one and some none.
func TestLawOfDevices(t *testing.T) {
	for _, l := range []lawCase{
		{servers: 2, over: "tcp", devices: 2}, {servers: 1, over: "shm", devices: 3, form: "topk:0.2:5"},
		{servers: 2, over: "grpc", devices: 2}, {servers: 2, over: "shm", devices: 2, hosts: []string{"a", "b", "a"}},
	} {
		t.Run(fmt.Sprintf("%s, %d devices", l.over, l.devices), func(t *testing.T) {
			l.model, l.data, l.records, l.passes = shuffling(t, 5, 12), testkit.Samples(t, t.TempDir(), 48), 48, 2
			l.ofGenerations(t)
		})
	}
}

func (l lawCase) ofGenerations(t *testing.T) {
	calls := l.run(t, 0, nil, 0, false)
	seeds := uint64(lawSeeds)
	if testing.Short() {
		seeds = 2 // one that breaks connections and kills nobody, one that kills
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			chance := seeded(1000 + seed)
			at := map[int]bool{}
			for range 8 {
				at[1+chance.IntN(calls*8/10)] = true
			}
			l.run(t, seed, at, []float64{0, 0.5}[seed%2], seed%3 > 0)
		})
	}
}

// Whatever a trainer has fetched is reported before it takes its leave, however far the reports are behind: at the end of the data, and drained.
func TestStepsAreReportedBeforeLeaving(t *testing.T) {
	for name, last := range map[string]uint64{"at the end": 8, "drained": 4} {
		for _, mode := range []job.Mode{job.Mode_SYNC, job.Mode_ASYNC} {
			m := testkit.Reading(t, 5, optimizer.SGD(0.05))
			spec := &job.JobSpec{Trainers: 1, Pservers: 1, Mode: mode, Fetch: []string{m.Loss}}
			c := newTestJob(t, m, testkit.Samples(t, t.TempDir(), 40), spec, queue.Policy{Passes: 1, RecordsPerTask: 40, MaxFailures: 3})
			c.coordinator.hold = make(chan struct{})
			var once sync.Once
			c.call = func(_ uint32, _ int, when string, round uint64) {
				if when == "in recv" && round == last {
					once.Do(func() {
						if name == "drained" {
							c.drainTrainer(0)
						}
						close(c.coordinator.hold)
					})
				}
			}
			if err := c.train(bounded(t), 1); err != nil && !(name == "drained" && errors.Is(err, fault.Drained)) {
				t.Fatalf("%s, %v: %v", name, mode, err)
			}
			if c.coordinator.known != int(last) {
				t.Errorf("%s, %v: %d of %d steps were reported before the trainer left", name, mode, c.coordinator.known, last)
			}
		}
	}
}

// parameterOf names a variable that trainers receive.
func parameterOf(m testkit.Model) string {
	for _, op := range m.Program.Global().Ops {
		if p := op.Inputs["Param"]; len(p) > 0 {
			return p[0]
		}
	}
	return ""
}

// checkReports checks that no record was reported twice, and, where whole is set, that all were.
func (l lawCase) checkReports(t *testing.T, c *testJob, whole bool) {
	t.Helper()
	type step struct {
		rank  uint32
		round uint64
	}
	if late := c.coordinator.late; len(late) > 0 {
		t.Errorf("%d reports came too late, such as %v", len(late), late[0].Id)
	}
	seen := map[step]bool{}
	trained := make([][]int, l.passes)
	for pass := range trained {
		trained[pass] = make([]int, l.records)
	}
	for _, m := range c.coordinator.reports {
		if i := slices.IndexFunc(m.Fetched, func(v *job.Value) bool { return v.Name != l.model.Loss }); m.Pending && i >= 0 {
			t.Errorf("round %d, of which it is not known whether it has committed, is reported with %s, as it was before", m.Id.Round, m.Fetched[i].Name)
		}
	}
	for _, m := range c.coordinator.committed() {
		s := step{m.Id.Rank, m.Id.Round}
		if seen[s] {
			t.Errorf("%+v was reported twice", s)
		}
		seen[s] = true
		for _, r := range m.Records {
			for i := r.From; i < r.To; i++ {
				trained[m.Pass][i]++
			}
		}
	}
	for pass, counts := range trained {
		if slices.Max(counts) > 1 || whole && slices.Min(counts) == 0 {
			t.Errorf("records were reported in pass %d: %v", pass, counts)
		}
	}
}
