package supervise_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/internal/scripttest"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// kinds are the ends that scripts know by name.
var kinds = map[string]fault.Kind{"lost": fault.LostMember, "gone": fault.LostState, "fenced": fault.Fenced, "crash": fault.Internal, "drained": fault.Drained,
	"unavailable": fault.Unavailable, "deadline": fault.DeadlineExceeded, "argument": fault.InvalidArgument, "corrupt": fault.Corrupt,
	"nan": fault.NotFinite, "foreign": fault.Foreign}

// memberOf reads "coordinator", "pserver-0" or "trainer-1".
func memberOf(name string) cluster.Member {
	role, index, _ := strings.Cut(name, "-")
	n, _ := strconv.Atoi(index)
	return cluster.Member{Role: job.Role(job.Role_value[strings.ToUpper(role)]), Index: n}
}

func nameOf(m cluster.Member) string { return strings.ReplaceAll(m.String(), " ", "-") }

// TestScripts tells the stories of jobs. Time goes on by "after=" of each command.
//
//	new pservers=N trainers=N restarts=N   a job; back=yes: one with checkpoints; standbys=yes: one with standbys
//	begin                                  its start
//	exit NAME KIND [trained]               a role ends; KIND "well" is no error
//	lost NAME [starts=N]                   the lease of a role, of its last start or another, is gone
//	want N                                 another number of trainers
//	back [number=N] [failed=KIND]          the answer to "go back"
//	forgotten [failed=KIND]                the answer to "forget the attempt"
//	restored                               what another process that goes on with the job does again
//	taken index=N number=N [failed=KIND]   the answer to "take over"
//	suspend                                end the attempt, until
//	resume N                               with so many trainers
//	step                                   the job makes one
//	tick                                   nothing but time
//	roles                                  what is known of them
func TestScripts(t *testing.T) {
	scripttest.RunDir(t, "testdata", func(t *testing.T) func(scripttest.Command) string {
		var m *supervise.Machine
		var policy supervise.Policy
		var now time.Duration
		return func(c scripttest.Command) string {
			number := func(key string, otherwise int) int {
				n, err := strconv.Atoi(c.Arg(key, strconv.Itoa(otherwise)))
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			after, err := time.ParseDuration(c.Arg("after", "0s"))
			if err != nil {
				t.Fatal(err)
			}
			now += after
			step := func(e supervise.Event) string {
				out, err := m.Step(now, e)
				if err != nil {
					return "refused: " + err.Error()
				}
				if m, err = supervise.Restore(policy, supervise.Save(m, now)); err != nil { // every story goes on in another process
					t.Fatal(err)
				}
				return told(out)
			}
			switch c.Name {
			case "new":
				now = 0
				policy = supervise.Policy{PServers: number("pservers", 1), MaxRestarts: number("restarts", 10), DrainTime: 10 * time.Second,
					LostLease: time.Second, Release: 10 * time.Second,
					OneAttempt: number("attempts", 0) == 1, GoesBack: c.Arg("back", "no") == "yes", Standbys: c.Arg("standbys", "no") == "yes"}
				m = supervise.New(policy, number("trainers", 2))
			case "begin":
				return step(supervise.Began{})
			case "exit":
				var err error
				if kind, ok := kinds[c.Args[1]]; ok {
					err = fault.New(kind, c.Args[1])
				} else if c.Args[1] != "well" {
					t.Fatalf("no kind %s", c.Args[1])
				}
				return step(supervise.Exited{Member: memberOf(c.Args[0]), Err: err, Trained: strings.Contains(strings.Join(c.Args, " "), "trained")})
			case "lost":
				member := memberOf(c.Args[0])
				return step(supervise.LeaseLost{Member: member, Starts: number("starts", m.StartsOf(member))})
			case "back":
				var err error
				if kind, ok := kinds[c.Arg("failed", "")]; ok {
					err = fault.New(kind, "no checkpoint")
				}
				return step(supervise.WentBack{Number: number("number", 1), Err: err})
			case "forgotten":
				var err error
				if kind, ok := kinds[c.Arg("failed", "")]; ok {
					err = fault.New(kind, "no checkpoint can be read")
				}
				return step(supervise.Forgotten{Err: err})
			case "restored":
				if s := told(supervise.Again(m)); s != "" {
					return s
				}
				return "nothing again"
			case "taken":
				var err error
				if kind, ok := kinds[c.Arg("failed", "")]; ok {
					err = fault.New(kind, "not in step")
				}
				return step(supervise.TookOver{TakeOver: supervise.TakeOver{Index: number("index", 0), Number: number("number", 1)}, Err: err})
			case "scale":
				return step(supervise.Scaled{Servers: number("pservers", 0)})
			case "moved":
				var err error
				if kind, ok := kinds[c.Arg("failed", "")]; ok {
					err = fault.New(kind, "no state")
				}
				return step(supervise.Moved{Number: number("number", 1), Err: err, Unknown: c.Arg("unknown", "no") == "yes"})
			case "want":
				n, err := strconv.Atoi(c.Args[0])
				if err != nil {
					t.Fatal(err)
				}
				return step(supervise.Wanted{Trainers: n})
			case "suspend":
				return step(supervise.Suspended{})
			case "resume":
				n, err := strconv.Atoi(c.Args[0])
				if err != nil {
					t.Fatal(err)
				}
				return step(supervise.Resumed{Trainers: n})
			case "step":
				return step(supervise.Progressed{})
			case "tick":
				return step(supervise.Tick{})
			case "next":
				if at, ok := m.Next(); ok {
					return fmt.Sprintf("in %v", at-now)
				}
				return "nothing to come"
			case "roles":
				var lines []string
				for _, r := range m.Roles() {
					line := fmt.Sprintf("%s: %v, %d starts", nameOf(r.Member), r.State, r.Starts)
					if r.Lost {
						line += ", without a lease"
					}
					lines = append(lines, line)
				}
				return strings.Join(lines, "\n")
			default:
				t.Fatalf("no command %s", c.Name)
			}
			return ""
		}
	})
}

// told writes effects as scripts show them.
func told(e supervise.Effects) string {
	var lines []string
	if e.Placed {
		lines = append(lines, "the job has other pservers")
	}
	if e.Stays != nil {
		lines = append(lines, "the pservers stay: "+e.Stays.Error())
	}
	for _, member := range e.Drain {
		lines = append(lines, "drain "+nameOf(member))
	}
	for _, member := range e.Kill {
		lines = append(lines, "kill "+nameOf(member))
	}
	if e.Forget {
		lines = append(lines, "forget the attempt")
	}
	for _, start := range e.Start {
		lines = append(lines, fmt.Sprintf("start %s, started %d times before", nameOf(start.Member), start.Before))
	}
	for _, t := range e.TakeOver {
		lines = append(lines, fmt.Sprintf("standby-%d takes over, %d", t.Index, t.Number))
	}
	for _, index := range e.Replaced {
		lines = append(lines, fmt.Sprintf("pserver-%d is the process of its standby", index))
	}
	if e.Move > 0 {
		lines = append(lines, fmt.Sprintf("move, %d", e.Move))
	}
	if e.Back {
		lines = append(lines, "the job has gone back")
	}
	if e.GoBack > 0 {
		lines = append(lines, fmt.Sprintf("go back, %d", e.GoBack))
	}
	switch {
	case e.End && e.Err == nil:
		lines = append(lines, "the job ends well")
	case e.End:
		var f *fault.Fault
		_ = errors.As(e.Err, &f)
		lines = append(lines, fmt.Sprintf("the job fails, %v: %v", f.Kind, e.Err))
	}
	return strings.Join(lines, "\n")
}

// Word of a role that the job does not have is refused, and is not the wish to have one.
func TestStrangersAreRefused(t *testing.T) {
	m := supervise.New(supervise.Policy{PServers: 1, LostLease: time.Second, Release: 10 * time.Second}, 1)
	if _, err := m.Step(0, supervise.Began{}); err != nil {
		t.Fatal(err)
	}
	stranger := cluster.Member{Role: job.Role_TRAINER, Index: 7}
	for _, e := range []supervise.Event{supervise.LeaseLost{Member: stranger, Starts: 1}, supervise.Exited{Member: stranger}} {
		if out, err := m.Step(1, e); !errors.Is(err, fault.NotFound) {
			t.Errorf("%T: %+v, %v", e, out, err)
		}
	}
	out, err := m.Step(2, supervise.Tick{})
	if n := m.StartsOf(stranger); n != 0 || err != nil || len(out.Start) != 0 || len(m.Roles()) != 3 {
		t.Errorf("%d starts, then %+v, %v, roles %v", n, out, err, m.Roles())
	}
}

// The clock of the wall may jump between two listeners, or the next one comes after an hour. Roles that run go on: nothing is started, ended or given up, and no attempt begins.
func TestClockJumpsBetweenListeners(t *testing.T) {
	policy := supervise.Policy{PServers: 2, MaxRestarts: 3, DrainTime: 10 * time.Second, LostLease: time.Second, Release: 10 * time.Second, Standbys: true, GoesBack: true}
	m := supervise.New(policy, 2)
	began, err := m.Step(0, supervise.Began{})
	if err != nil || len(began.Start) == 0 {
		t.Fatal(began, err)
	}
	nothing := told(supervise.Effects{})
	for _, jump := range []time.Duration{0, time.Minute, time.Hour, 10_000 * time.Hour} {
		now := time.Second + jump
		next, err := supervise.Restore(policy, supervise.Save(m, time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if again := told(supervise.Again(next)); again != nothing {
			t.Errorf("after a jump of %v: %s", jump, again)
		}
		for range 2 {
			out, err := next.Step(now, supervise.Tick{})
			if err != nil || told(out) != nothing {
				t.Errorf("after a jump of %v: %s, %v", jump, told(out), err)
			}
			now += time.Minute
		}
		if at, ok := next.Next(); ok {
			t.Errorf("after a jump of %v something is due at %v", jump, at)
		}
	}
}
