package generation_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/scripttest"
)

// stage carries out the commands of a script. Times are seconds.
type stage struct {
	t       *testing.T
	machine *generation.Machine
	policy  generation.Policy
	now     time.Duration
	change  uint64 // of the last effect
}

func (s *stage) number(c scripttest.Command, key, otherwise string) uint64 {
	n, err := strconv.ParseUint(c.Arg(key, otherwise), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *stage) ranks(c scripttest.Command, key string) (ranks []id.Rank) {
	for _, word := range strings.FieldsFunc(c.Arg(key, ""), func(r rune) bool { return r == ',' }) {
		n, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			s.t.Fatal(err)
		}
		ranks = append(ranks, id.Rank(n))
	}
	return ranks
}

func numbers(ranks []id.Rank) (out []uint32) {
	for _, rank := range ranks {
		out = append(out, uint32(rank))
	}
	return out
}

func declared(ranks []id.Rank) (out []*rpc.Declared) {
	for _, rank := range ranks {
		out = append(out, &rpc.Declared{Rank: uint32(rank), Rows: 8})
	}
	return out
}

// start makes a machine: of a new job that begins with round first=N, or with restored=GENERATION members=RANKS round=N settled=N left=RANKS one that goes
// on. With standby=yes a server that is lost has one. With history=N all servers have to have the state of round first.
func (s *stage) start(c scripttest.Command) string {
	s.policy = generation.Policy{Sync: c.Arg("mode", "sync") == "sync", Servers: int(s.number(c, "servers", "1")), Standby: c.Arg("standby", "no") == "yes", Min: int(s.number(c, "min", "1")),
		Max: int(s.number(c, "max", "1")), RejoinDeadline: 10 * time.Second, StartDeadline: time.Minute, Start: id.Round(s.number(c, "first", "0")), History: s.number(c, "history", "0"),
		GoesBack: c.Arg("goes-back", "no") == "yes"}
	var state generation.State
	state.Number, state.Round = id.Generation(s.number(c, "restored", "0")), id.Round(s.number(c, "round", "0"))
	state.Settled, state.Left = id.Generation(s.number(c, "settled", c.Arg("restored", "0"))), s.ranks(c, "left")
	for _, rank := range s.ranks(c, "members") {
		state.Members = append(state.Members, generation.Member{Rank: rank, Since: state.Number, Incarnation: id.Incarnation(10 + rank)})
	}
	s.machine = generation.New(s.policy, state)
	return s.step(generation.Began{})
}

