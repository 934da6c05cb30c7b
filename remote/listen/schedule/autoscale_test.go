package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/edl-go/edl/remote/listen/schedule"
)

// The experiment that was published of the autoscaler of 2018, in simulation: 133 nodes, and 20 jobs that may have 2 to 60 trainers. A node of 12 cores takes two trainers of 5 cores, so four and a half jobs
// of 60 trainers fit. The jobs come one a minute on average, and each has work for 60 trainers for 5 to 15 minutes. They run once with a number of trainers that does not change, 60 each, and
// once elastic.
func TestElasticCluster(t *testing.T) {
	const nodes, trainers = 133, 60
	seeds := uint64(10)
	if testing.Short() {
		seeds = 2
	}
	type result struct{ pending, use, length float64 }
	measure := func(elastic bool) (sum result) {
		for seed := range seeds {
			random := rand.New(rand.NewPCG(seed, 17))
			var list []schedule.Node
			cores := map[string]int64{}
			for i := range nodes {
				list = append(list, schedule.Node{Name: fmt.Sprintf("n%03d", i), Has: schedule.Resources{Cores: 12_000}})
				cores[list[i].Name] = 12
			}
			s := &simulation{t: t, m: schedule.New(schedule.DefaultPolicy(), list...), used: map[string]float64{}, cores: cores}
			comes := time.Second
			for i := range 20 {
				j := &simulated{comes: comes, work: trainers * float64(300+random.IntN(600))}
				comes += time.Duration(random.IntN(120)) * time.Second
				j.ID, j.Owner, j.Trainer.Cores, j.Least, j.Most = fmt.Sprint("j", i), fmt.Sprint("u", i), 5000, trainers, trainers
				if elastic {
					j.Least = 2
				}
				s.jobs = append(s.jobs, j)
			}
			s.run(len(s.jobs) + 1)
			var pending float64
			for _, j := range s.jobs {
				pending += j.waited.Seconds() / float64(len(s.jobs))
			}
			n := float64(seeds)
			sum.pending, sum.use, sum.length = sum.pending+pending/n, sum.use+s.busy/(s.now.Seconds()*2*5*nodes)/n, sum.length+s.now.Seconds()/n
		}
		return sum
	}
	fixed, elastic := measure(false), measure(true)
	t.Logf("fixed:   pending %.1f s, use %.1f %% of what trainers can have, all done after %.0f s", fixed.pending, 100*fixed.use, fixed.length)
	t.Logf("elastic: pending %.1f s, use %.1f %%, all done after %.0f s", elastic.pending, 100*elastic.use, elastic.length)
	if elastic.pending > fixed.pending/6.5 || elastic.use < fixed.use || elastic.use < 0.763 || elastic.length > fixed.length {
		t.Errorf("elastic jobs: %+v, fixed ones: %+v", elastic, fixed)
	}
}

// Whatever pods of others do on the nodes, jobs settle: when nothing changes any more, nothing is scaled any more, no node is crowded by what could be given back, and no job has fewer
// trainers than its fewest.
func TestScalingSettles(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 18))
		var list []schedule.Node
		for i := range 1 + random.IntN(4) {
			list = append(list, schedule.Node{Name: fmt.Sprint("n", i), Has: schedule.Resources{Cores: 1000 * int64(2+random.IntN(8))}})
		}
		m := schedule.New(schedule.DefaultPolicy(), list...)
		now := time.Duration(0)
		want := map[string]int{}
		bounds := map[string][2]int{}
		step := func(e schedule.Event) (scaled int) {
			t.Helper()
			out, err := m.Step(now, e)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range out.Start {
				want[s.ID] = s.Trainers
			}
			for _, s := range out.Scale {
				if b := bounds[s.ID]; s.Trainers < b[0] || s.Trainers > b[1] || len(s.Nodes) != s.Trainers {
					t.Fatalf("seed %d: %+v of %v", seed, s, b)
				}
				want[s.ID] = s.Trainers
			}
			return len(out.Scale)
		}
		ended := func() { // trainers that were given back
			for id, n := range want {
				step(schedule.Has{ID: id, Trainers: n})
			}
		}
		for i := range 1 + random.IntN(6) {
			j := schedule.Job{ID: fmt.Sprint("j", i), Owner: fmt.Sprint("u", random.IntN(3)), Priority: random.IntN(3), Trainer: schedule.Resources{Cores: 500 * int64(1+random.IntN(3))}, Least: 1}
			j.Most = 1 + random.IntN(6)
			bounds[j.ID] = [2]int{1, j.Most}
			_, _ = m.Step(now, schedule.Runs{Job: j, Trainers: 1})
			want[j.ID] = 1
		}
		for range 20 {
			now += time.Duration(random.IntN(20)) * time.Second
			for i := range list {
				list[i].Has.Cores = max(-1000, list[i].Has.Cores+500*int64(random.IntN(9)-4))
				if list[i].Has.Cores == 0 {
					list[i].Has.Cores = 1
				}
			}
			step(schedule.Nodes{List: list})
			if random.IntN(2) == 0 {
				ended()
			}
		}
		quiet := 0
		for range 100 { // more than all trainers together
			ended()
			now += 11 * time.Second
			if step(schedule.Tick{}) == 0 {
				quiet++
			} else {
				quiet = 0
			}
		}
		if quiet < 60 {
			t.Errorf("seed %d: trainers come and go although nothing changes", seed)
		}
	}
}
