package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/edl-go/edl/remote/listen/schedule"
)

// A simulated job runs for a time that depends on its trainers: work is in trainer seconds.
type simulated struct {
	schedule.Job
	comes    time.Duration
	work     float64
	started  time.Duration
	ended    time.Duration
	trainers int // that work; those that are given back leave later
	want     int
	leaves   time.Duration // when those that are too many have left; 0: none are
	saved    time.Duration // when it has left that is being suspended; 0: it is not
	times    int           // that it was suspended
	waited   time.Duration // before its first start
}

// A simulation is many jobs on a machine whose time is not that of a clock.
type simulation struct {
	t        *testing.T
	m        *schedule.Machine
	now      time.Duration
	jobs     []*simulated
	used     map[string]float64 // core seconds of each owner while all owners had jobs that waited
	cores    map[string]int64   // of nodes
	worst    time.Duration      // that a job has waited
	contends float64            // seconds in which all owners had jobs that waited
	busy     float64            // core seconds that trainers have used
	stays    *rand.Rand         // lets some jobs stay that are to be suspended; nil: none does
}

func (s *simulation) find(id string) *simulated {
	return s.jobs[slices.IndexFunc(s.jobs, func(j *simulated) bool { return j.ID == id })]
}

func (s *simulation) runs(j *simulated) bool { return j.started > 0 && j.ended == 0 }

func (s *simulation) step(e schedule.Event) {
	s.t.Helper()
	out, err := s.m.Step(s.now, e)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, start := range out.Start {
		j := s.find(start.ID)
		if j.started > 0 || start.Trainers != j.Least || len(start.Nodes) != j.Least || len(start.Servers) != len(j.Servers) {
			s.t.Fatalf("%+v of %+v", start, j)
		}
		if j.times == 0 {
			j.waited = s.now - j.comes
			s.worst = max(s.worst, j.waited)
		}
		j.started, j.trainers, j.want, j.leaves = s.now, start.Trainers, start.Trainers, 0
	}
	for _, scale := range out.Scale {
		j := s.find(scale.ID)
		if !s.runs(j) || scale.Trainers < j.Least || scale.Trainers > j.Most {
			s.t.Fatalf("%+v of %+v", scale, j)
		}
		if j.want = scale.Trainers; j.want < j.trainers {
			j.leaves = s.now + 5*time.Second
		} else {
			j.trainers, j.leaves = j.want, 0
		}
	}
	for _, id := range out.Suspend {
		j := s.find(id)
		if !s.runs(j) || !j.Yields || j.saved > 0 || s.now-j.started < schedule.DefaultPolicy().Turn {
			s.t.Fatalf("at %v %+v is to be suspended", s.now, j)
		}
		j.saved = s.now + 3*time.Second
	}
	for _, u := range schedule.Usages(s.m) {
		if u.Used.Cores > s.cores[u.Name]*1000 || u.Used.Cores < 0 || u.Used.Memory < 0 {
			s.t.Fatalf("at %v node %s has %s of %d cores in use", s.now, u.Name, u.Used, s.cores[u.Name])
		}
	}
}

// run lets all jobs come and end.
func (s *simulation) run(owners int) {
	for left := len(s.jobs); left > 0; {
		next, ok := s.m.Next()
		earlier := func(at time.Duration) {
			if !ok || at < next {
				next, ok = at, true
			}
		}
		waiting := map[string]bool{}
		for _, j := range s.jobs {
			switch {
			case j.ended > 0:
			case j.started == 0 && j.comes > s.now:
				earlier(j.comes)
			case j.started == 0:
				waiting[j.Owner] = true
			default:
				earlier(s.now + time.Duration(j.work/float64(j.trainers)*float64(time.Second)) + 1)
				if j.leaves > 0 {
					earlier(j.leaves)
				}
				if j.saved > 0 {
					earlier(j.saved)
				}
			}
		}
		if !ok {
			s.t.Fatalf("at %v %d jobs never end", s.now, left)
		}
		passed := next - s.now
		if len(waiting) == owners {
			s.contends += passed.Seconds()
		}
		s.now = next
		for _, j := range s.jobs {
			if !s.runs(j) {
				continue
			}
			j.work -= passed.Seconds() * float64(j.trainers)
			s.busy += passed.Seconds() * float64(j.trainers) * float64(j.Trainer.Cores) / 1000
			if len(waiting) == owners {
				s.used[j.Owner] += passed.Seconds() * float64(j.trainers) * float64(j.Trainer.Cores) / 1000
			}
		}
		for _, j := range s.jobs {
			switch {
			case j.ended > 0:
			case j.started == 0 && j.comes == s.now:
				s.step(schedule.Submitted{Job: j.Job})
			case s.runs(j) && j.work <= 0:
				j.ended = s.now
				left--
				s.step(schedule.Ended{ID: j.ID})
			case s.runs(j) && j.saved > 0 && j.saved <= s.now:
				if j.saved = 0; s.stays != nil && s.stays.IntN(4) == 0 {
					j.started = s.now // its turn begins anew
					s.step(schedule.Stays{ID: j.ID})
					break
				}
				j.started = 0
				j.times++
				s.step(schedule.Left{ID: j.ID})
			case s.runs(j) && j.leaves > 0 && j.leaves <= s.now:
				j.trainers, j.leaves = j.want, 0
				s.step(schedule.Has{ID: j.ID, Trainers: j.want})
			}
		}
		s.step(schedule.Tick{})
	}
}