func (s *stage) run(c scripttest.Command) string {
	rank, last := id.Rank(s.number(c, "rank", "0")), id.Generation(s.number(c, "last", "0"))
	incarnation := id.Incarnation(s.number(c, "incarnation", fmt.Sprint(10+s.number(c, "rank", "0"))))
	if n, err := strconv.ParseUint(c.Arg("change", ""), 10, 64); err == nil {
		s.change = n
	}
	switch c.Name {
	case "start":
		return s.start(c)
	case "restart": // another coordinator goes on with what is durable
		s.machine = generation.New(s.policy, s.machine.State())
		return s.step(generation.Began{})
	case "at":
		seconds, _ := strconv.Atoi(c.Args[0])
		s.now = time.Duration(seconds) * time.Second
		return s.step(generation.Tick{})
	case "join":
		at := generation.Place{Host: c.Arg("host", ""), Address: c.Arg("address", "")}
		return s.step(generation.Joined{Rank: rank, Incarnation: incarnation, Last: last, At: at})
	case "lost":
		return s.step(generation.Lost{Rank: rank, Incarnation: incarnation, Reason: c.Arg("reason", "")})
	case "left":
		return s.step(generation.Left{Rank: rank})
	case "drained":
		return s.step(generation.Drained{Rank: rank})
	case "wanted":
		return s.step(generation.Wanted{Trainers: int(s.number(c, "n", "1"))})
	case "change":
		return s.step(generation.DataFailed{})
	case "progress":
		return s.step(generation.Progressed{})
	case "server-lost":
		return s.step(generation.ServerLost{Server: int(s.number(c, "server", "0"))})
	case "frozen":
		return s.step(generation.Frozen{Change: s.change, Server: int(s.number(c, "server", "0")),
			Answer: &rpc.FreezeResponse{Generation: s.number(c, "generation", fmt.Sprint(s.machine.Generation().Number)), Round: s.number(c, "round", "0"), History: s.number(c, "history", "0"),
				Declared: declared(s.ranks(c, "declared")), Applied: declared(s.ranks(c, "applied")), Completed: numbers(s.ranks(c, "completed")), Lacks: c.Arg("lacks", "no") == "yes"}})
	case "persisted":
		return s.step(generation.Persisted{Change: s.change})
	case "resumed":
		return s.step(generation.Resumed{Change: s.change, Server: int(s.number(c, "server", "0"))})
	case "settled":
		return s.step(generation.Settled{Change: s.change})
	case "failed":
		return s.step(generation.Failed{Change: s.change, Err: fault.New(fault.Fenced, "the lock is lost")})
	case "answer":
		g, ok := s.machine.Answer(rank, incarnation, last)
		if !ok {
			return "no answer"
		}
		s.step(generation.Answered{Rank: rank})
		m, _ := g.Member(rank)
		text := fmt.Sprintf("generation %d from round %d: position %d of %d, since %d", g.Number, g.Round, g.Position(rank), len(g.Members), m.Since)
		if group := g.Group(rank); len(group) > 1 {
			text += fmt.Sprintf(", in the group of trainer %d at %s:", g.Leader(rank), group[0].At.Address)
			for _, m := range group {
				text += fmt.Sprintf(" %d", m.Rank)
			}
		}
		return text
	case "wait":
		return s.wait()
	case "deadline":
		at, ok := s.machine.Next()
		return fmt.Sprintf("%d, %v", int(at.Seconds()), ok)
	case "committed":
		return fmt.Sprintf("%d rounds", s.machine.Committed())
	case "others":
		return fmt.Sprint(s.machine.Others(rank))
	case "saves":
		return fmt.Sprint(s.machine.Saves(rank))
	}
	s.t.Fatalf("unknown command %s", c.Name)
	return ""
}

func TestScripts(t *testing.T) {
	scripttest.RunDir(t, "testdata", func(t *testing.T) func(scripttest.Command) string {
		return (&stage{t: t}).run
	})
}

