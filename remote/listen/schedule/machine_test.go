package schedule_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/internal/scripttest"
	"github.com/edl-go/edl/remote/listen/schedule"
)

// TestScripts tells the stories of lines of jobs. Time goes on by "after=" of each command.
//
//	new cores=N memory=MIB                       one node; nodes=a:4,b:2 names nodes and their cores
//	submit ID owner=O trainers=N:M servers=N     a job; each=CORES of a trainer, server=CORES, memory=MIB of each role, priority=P, yields=yes
//	waited ID for=JOB held=yes ...               one that an earlier listener has suspended
//	runs ID trainers=N ...                       one that runs already
//	has ID N                                     trainers of a job that have not ended
//	asked ID N                                   by the user
//	left ID, stays ID                            the answers to "suspend"
//	hold ID, release ID                          by the user
//	end ID
//	nodes a:4,b:2,c:1-                           other nodes; - is cordoned
//	tick                                         nothing but time
//	why ID                                       what it waits for
//	next                                         when time matters
func TestScripts(t *testing.T) {
	scripttest.RunDir(t, "testdata", func(t *testing.T) func(scripttest.Command) string {
		var m *schedule.Machine
		var now time.Duration
		return func(c scripttest.Command) string {
			after, err := time.ParseDuration(c.Arg("after", "0s"))
			if err != nil {
				t.Fatal(err)
			}
			now += after
			step := func(e schedule.Event) string {
				out, err := m.Step(now, e)
				if err != nil {
					return "refused: " + err.Error()
				}
				return told(out)
			}
			switch c.Name {
			case "new":
				now = 0
				nodes := nodesOf(t, c.Arg("nodes", ""))
				if len(nodes) == 0 {
					nodes = []schedule.Node{{Has: schedule.Resources{Cores: number(t, c, "cores", 0) * 1000, Memory: number(t, c, "memory", 0) << 20}}}
				}
				policy := schedule.DefaultPolicy()
				policy.MostWaiting, policy.MostOwned = 4, 3
				m = schedule.New(policy, nodes...)
				return ""
			case "submit":
				return step(schedule.Submitted{Job: jobOf(t, c)})
			case "runs":
				return step(schedule.Runs{Job: jobOf(t, c), Trainers: int(number(t, c, "has", 1))})
			case "has":
				n, _ := strconv.Atoi(c.Args[1])
				return step(schedule.Has{ID: c.Args[0], Trainers: n})
			case "asked":
				n, _ := strconv.Atoi(c.Args[1])
				return step(schedule.Asked{ID: c.Args[0], Most: n})
			case "waited":
				return step(schedule.Waited{Job: jobOf(t, c), Suspension: schedule.Suspension{For: c.Arg("for", ""), Held: c.Arg("held", "no") == "yes"}})
			case "left":
				return step(schedule.Left{ID: c.Args[0]})
			case "stays":
				return step(schedule.Stays{ID: c.Args[0]})
			case "hold":
				return step(schedule.Hold{ID: c.Args[0]})
			case "release":
				return step(schedule.Release{ID: c.Args[0]})
			case "end":
				return step(schedule.Ended{ID: c.Args[0]})
			case "nodes":
				return step(schedule.Nodes{List: nodesOf(t, c.Args[0])})
			case "tick":
				return step(schedule.Tick{})
			case "why":
				r, ok := schedule.Why(m, c.Args[0])
				if !ok {
					return "it does not wait"
				}
				return fmt.Sprintf("for %v: %v", now-r.Since, r)
			case "next":
				at, ok := m.Next()
				if !ok {
					return "no time matters"
				}
				return fmt.Sprint("at ", at)
			}
			t.Fatalf("unknown command %s", c.Name)
			return ""
		}
	})
}

