package generation_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/script"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
)

// teller carries out the commands of a script. Times are seconds.
type teller struct {
	t       *testing.T
	machine *generation.Machine
	policy  generation.Policy
	now     time.Time
	change  uint64 // of the last effect
}

func (s *teller) number(c script.Command, key, otherwise string) uint64 {
	n, err := strconv.ParseUint(c.Arg(key, otherwise), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *teller) ranks(c script.Command, key string) (ranks []uint32) {
	for _, word := range strings.FieldsFunc(c.Arg(key, ""), func(r rune) bool { return r == ',' }) {
		n, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			s.t.Fatal(err)
		}
		ranks = append(ranks, uint32(n))
	}
	return ranks
}

func declared(ranks []uint32) (out []*rpc.Declared) {
	for _, rank := range ranks {
		out = append(out, &rpc.Declared{Rank: rank, Rows: 8})
	}
	return out
}

// start makes a machine: of a new job, or with restored=GENERATION members=RANKS round=N settled=N left=RANKS one that goes on.
func (s *teller) start(c script.Command) string {
	s.policy = generation.Policy{Sync: c.Arg("mode", "sync") == "sync", Servers: int(s.number(c, "servers", "1")), Min: int(s.number(c, "min", "1")),
		Max: int(s.number(c, "max", "1")), RejoinDeadline: 10 * time.Second, StartDeadline: time.Minute}
	var state generation.State
	state.Number, state.Round = s.number(c, "restored", "0"), s.number(c, "round", "0")
	state.Settled, state.Left = s.number(c, "settled", c.Arg("restored", "0")), s.ranks(c, "left")
	for _, rank := range s.ranks(c, "members") {
		state.Members = append(state.Members, generation.Member{Rank: rank, Since: state.Number, Incarnation: uint64(10 + rank)})
	}
	s.machine = generation.New(s.policy, state)
	return s.step(generation.Start{})
}

func (s *teller) run(c script.Command) string {
	rank, incarnation := uint32(s.number(c, "rank", "0")), s.number(c, "incarnation", fmt.Sprint(10+s.number(c, "rank", "0")))
	if n, err := strconv.ParseUint(c.Arg("change", ""), 10, 64); err == nil {
		s.change = n
	}
	switch c.Name {
	case "start":
		return s.start(c)
	case "restart": // another coordinator goes on with what is durable
		s.machine = generation.New(s.policy, s.machine.State())
		return s.step(generation.Start{})
	case "at":
		seconds, _ := strconv.Atoi(c.Args[0])
		s.now = time.Unix(int64(seconds), 0)
		return s.step(generation.Tick{})
	case "join":
		return s.step(generation.Joined{Rank: rank, Incarnation: incarnation, Last: s.number(c, "last", "0")})
	case "lost":
		return s.step(generation.Lost{Rank: rank, Incarnation: incarnation, Reason: c.Arg("reason", "")})
	case "left":
		return s.step(generation.Left{Rank: rank})
	case "drained":
		return s.step(generation.Drained{Rank: rank})
	case "wanted":
		return s.step(generation.Wanted{Trainers: int(s.number(c, "n", "1"))})
	case "change":
		return s.step(generation.Change{})
	case "progress":
		return s.step(generation.Progress{})
	case "server-lost":
		return s.step(generation.ServerLost{Server: int(s.number(c, "server", "0"))})
	case "frozen":
		return s.step(generation.Frozen{Change: s.change, Server: int(s.number(c, "server", "0")),
			Answer: &rpc.FreezeResponse{Generation: s.number(c, "generation", fmt.Sprint(s.machine.Generation().Number)), Round: s.number(c, "round", "0"),
				Declared: declared(s.ranks(c, "declared")), Applied: declared(s.ranks(c, "applied")), Completed: s.ranks(c, "completed")}})
	case "persisted":
		return s.step(generation.Persisted{Change: s.change})
	case "resumed":
		return s.step(generation.Resumed{Change: s.change, Server: int(s.number(c, "server", "0"))})
	case "settled":
		return s.step(generation.Settled{Change: s.change})
	case "failed":
		return s.step(generation.Failed{Change: s.change, Err: fault.New(fault.Fenced, "the lock is lost")})
	case "answer":
		g, ok := s.machine.Answer(rank, incarnation, s.number(c, "last", "0"))
		if !ok {
			return "no answer"
		}
		m, _ := g.Member(rank)
		return fmt.Sprintf("generation %d from round %d: position %d of %d, since %d", g.Number, g.Round, g.Position(rank), len(g.Members), m.Since)
	case "wait":
		return s.wait()
	case "deadline":
		at, ok := s.machine.Deadline()
		return fmt.Sprintf("%d, %v", at.Unix(), ok)
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
	script.RunDir(t, "testdata", func(t *testing.T) func(script.Command) string {
		return (&teller{t: t, now: time.Unix(0, 0)}).run
	})
}
