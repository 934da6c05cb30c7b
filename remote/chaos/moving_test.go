package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/tensor"
)

// wide is a model with a distributed table of 4 MB, with its slots, and dense parameters.
func wide(t *testing.T, records int) (testkit.Model, map[string][]string) {
	const rows = 16 << 10
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, testkit.Dataset, layers.Field("id", layers.Dims(1), layers.DType(tensor.Int64)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(r, 100, 7), batch)))
	table := layers.Embedding(v[0], rows, 32, layers.Sparse(), layers.Distributed())
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(layers.FC(table, 40, layers.Act("tanh")), 1), v[1]), layers.Name("loss"))
	optimizer.Adagrad(0.05).Minimize(loss)
	data := testkit.Records(t, t.TempDir(), records, func(i int) []*tensor.Tensor {
		id, err := tensor.FromSlice([]int64{int64(i) * 7919 % rows})
		if err != nil {
			t.Fatal(err)
		}
		y, err := tensor.FromSlice([]float32{float32(i%17) / 17})
		if err != nil {
			t.Fatal(err)
		}
		return []*tensor.Tensor{id, y}
	})
	return testkit.Built(t, m, loss), data
}

// Roles are killed and stopped while the state of a job is copied to another number of pservers, and while it moves. The job ends with the parameters of the
// undisturbed run, bit for bit, and has trained every record once in every pass.
func TestServersWhileStateMoves(t *testing.T) {
	const more = 3
	m, data := wide(t, more*records())
	scope, _ := undisturbed(t, m, data, func(uint64) int { return 2 })
	want := testkit.Persistables(scope, m.Program)
	each(t, func(t *testing.T, seed uint64) {
		s := spec(2, 2, job.Mode_SYNC)
		if seed%2 == 1 {
			s.Standby = 1
		}
		if seed%3 > 0 {
			s.Checkpoints = &job.Checkpoints{Store: t.TempDir(), Rounds: max(1, rounds()/20)}
		}
		out := newRig(t).run(m, s, data, movingPlan(seed, *faults, more*rounds()))
		t.Logf("%d disturbances happened", out.hits)
		if err := testkit.Difference(testkit.Saved(t, out.saved, m.Program), want); err != nil {
			t.Errorf("the parameters differ from those of the undisturbed run: %v", err)
		}
		checkLedger(t, out.details.Ledger, data, 0)
	})
}

// movingPlan draws n changes of the number of pservers, each with a fault soon after it was asked for.
func movingPlan(seed uint64, n int, steps uint64) (plan []disturbance) {
	random := rand.New(rand.NewPCG(seed, 1))
	whom := []string{"coordinator", "trainer-0", "trainer-1", "pserver-0", "pserver-1", "pserver-2", "pserver-3", "standby-0", "standby-1"}
	for i := range n {
		after := steps * uint64(i+1) / uint64(n+2)
		d := disturbance{what: "kill", whom: whom[random.IntN(len(whom))], after: after, delay: time.Duration(random.Int64N(int64(400 * time.Millisecond)))}
		if random.IntN(4) == 0 {
			d.what, d.lasts = "stop", time.Duration(random.Int64N(int64(lease/3)))
		}
		plan = append(plan, disturbance{what: "pservers to", whom: fmt.Sprint(1 + random.IntN(4)), after: after}, d)
	}
	return plan
}