// 50 jobs by 5 users on two nodes of 8 cores. The jobs of the first user need four times the cores of the others' jobs. No node ever has more in use than it has,
// every job ends, and while all users have jobs that wait each has about a fifth of the cores.
func TestFairShare(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 5
	}
	var fairest, least float64
	var worst, longest time.Duration
	least = 1
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 7))
		s := &simulation{t: t, m: schedule.New(schedule.DefaultPolicy(), schedule.Node{Name: "a", Has: schedule.Resources{Cores: 8000}},
			schedule.Node{Name: "b", Has: schedule.Resources{Cores: 8000}}), used: map[string]float64{}, cores: map[string]int64{"a": 8, "b": 8}}
		for i := range 50 {
			j := &simulated{comes: time.Duration(1 + random.IntN(600)), work: float64(120 + random.IntN(480))}
			j.comes *= time.Second
			j.ID, j.Owner = fmt.Sprint("j", i), fmt.Sprint("u", i%5)
			j.Least = 1 + random.IntN(3)
			if j.Most = j.Least; random.IntN(3) == 0 {
				j.Most += 1 + random.IntN(6)
			}
			j.Trainer.Cores = 1000
			if i%5 == 0 {
				j.Least, j.Most = 4+random.IntN(5), 12
			}
			j.work *= float64(j.Least)
			j.Servers = make([]schedule.Resources, 3)
			s.jobs = append(s.jobs, j)
		}
		s.run(5)
		var sum, squares float64
		for _, used := range s.used {
			sum, squares = sum+used, squares+used*used
		}
		fair := sum * sum / (5 * squares) // Jain's index: 1 where all have the same
		if s.contends < 300 || fair < 0.75 {
			t.Errorf("seed %d: fairness %.3f in %.0f s: %v", seed, fair, s.contends, s.used)
		}
		fairest, least, worst, longest = fairest+fair/float64(seeds), min(least, fair), max(worst, s.worst), max(longest, s.now)
		if s.worst > 2*time.Hour || s.now > 2*time.Hour {
			t.Errorf("seed %d: a job has waited for %v of %v", seed, s.worst, s.now)
		}
	}
	if fairest < 0.94 {
		t.Errorf("fairness %.3f on average", fairest)
	}
	t.Logf("%d times: fairness (Jain) %.3f on average, %.3f at least; the longest wait %v, the longest time for all jobs %v", seeds, fairest, least, worst, longest)
}

// A job that needs both nodes whole starts, although others never stop coming, and before long: it is passed for PassTime only, and then waits for what runs.
func TestNobodyStarves(t *testing.T) {
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 8))
		s := &simulation{t: t, m: schedule.New(schedule.DefaultPolicy(), schedule.Node{Name: "a", Has: schedule.Resources{Cores: 4000}},
			schedule.Node{Name: "b", Has: schedule.Resources{Cores: 4000}}), used: map[string]float64{}, cores: map[string]int64{"a": 4, "b": 4}}
		add := func(id, owner string, trainers int, comes time.Duration, work float64) *simulated {
			j := &simulated{comes: comes, work: work * float64(trainers)}
			j.ID, j.Owner, j.Least, j.Most, j.Trainer.Cores = id, owner, trainers, trainers, 1000
			s.jobs = append(s.jobs, j)
			return j
		}
		for i := range 120 {
			add(fmt.Sprint("small", i), fmt.Sprint("u", random.IntN(40)), 1+random.IntN(3), time.Duration(1+20*i)*time.Second, float64(30+random.IntN(90)))
		}
		large := add("large", "v", 8, time.Minute, 60)
		s.run(41)
		if wait := large.started - large.comes; wait > 30*time.Minute {
			t.Errorf("seed %d: the large job waits for %v", seed, wait)
		}
	}
}

// Jobs of a higher priority come again and again. They start soon, since others are suspended for them, and those end, too: each has its turn, and no node has more in
// use than it has.
func TestSuspension(t *testing.T) {
	suspended, worst := 0, time.Duration(0)
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 9))
		s := &simulation{t: t, m: schedule.New(schedule.DefaultPolicy(), schedule.Node{Name: "a", Has: schedule.Resources{Cores: 4000}},
			schedule.Node{Name: "b", Has: schedule.Resources{Cores: 4000}}), used: map[string]float64{}, cores: map[string]int64{"a": 4, "b": 4}, stays: random}
		for i := range 60 {
			j := &simulated{comes: time.Duration(1+random.IntN(3600)) * time.Second, work: float64(300 + random.IntN(900))}
			j.ID, j.Owner, j.Trainer.Cores = fmt.Sprint("j", i), fmt.Sprint("u", random.IntN(4)), 1000
			j.Least, j.Yields = 1+random.IntN(3), random.IntN(5) > 0
			if j.Most = j.Least; random.IntN(3) == 0 {
				j.Most += random.IntN(4)
			}
			if i%4 == 0 {
				j.Priority, j.work = 1+random.IntN(2), j.work/4
			}
			j.work *= float64(j.Least)
			s.jobs = append(s.jobs, j)
		}
		s.run(5)
		for _, j := range s.jobs {
			suspended += j.times
			if j.Priority == 2 {
				if j.times > 0 {
					t.Errorf("seed %d: %+v was suspended, and nothing comes before it", seed, j)
				}
				worst = max(worst, j.waited)
			}
		}
	}
	if suspended < 50 || worst > 30*time.Minute {
		t.Errorf("%d times a job was suspended, and a job of the highest priority has waited for %v", suspended, worst)
	}
	t.Logf("%d times a job was suspended; the longest wait of a job of the highest priority: %v", suspended, worst)
}