func number(t *testing.T, c scripttest.Command, key string, otherwise int64) int64 {
	n, err := strconv.ParseInt(c.Arg(key, fmt.Sprint(otherwise)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func nodesOf(t *testing.T, text string) (nodes []schedule.Node) {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		name, cores, _ := strings.Cut(part, ":")
		cores, cordoned := strings.CutSuffix(cores, "-")
		n, err := strconv.ParseFloat(cores, 64)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, schedule.Node{Name: name, Has: schedule.Resources{Cores: int64(n * 1000)}, Cordoned: cordoned})
	}
	return nodes
}

func jobOf(t *testing.T, c scripttest.Command) schedule.Job {
	first, most, elastic := strings.Cut(c.Arg("trainers", "1"), ":")
	if !elastic {
		most = first
	}
	least, _ := strconv.Atoi(first)
	to, _ := strconv.Atoi(most)
	memory := number(t, c, "memory", 0) << 20
	j := schedule.Job{ID: c.Args[0], Owner: c.Arg("owner", "u"), Priority: int(number(t, c, "priority", 0)), Least: least, Most: to, Yields: c.Arg("yields", "no") == "yes",
		Trainer: schedule.Resources{Cores: number(t, c, "each", 1) * 1000, Memory: memory}}
	for range number(t, c, "servers", 0) {
		j.Servers = append(j.Servers, schedule.Resources{Cores: number(t, c, "server", 0) * 1000, Memory: memory})
	}
	return j
}

// told writes effects, with nodes where they have names.
func told(out schedule.Effects) string {
	var lines []string
	named := func(verb string, nodes []string) string {
		if !slices.ContainsFunc(nodes, func(n string) bool { return n != "" }) {
			return ""
		}
		return " " + verb + " " + strings.Join(nodes, " ")
	}
	for _, s := range out.Start {
		lines = append(lines, fmt.Sprintf("start %s with %d%s%s", s.ID, s.Trainers, named("on", s.Nodes), named("servers on", s.Servers)))
	}
	for _, s := range out.Scale {
		lines = append(lines, fmt.Sprintf("scale %s to %d%s", s.ID, s.Trainers, named("on", s.Nodes)))
	}
	for _, id := range out.Suspend {
		lines = append(lines, "suspend "+id)
	}
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.Join(lines, "\n")
}

// What no job can be is refused, and changes nothing.
func TestHostileJobs(t *testing.T) {
	m := schedule.New(schedule.DefaultPolicy(), schedule.Node{})
	fine := schedule.Job{ID: "a", Least: 1, Most: 1}
	for what, change := range map[string]func(*schedule.Job){
		"no trainers":        func(j *schedule.Job) { j.Least = 0 },
		"most below least":   func(j *schedule.Job) { j.Least = 3 },
		"trainers":           func(j *schedule.Job) { j.Most = 1 << 40 },
		"negative cores":     func(j *schedule.Job) { j.Trainer.Cores = -1 },
		"cores":              func(j *schedule.Job) { j.Trainer.Cores = 1 << 62 },
		"memory of a server": func(j *schedule.Job) { j.Servers = []schedule.Resources{{Memory: 1 << 62}} },
		"servers":            func(j *schedule.Job) { j.Servers = make([]schedule.Resources, 1<<20) },
	} {
		j := fine
		change(&j)
		for _, e := range []schedule.Event{schedule.Submitted{Job: j}, schedule.Waited{Job: j}, schedule.Runs{Job: j, Trainers: 1}} {
			if out, err := m.Step(0, e); !errors.Is(err, fault.InvalidArgument) || len(out.Start) > 0 {
				t.Errorf("%s: %v, %v", what, out, err)
			}
		}
	}
	if out, err := m.Step(0, schedule.Submitted{Job: fine}); err != nil || len(out.Start) != 1 {
		t.Errorf("%v, %v", out, err)
	}
}

// What owners have used counts at the next listener, and less the longer ago it was.
func TestUsesAreKept(t *testing.T) {
	m := schedule.New(schedule.DefaultPolicy(), schedule.Node{Has: schedule.Resources{Cores: 1000}})
	step := func(m *schedule.Machine, now time.Duration, e schedule.Event) schedule.Effects {
		t.Helper()
		out, err := m.Step(now, e)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	one := func(id, owner string) schedule.Job {
		return schedule.Job{ID: id, Owner: owner, Least: 1, Most: 1, Trainer: schedule.Resources{Cores: 1000}}
	}
	step(m, 0, schedule.Submitted{Job: one("a", "heavy")})
	step(m, time.Hour, schedule.Ended{ID: "a"})
	if uses := schedule.Uses(m); uses["heavy"] < 2500 || uses["heavy"] > 2700 { // an hour that decays: 3600/(2 ln 2)
		t.Errorf("used: %v", uses)
	}
	next := schedule.New(schedule.DefaultPolicy(), schedule.Node{Has: schedule.Resources{Cores: 1000}})
	schedule.SetUses(next, schedule.Uses(m), time.Hour)
	if uses := schedule.Uses(next); uses["heavy"] < 1250 || uses["heavy"] > 1350 {
		t.Errorf("an hour later: %v", uses)
	}
	back := schedule.New(schedule.DefaultPolicy(), schedule.Node{Has: schedule.Resources{Cores: 1000}})
	schedule.SetUses(back, schedule.Uses(m), -time.Hour) // the clock was set back between two listeners
	if was, uses := schedule.Uses(m), schedule.Uses(back); uses["heavy"] != was["heavy"] {
		t.Errorf("by a clock that was set back: %v, want %v", uses, was)
	}
	step(next, 0, schedule.Submitted{Job: one("busy", "other")})
	step(next, 0, schedule.Submitted{Job: one("b", "heavy")})
	step(next, 0, schedule.Submitted{Job: one("c", "light")})
	if out := step(next, time.Second, schedule.Ended{ID: "busy"}); len(out.Start) != 1 || out.Start[0].ID != "c" {
		t.Errorf("%v starts, want c, whose owner has used nothing", out)
	}
}
