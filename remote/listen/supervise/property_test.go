package supervise_test

import (
	"errors"
	"slices"
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
		policy := supervise.Policy{LostLease: time.Second, Release: 10 * time.Second, PServers: rapid.IntRange(1, 3).Draw(t, "pservers"), MaxRestarts: rapid.IntRange(0, 4).Draw(t, "restarts"),
			DrainTime: 10 * time.Second, GoesBack: rapid.Bool().Draw(t, "back"), Standbys: rapid.Bool().Draw(t, "standbys")}
		m := supervise.New(policy, rapid.IntRange(1, 4).Draw(t, "trainers"))
		var now time.Duration
		running, starts := map[cluster.Member]bool{}, map[cluster.Member]int{}
		since, good := map[cluster.Member]time.Duration{}, map[cluster.Member]int{} // good: runs after which restarts count anew
		free := map[cluster.Member]int{}                                            // starts that do not count: after ends in order, for another number of pservers, and as a pserver
		var began time.Duration                                                     // of the attempt
		attempt, goodAttempts := 0, 0
		ended, backs, goingBack := false, 0, false
		moves, moving := 0, false
		suspensions, forgetting := 0, false
		asked, was := []supervise.TakeOver{}, map[cluster.Member]supervise.Start{} // was: processes of standbys that are pservers now
		do := func(e supervise.Event) {
			if rapid.IntRange(0, 9).Draw(t, "saved") == 0 { // and another process goes on
				restored, err := supervise.Restore(policy, supervise.Save(m, now))
				if err != nil {
					t.Fatal(err)
				}
				for member, process := range supervise.Processes(restored) {
					if of, replaced := was[member]; replaced && process != of || !replaced && (process.Member != member || process.Before != starts[member]-1) {
						t.Fatalf("%v is said to run in process %+v, after %d starts", member, process, starts[member])
					}
				}
				if again := supervise.Again(restored); again.Forget != (forgetting && !ended) || again.Forget && len(running) > 0 {
					t.Fatalf("%+v is done again while %v run; the attempt is being forgotten: %v", again, running, forgetting)
				}
				m = restored
			}
			out, err := m.Step(now, e)
			_, scales := e.(supervise.Scaled)
			if _, suspends := e.(supervise.Suspended); err != nil && !scales && !suspends {
				t.Fatalf("%T: %v", e, err)
			}
			if ended && (out.Move > 0 || out.Placed || out.Stays != nil) || out.Move > 0 && (moving || out.Move <= moves) || (out.Placed || out.Stays != nil) && !moving ||
				out.Placed && out.Stays != nil {
				t.Fatalf("%+v after %d moves; one is under way: %v, the job has ended: %v", out, moves, moving, ended)
			}
			if moves = max(moves, out.Move); out.Move > 0 || out.Placed || out.Stays != nil {
				moving = out.Move > 0
			}
			if ended && (len(out.Start)+len(out.Drain)+len(out.Kill) > 0 || out.Forget || out.End || out.GoBack > 0 || out.Back) {
				t.Fatalf("%+v after the end", out)
			}
			for _, member := range slices.Concat(out.Drain, out.Kill) {
				if !running[member] {
					t.Fatalf("%v does not run, and is to end: %+v", member, out)
				}
			}
			if waits, _ := supervise.IsSuspended(m); waits && len(out.Start) > 0 {
				t.Fatalf("%+v while the job is suspended", out)
			}
			if out.Forget && len(running) > 0 {
				t.Fatalf("an attempt is forgotten while %v run", running)
			}
			asked = append(asked, out.TakeOver...)
			for _, start := range out.Start {
				if running[start.Member] || start.Before != starts[start.Member] {
					t.Fatalf("start %d of %v, which runs: %v", start.Before, start.Member, running[start.Member])
				}
				running[start.Member] = true
				starts[start.Member]++
				since[start.Member] = now
				delete(was, start.Member)
			}
			for _, index := range out.Replaced {
				of, by := cluster.Member{Role: job.Role_PSERVER, Index: index}, cluster.Member{Role: job.Role_STANDBY, Index: index}
				if running[of] || !running[by] {
					t.Fatalf("the process of %v, which runs: %v, becomes that of %v, which runs: %v", by, running[by], of, running[of])
				}
				running[of], since[of], was[of] = true, now, supervise.Start{Member: by, Before: starts[by] - 1}
				starts[of]++
				free[by]++
				free[of]++
				delete(running, by)
			}
			for i := range 4 {
				if out.Placed {
					free[cluster.Member{Role: job.Role_STANDBY, Index: i}]++
				}
				if out.Move > 0 {
					free[cluster.Member{Role: job.Role_PSERVER, Index: i}]++
				}
			}
			if m.Attempt() > attempt {
				if attempt = m.Attempt(); now-began >= supervise.GoodRun {
					goodAttempts++
				}
			}
			if _, answered := e.(supervise.Forgotten); answered {
				forgetting, began = false, now
			}
			if forgetting && len(out.Start) > 0 {
				t.Fatalf("%+v while the attempt before is being forgotten", out)
			}
			forgetting = forgetting || out.Forget
			if out.GoBack > 0 && (out.GoBack <= backs || goingBack && !out.Back || len(out.Kill) > 0 && !policy.Standbys) || out.Back && !goingBack {
				t.Fatalf("%+v after %d times; going back: %v", out, backs, goingBack)
			}
			backs = max(backs, out.GoBack)
			goingBack = m.GoesBack() != nil
			ended = ended || out.End
		}
		exit := func(member cluster.Member, err error, trained bool) {
			delete(running, member)
			if now-since[member] >= supervise.GoodRun {
				good[member]++
			}
			if errors.Is(err, fault.Drained) && policy.MaxRestarts > 0 {
				free[member]++
			}
			do(supervise.Exited{Member: member, Err: err, Trained: trained})
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
		do(supervise.Began{})
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			now += time.Duration(rapid.IntRange(0, 70_000).Draw(t, "ms")) * time.Millisecond
			member := some()
			if forgetting && rapid.Bool().Draw(t, "forgotten") {
				do(supervise.Forgotten{})
				continue
			}
			switch rapid.IntRange(0, 10).Draw(t, "event") {
			case 10:
				if len(asked) > 0 {
					e := supervise.TookOver{TakeOver: rapid.SampledFrom(asked).Draw(t, "takeover")}
					if !running[cluster.Member{Role: job.Role_STANDBY, Index: e.Index}] || rapid.Bool().Draw(t, "failed") {
						e.Err = fault.New(fault.LostMember, "no standby")
					}
					do(e)
				}
			case 8:
				do(supervise.Suspended{})
				if waits, _ := supervise.IsSuspended(m); waits {
					suspensions++
				}
			case 9:
				do(supervise.Resumed{Trainers: rapid.IntRange(1, 4).Draw(t, "wanted")})
			case 0, 1:
				if member != (cluster.Member{}) {
					kind := rapid.SampledFrom([]fault.Kind{fault.LostMember, fault.Fenced, fault.Internal, fault.Drained}).Draw(t, "kind")
					exit(member, fault.New(kind, "some end"), rapid.Bool().Draw(t, "trained"))
				}
			case 2:
				if member != (cluster.Member{}) {
					do(supervise.LeaseLost{Member: member, Starts: starts[member] - rapid.IntRange(0, 1).Draw(t, "old")})
				}
			case 3:
				do(supervise.Wanted{Trainers: rapid.IntRange(1, 4).Draw(t, "wanted")})
			case 4:
				do(supervise.Tick{})
			case 6:
				do(supervise.Scaled{Servers: rapid.IntRange(1, 4).Draw(t, "servers")})
			case 7:
				e := supervise.Moved{Number: max(0, moves-rapid.IntRange(0, 1).Draw(t, "late"))}
				if rapid.Bool().Draw(t, "failed") {
					e.Err, e.Unknown = fault.New(fault.LostMember, "no state"), rapid.Bool().Draw(t, "unknown")
				}
				do(e)
			case 5:
				e := supervise.WentBack{Number: max(0, backs-rapid.IntRange(0, 1).Draw(t, "late"))}
				if rapid.Bool().Draw(t, "failed") {
					e.Err = fault.New(fault.LostMember, "no checkpoint")
				}
				do(e)
			}
		}
		do(supervise.Resumed{Trainers: 2})
		for range 200 {
			for _, r := range m.Roles() {
				if running[r.Member] && r.Role == job.Role_TRAINER {
					exit(r.Member, nil, false)
				}
			}
			if forgetting && !ended {
				do(supervise.Forgotten{})
			}
			if at, ok := m.Next(); ok {
				now = max(now, at)
				do(supervise.Tick{})
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
			most := (policy.MaxRestarts + 1) * (policy.MaxRestarts + 1) * (suspensions + 1) * (free[member] + 1)
			if policy.MaxRestarts > 0 {
				most *= (good[member] + 1) * (goodAttempts + 1)
			}
			if member.Role != job.Role_TRAINER && n > most {
				t.Fatalf("%v started %d times, at most %d", member, n, most)
			}
		}
	})
}