func (s *stage) step(e generation.Event) string {
	out, err := s.machine.Step(s.now, e)
	var words []string
	say := func(ok bool, format string, args ...any) {
		if ok {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	next := func(what string, n *generation.Next) {
		if n != nil {
			s.change = n.Change
			say(true, "%s %s", what, show(n.Generation))
		}
	}
	say(err != nil, "refused: %v", err)
	say(out.Superseded, "superseded")
	if say(out.Freeze > 0, "freeze generation %d", s.machine.Generation().Number); out.Freeze > 0 {
		s.change = out.Freeze
	}
	next("persist", out.Persist)
	next("resume", out.Resume)
	next("settle", out.Settle)
	say(out.Begun, "begun")
	say(out.End, "end")
	say(out.Fail != nil, "fail: %v", out.Fail)
	return strings.Join(words, "; ")
}

func show(g generation.Generation) string {
	text := fmt.Sprintf("generation %d of", g.Number)
	for _, m := range g.Members {
		text += fmt.Sprintf(" %d", m.Rank)
	}
	text += fmt.Sprintf(" from round %d", g.Round)
	if len(g.Commit) > 0 {
		text += ", commit of"
	}
	for _, d := range g.Commit {
		text += fmt.Sprintf(" %d", d.Rank)
	}
	return text
}

func (s *stage) wait() string {
	w, ok := s.machine.Wait()
	if !ok {
		return "nothing"
	}
	text := fmt.Sprintf("%s by %s since %d until %d", w.What, strings.Join(w.By, ", "), int(w.Since.Seconds()), int(w.Until.Seconds()))
	if w.LastError != "" {
		text += ": " + w.LastError
	}
	if s.machine.Paused() {
		text += "; paused"
	}
	return text
}

// later lets an effect of this coordinator happen at any time, also when another has followed it: servers and the store refuse it then.
func (w *world) later(f func(still bool)) {
	fence := w.fence
	w.pending = append(w.pending, func() { f(fence == w.fence) })
}

// shell takes what the registry and trainers say to the coordinator that there is now.
func (w *world) shell() shell {
	return shell{&w.leases, w.machine, w.step, func(f func()) {
		w.later(func(still bool) {
			if still {
				f()
			}
		})
	}}
}

// step lets the coordinator carry out what follows from an event. It reports whether that was not refused.
func (w *world) step(e generation.Event) bool {
	out, err := w.machine.Step(w.now, e)
	if out.Fail != nil {
		w.failed = out.Fail
	}
	if err != nil {
		return false
	}
	if out.Freeze > 0 {
		w.freeze(out.Freeze, w.machine.Generation().Number)
	}
	if n := out.Persist; n != nil {
		w.later(func(still bool) {
			if still {
				w.persist(n.Generation)
				w.step(generation.Persisted{Change: n.Change})
			}
		})
	}
	if n := out.Resume; n != nil {
		for i := range w.servers {
			w.resume(i, n)
		}
	}
	if n := out.Settle; n != nil {
		w.later(func(still bool) {
			if still {
				w.durable.Settled = n.Generation.Number
				w.step(generation.Settled{Change: n.Change})
			}
		})
	}
	return true
}

func (w *world) persist(g generation.Generation) {
	if was, ok := w.begun[g.Number]; ok && was != fmt.Sprint(g.Members, g.Round) || g.Number <= w.durable.Number && !ok {
		w.t.Fatalf("generation %d is %v from %d after %s; the last is %d", g.Number, g.Members, g.Round, was, w.durable.Number)
	}
	w.begun[g.Number] = fmt.Sprint(g.Members, g.Round)
	w.durable.Generation = g
	w.durable.Commit = nil
}

func (w *world) freeze(change uint64, number id.Generation) {
	fence := w.fence
	for i, s := range w.servers {
		w.later(func(still bool) {
			if fence < s.fence {
				return
			}
			s.fence, s.frozen = fence, max(s.frozen, number)
			answer := &rpc.FreezeResponse{Generation: uint64(s.generation), Round: uint64(s.round), Applied: declared(s.applied),
				Declared: declared(slices.Collect(maps.Keys(s.declared)))}
			if still {
				w.step(generation.Frozen{Change: change, Server: i, Answer: answer})
			}
		})
	}
}

func (w *world) resume(i int, n *generation.Next) {
	fence, s, g := w.fence, w.servers[i], n.Generation
	if w.durable.Number != g.Number {
		w.t.Fatalf("servers are told of generation %d, and %d is durable", g.Number, w.durable.Number)
	}
	w.later(func(still bool) {
		if fence < s.fence {
			return
		}
		s.fence = fence
		if s.generation < g.Number {
			if s.round+1 == g.Round {
				var ranks []id.Rank
				for _, d := range g.Commit {
					ranks = append(ranks, id.Rank(d.Rank))
				}
				s.apply(ranks)
				w.note(s)
			}
			if s.round != g.Round {
				w.t.Fatalf("server %d is at round %d, generation %d begins at %d", i, s.round, g.Number, g.Round)
			}
			s.generation, s.declared, s.members = g.Number, map[id.Rank]bool{}, nil
			for _, m := range g.Members {
				s.members = append(s.members, m.Rank)
			}
		}
		if still {
			w.step(generation.Resumed{Change: n.Change, Server: i})
		}
	})
}
