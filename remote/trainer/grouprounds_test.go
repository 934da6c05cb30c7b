package trainer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/scripttest"
)

func TestGroupRoundsScripts(t *testing.T) {
	scripttest.RunDir(t, "testdata/groups", func(t *testing.T) func(scripttest.Command) string {
		var r *groupRounds
		return func(c scripttest.Command) string {
			number := func(key string) int64 {
				n, err := strconv.ParseInt(c.Arg(key, "0"), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			rank, round := id.Rank(number("rank")), id.Round(number("round"))
			var e groupEvent
			switch c.Name {
			case "new":
				var ranks []id.Rank
				for _, text := range strings.Split(c.Arg("ranks", ""), ",") {
					n, _ := strconv.Atoi(text)
					ranks = append(ranks, id.Rank(n))
				}
				r = newGroupRounds(ranks, round)
				return ""
			case "state":
				return r.String()
			case "missing":
				return fmt.Sprint(r.missing())
			case "data":
				e = contributing{rank, round}
			case "whole":
				e = contributed{rank, round}
			case "declare":
				e = declaring{round, &rpc.Declared{Rank: uint32(rank), Rows: number("rows")}}
			case "fetch":
				e = fetching{rank, round}
			case "fetched":
				e = fetched{}
			}
			f, err := r.Step(0, e)
			switch {
			case err != nil:
				return fmt.Sprintf("Refuse, %v: %v", fault.KindOf(err), err)
			case f.hold:
				return "Hold"
			case f.ignore:
				return "Ignore"
			case f.merge:
				return "Take; merge"
			}
			return "Take"
		}
	})
}

// groupSim is a leader and those whom it leads. Every message may be lost after it has been taken, so that its sender tells it again, and every message that
// was ever sent may come once more.
type groupSim struct {
	t       *testing.T
	chance  *rand.Rand
	machine *groupRounds
	members []simMember
	kept    map[id.Rank]string // what the leader would merge: the contribution of a rank
	merges  []string           // by round
	past    []groupEvent
}

// simMember goes through its rounds: it sends, declares, and asks for the parameters.
type simMember struct {
	rank  id.Rank
	round id.Round
	rows  int64
	step  int // 0: sends; 1: declares; 2: waits
}

const simRounds = 6

// Whatever is lost or told twice, each round is merged once, of what each member has declared for it, and nobody has parameters before the leader has.
func TestGroupRoundsSimulation(t *testing.T) {
	for seed := range uint64(300) {
		s := &groupSim{t: t, chance: rand.New(rand.NewPCG(seed, 9)), kept: map[id.Rank]string{}}
		var ranks []id.Rank
		for range 1 + s.chance.IntN(4) {
			rank := id.Rank(len(ranks)*2 + 1)
			ranks = append(ranks, rank)
			s.members = append(s.members, simMember{rank: rank, rows: s.chance.Int64N(3)})
		}
		s.machine = newGroupRounds(ranks, 0)
		for range 20000 {
			if s.act(); len(s.merges) == simRounds && !s.machine.merging {
				break
			}
		}
		if len(s.merges) != simRounds {
			t.Fatalf("seed %d: %d rounds, then nothing: %v", seed, len(s.merges), s.machine)
		}
	}
}

// act lets one thing happen.
func (s *groupSim) act() {
	switch s.chance.IntN(6) {
	case 0: // an old message comes again
		if len(s.past) > 0 {
			s.again(s.past[s.chance.IntN(len(s.past))])
		}
	case 1: // the leader receives the parameters
		if s.machine.merging {
			s.tell(fetched{})
		}
	default:
		s.goOn(&s.members[s.chance.IntN(len(s.members))])
	}
}

// goOn lets a member tell its next message, and go on if the answer reaches it.
func (s *groupSim) goOn(m *simMember) {
	value := fmt.Sprintf("%d in round %d, %d rows", m.rank, m.round, m.rows)
	answered := s.chance.IntN(4) > 0
	switch {
	case m.round == simRounds:
	case m.step == 0 && m.rows > 0:
		s.remember(contributing{m.rank, m.round})
		s.tell(contributing{m.rank, m.round})
		if s.chance.IntN(4) == 0 { // the connection breaks before it is whole
			return
		}
		s.remember(contributed{m.rank, m.round})
		if f := s.tell(contributed{m.rank, m.round}); !f.ignore {
			s.kept[m.rank] = value
		}
		if answered {
			m.step = 1
		}
	case m.step < 2:
		e := declaring{m.round, &rpc.Declared{Rank: uint32(m.rank), Rows: m.rows}}
		s.remember(e)
		before := s.machine.merging
		if f := s.tell(e); f.merge != (!before && s.machine.merging) {
			s.t.Fatalf("the last declaration says merge: %v", f.merge)
		}
		if s.machine.merging && !before {
			s.merge()
		}
		if answered {
			m.step = 2
		} else {
			m.step = 0 // another connection: all of it comes again
		}
	default:
		f := s.tell(fetching{m.rank, m.round + 1})
		if f.hold != (id.Round(len(s.merges)) <= m.round || s.machine.merging) {
			s.t.Fatalf("parameters of round %d: held %v, after %d merges", m.round+1, f.hold, len(s.merges))
		}
		if !f.hold && answered {
			*m = simMember{rank: m.rank, round: m.round + 1, rows: s.chance.Int64N(3)}
		}
	}
}

func (s *groupSim) remember(e groupEvent) { s.past = append(s.past, e) }

// merge checks what the leader merges.
func (s *groupSim) merge() {
	round := id.Round(len(s.merges))
	for i, d := range s.machine.declarations() {
		m := s.members[i]
		if m.round != round || id.Rank(d.Rank) != m.rank || d.Rows != m.rows {
			s.t.Fatalf("round %d is merged with %v, of a trainer in round %d with %d rows", round, d, m.round, m.rows)
		}
		if want := fmt.Sprintf("%d in round %d, %d rows", m.rank, round, m.rows); m.rows > 0 && s.kept[m.rank] != want {
			s.t.Fatalf("round %d is merged of %s, want %s", round, s.kept[m.rank], want)
		}
	}
	s.merges = append(s.merges, s.machine.String())
}

// tell tells a message that must not be refused.
func (s *groupSim) tell(e groupEvent) groupEffects {
	f, err := s.machine.Step(0, e)
	if err != nil {
		s.t.Fatalf("%T %+v: %v in %v", e, e, err, s.machine)
	}
	return f
}

// again tells an old message, which must change nothing: it is known, or refused. One that has not been answered yet counts once.
func (s *groupSim) again(e groupEvent) {
	var round id.Round
	switch e := e.(type) {
	case contributing:
		round = e.round
	case contributed:
		round = e.round
	case declaring:
		round = e.round
	}
	before := s.machine.String()
	f, err := s.machine.Step(0, e)
	if old := round < s.machine.round; old && err == nil && !f.ignore || old && err != nil && !slices.Contains([]fault.Kind{fault.Stale}, fault.KindOf(err)) {
		s.t.Fatalf("%T %+v again: %+v, %v", e, e, f, err)
	}
	if after := s.machine.String(); after != before {
		s.t.Fatalf("%T %+v again: %s, before %s", e, e, after, before)
	}
}