// Coordinators, trainers and standbys are killed in any order and as often as the job allows, and pservers whose standbys take their places or which all go back
// for. The job never starts over: only a pserver that nobody replaces, and a coordinator that says that state is gone, are the end of an attempt.
func TestKillsDoNotStartOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := supervise.Policy{PServers: rapid.IntRange(1, 3).Draw(t, "pservers"), MaxRestarts: 1000, LostLease: time.Second, Release: 10 * time.Second,
			DrainTime: 10 * time.Second, GoesBack: rapid.Bool().Draw(t, "back"), Standbys: rapid.Bool().Draw(t, "standbys"), OneAttempt: rapid.Bool().Draw(t, "fed")}
		policy.GoesBack = policy.GoesBack && !policy.OneAttempt
		m := supervise.New(policy, rapid.IntRange(1, 3).Draw(t, "trainers"))
		var now time.Duration
		var owed []supervise.Event // answers to what the machine has asked
		do := func(e supervise.Event) {
			out, err := m.Step(now, e)
			if err != nil {
				t.Fatalf("%T: %v", e, err)
			}
			if out.Forget || out.End || m.Attempt() > 0 {
				t.Fatalf("%+v after %+v, in attempt %d", out, e, m.Attempt())
			}
			if out.GoBack > 0 {
				owed = append(owed, supervise.WentBack{Number: out.GoBack})
			}
			for _, asked := range out.TakeOver {
				owed = append(owed, supervise.TookOver{TakeOver: asked})
			}
			if m, err = supervise.Restore(policy, supervise.Save(m, now)); err != nil {
				t.Fatal(err)
			}
		}
		do(supervise.Began{})
		for range rapid.IntRange(1, 80).Draw(t, "events") {
			now += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0:
				do(supervise.Progressed{})
			case 1:
				if len(owed) > 0 {
					i := rapid.IntRange(0, len(owed)-1).Draw(t, "answer")
					answer := owed[i]
					owed = slices.Delete(owed, i, i+1)
					do(answer)
				}
			case 2:
				do(supervise.Tick{})
			default: // a coordinator more often than others
				killed := cluster.Member{Role: job.Role_COORDINATOR}
				var live []cluster.Member
				for _, r := range m.Roles() {
					mendable := r.Role != job.Role_PSERVER || policy.GoesBack || policy.Standbys && standbyRuns(m, r.Index) && !m.TakesOver(r.Index)
					if r.State == supervise.Running && mendable && (r.Role != job.Role_STANDBY || !m.TakesOver(r.Index) || policy.GoesBack) {
						live = append(live, r.Member)
					}
				}
				if len(live) > 0 && rapid.Bool().Draw(t, "another") {
					killed = rapid.SampledFrom(live).Draw(t, "member")
				}
				if slices.Contains(live, killed) {
					do(supervise.Exited{Member: killed, Err: fault.New(fault.LostMember, "killed"), Trained: killed.Role == job.Role_PSERVER})
				}
			}
		}
	})
}

// standbyRuns reports whether a pserver has a standby that can take its place.
func standbyRuns(m *supervise.Machine, index int) bool {
	return slices.ContainsFunc(m.Roles(), func(r supervise.Role) bool {
		return r.Role == job.Role_STANDBY && r.Index == index && r.State == supervise.Running
	})
}
