package supervise_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// Whatever happens in whatever order: a role has at most one process, nothing happens after the end, no role starts more often than the job allows,
// and a job whose roles end well from some time on ends well or has been given up.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := supervise.Policy{PServers: rapid.IntRange(1, 3).Draw(t, "pservers"), MaxRestarts: rapid.IntRange(0, 4).Draw(t, "restarts"),
			DrainTime: 10 * time.Second}
		m := supervise.New(policy, rapid.IntRange(1, 4).Draw(t, "trainers"))
		var now time.Duration
		running, starts := map[cluster.Member]bool{}, map[cluster.Member]int{}
		since, good := map[cluster.Member]time.Duration{}, map[cluster.Member]int{} // good: runs after which restarts count anew
		ended := false
		do := func(effects []supervise.Effect) {
			for _, e := range effects {
				if ended {
					t.Fatalf("%v %v after the end", e.Do, e.Member)
				}
				switch e.Do {
				case supervise.Start:
					if running[e.Member] || e.Start != starts[e.Member] {
						t.Fatalf("start %d of %v, which runs: %v", e.Start, e.Member, running[e.Member])
					}
					running[e.Member] = true
					starts[e.Member]++
					since[e.Member] = now
				case supervise.Drain, supervise.Kill:
					if !running[e.Member] {
						t.Fatalf("%v of %v, which does not run", e.Do, e.Member)
					}
				case supervise.Forget:
					if len(running) > 0 {
						t.Fatalf("a history is forgotten while %v run", running)
					}
				case supervise.End:
					ended = true
				}
			}
		}
		exit := func(member cluster.Member, err error, trained bool) {
			delete(running, member)
			if now-since[member] >= supervise.GoodRun {
				good[member]++
			}
			do(m.Exited(now, member, err, trained))
		}
		some := func() cluster.Member {
			var live []cluster.Member
			for _, r := range m.Roles() {
				if running[r.Member] {
					live = append(live, r.Member)
				}
			}
			if len(live) == 0 {
				return cluster.Member{}
			}
			return rapid.SampledFrom(live).Draw(t, "member")
		}
		do(m.Begin(now))
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			now += time.Duration(rapid.IntRange(0, 70_000).Draw(t, "ms")) * time.Millisecond
			member := some()
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0, 1:
				if member != (cluster.Member{}) {
					kind := rapid.SampledFrom([]fault.Kind{fault.LostMember, fault.Fenced, fault.Internal, fault.Drained}).Draw(t, "kind")
					exit(member, fault.New(kind, "some end"), rapid.Bool().Draw(t, "trained"))
				}
			case 2:
				if member != (cluster.Member{}) {
					m.LeaseLost(now, member)
				}
			case 3:
				do(m.Wanted(now, rapid.IntRange(1, 4).Draw(t, "wanted")))
			case 4:
				do(m.Tick(now))
			}
		}
		for range 200 {
			for _, r := range m.Roles() {
				if running[r.Member] && r.Role == job.Role_TRAINER {
					exit(r.Member, nil, false)
				}
			}
			if at, ok := m.Next(); ok {
				now = max(now, at)
				do(m.Tick(now))
				continue
			}
			if member := some(); member != (cluster.Member{}) {
				exit(member, nil, false)
			}
		}
		if !ended {
			t.Fatalf("the job does not end: %+v", m.Roles())
		}
		for member, n := range starts {
			most := (policy.MaxRestarts + 1) * (policy.MaxRestarts + 1)
			if policy.MaxRestarts > 0 {
				most *= good[member] + 1
			}
			if member.Role != job.Role_TRAINER && n > most {
				t.Fatalf("%v started %d times, at most %d", member, n, most)
			}
		}
	})
}
