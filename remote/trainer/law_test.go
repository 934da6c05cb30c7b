package trainer

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
)

// A case of the law: data, and how often it is read.
type lawCase struct {
	model   testkit.Model
	data    map[string][]string
	records int
	passes  int
}

// run trains on 3 trainers and 2 pservers with trouble, and checks what is left of it. It returns how many calls the trainers made.
func (l lawCase) run(t *testing.T, seed uint64, at map[int]bool, kills float64, vary bool) (calls int) {
	t.Helper()
	ctx := bounded(t)
	spec := &job.JobSpec{Trainers: 3, Pservers: 2, Save: t.TempDir(), Fetch: []string{l.model.Loss, parameterOf(l.model)}}
	c := newCrew(t, l.model, l.data, spec, queue.Policy{Passes: l.passes, RecordsPerTask: 7, MaxFailures: 3})
	x := &trouble{crew: c, ctx: ctx, kills: kills, chance: seeded(seed), at: at, until: uint64(l.passes*((l.records+4)/5) - 3)}
	x.ranks = func() []uint32 {
		all := []uint32{0, 1, 2}
		if !vary {
			return all
		}
		x.chance.Shuffle(3, func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:1+x.chance.IntN(3)]
		slices.Sort(all)
		return all
	}
	c.call = x.call
	err := c.train(ctx, 3)
	x.group.Wait()
	if err = errors.Join(overlooked(err), x.err); err != nil {
		t.Fatalf("%v\nafter %q", err, x.happened)
	}
	oracle, err := reference.New(l.model.Program, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer oracle.Close()
	oracle.Vary(c.conductor.members)
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
func (l lawCase) checkLedger(t *testing.T, c *crew, again int64) {
	t.Helper()
	ledger, err := wire.Ledger(bounded(t), "pserver 0", c.servers[0], &rpc.LedgerRequest{Job: rig.Identity.Job})
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

// The law: wherever trainers are superseded, in whatever step of a round, and whether they live through it or are killed, a sync run computes what
// the reference does with as many trainers in each round; every record is trained once in every pass.
func TestLawOfGenerations(t *testing.T) {
	l := lawCase{model: shuffling(t, 5, 12), data: testkit.Samples(t, t.TempDir(), 48), records: 48, passes: 2}
	calls := l.run(t, 0, nil, 0, false)
	for seed := range uint64(lawSeeds) {
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
