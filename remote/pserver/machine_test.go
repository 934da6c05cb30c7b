package pserver_test

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/scripttest"
	"github.com/edl-go/edl/remote/pserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventOf reads an event from a command. Trainers are in generation 1 unless a command says otherwise.
func eventOf(t *testing.T, c scripttest.Command) pserver.Event {
	from := pserver.Sender{Rank: id.Rank(number(t, c.Arg("rank", "0"))), Round: id.Round(number(t, c.Arg("round", "0"))),
		Generation: id.Generation(number(t, c.Arg("generation", "1"))), Fence: id.Fence(number(t, c.Arg("fence", "0")))}
	switch name := c.Arg("name", ""); c.Name {
	case "offer":
		return pserver.Offered{Sender: from, Variable: name}
	case "send":
		return pserver.Received{Sender: from, Variable: name}
	case "barrier":
		return pserver.Declared{Sender: from, Variables: int(number(t, c.Arg("variables", "0"))),
			Declaration: pserver.Declaration{Rows: number(t, c.Arg("rows", "0"))}, Group: declarations(t, c.Arg("group", "")), Counted: declarations(t, c.Arg("counted", "")),
			Totals: places(t, c.Arg("totals", ""))}
	case "share":
		return pserver.Shared{Sender: from, Place: int(number(t, c.Arg("place", "0"))), Batch: number(t, c.Arg("batch", "0")),
			Own: ownTotals(from.Rank, number(t, c.Arg("rows", "0"))), Known: places(t, c.Arg("known", ""))}
	case "asks":
		return pserver.Asked{Sender: from}
	case "complete":
		return pserver.Completed{Sender: from}
	case "read":
		return pserver.Read{Sender: from}
	case "final":
		return pserver.ReadFinal{Sender: from}
	case "any":
		return pserver.ReadAny{Sender: from}
	case "ask":
		return pserver.Paced{Sender: from, Lead: number(t, c.Arg("lead", "0"))}
	case "rest":
		return pserver.Paced{Sender: from, Rests: true}
	case "applied":
		return pserver.Applied{Rank: from.Rank}
	case "hold":
		return pserver.Held{Generation: from.Generation, Fence: from.Fence}
	case "bound":
		e := pserver.Bounded{Below: map[id.Rank]id.Round{}, Ledger: c.Arg("ledger", "") == "yes"}
		for _, b := range fields(c.Arg("below", "")) { // rank:step
			rank, step, _ := strings.Cut(b, ":")
			e.Below[id.Rank(number(t, rank))] = id.Round(number(t, step))
		}
		return e
	case "let-go":
		return pserver.LetGo{}
	case "freeze":
		return pserver.Frozen{Generation: from.Generation, Fence: from.Fence}
	case "restore":
		return pserver.Restored{Generation: from.Generation, Fence: from.Fence, Round: from.Round, History: uint64(number(t, c.Arg("history", "1")))}
	case "resume":
		e := pserver.Resumed{Generation: from.Generation, Fence: from.Fence, Round: from.Round}
		for _, m := range fields(c.Arg("members", "")) { // rank:since, or rank:since:leader
			rank, since, _ := strings.Cut(m, ":")
			since, leader, _ := strings.Cut(since, ":")
			e.Members = append(e.Members, pserver.Member{Rank: id.Rank(number(t, rank)), Since: id.Generation(number(t, "0"+since)),
				Leader: id.Rank(number(t, cmp.Or(leader, rank)))})
		}
		e.Commit = declarations(t, c.Arg("commit", ""))
		return e
	}
	t.Fatalf("unknown command %s", c.Name)
	return nil
}

// declarations reads a list of rank:rows.
func declarations(t *testing.T, list string) (out []pserver.Declaration) {
	for _, m := range fields(list) {
		rank, rows, _ := strings.Cut(m, ":")
		out = append(out, pserver.Declaration{Rank: id.Rank(number(t, rank)), Rows: number(t, rows)})
	}
	return out
}

// ownTotals are the totals of a trainer: one number.
func ownTotals(rank id.Rank, rows int64) ops.Totals {
	return ops.Totals{Rows: rows, Over: []int64{rows}, Values: []float64{float64(rank)}}
}

// places reads lists of rank:rows, one for each place, with | between them.
func places(t *testing.T, list string) (out [][]pserver.RankTotals) {
	for _, place := range strings.FieldsFunc(list, func(r rune) bool { return r == '|' }) {
		var parts []pserver.RankTotals
		for _, d := range declarations(t, place) {
			parts = append(parts, pserver.RankTotals{Rank: d.Rank, Totals: ownTotals(d.Rank, d.Rows)})
		}
		out = append(out, parts)
	}
	return out
}

func number(t *testing.T, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// show writes what a machine has decided on one line.
func show(f pserver.Effects, err error) string {
	switch {
	case err != nil:
		return fmt.Sprintf("Refuse, %v: %v", fault.KindOf(err), err)
	case f.Hold:
		return "Hold"
	case f.Ignore:
		return "Ignore"
	}
	out := "Take"
	if f.LearningRate {
		out += "; learning rate"
	}
	for _, d := range f.Commit {
		out += fmt.Sprintf("; commit %d rows of trainer %d", d.Rows, d.Rank)
	}
	if f.Drop {
		out += "; drop"
	}
	if f.Apply {
		out += "; apply"
		for _, d := range f.Contributors {
			out += fmt.Sprintf(" trainer %d (%d rows)", d.Rank, d.Rows)
		}
	}
	if f.Finished {
		out += "; finished"
	}
	if f.Cut {
		out += "; cut"
	}
	return out
}

// created reads the arguments of the command new: limit is the number of ranks of the job, and members the number of members of generation 1.
func created(t *testing.T, c scripttest.Command) (ranks int, names []string, begin pserver.Resumed) {
	ranks = int(number(t, c.Arg("limit", c.Arg("members", "1"))))
	begin = first(int(number(t, c.Arg("members", "1"))))
	begin.Round = id.Round(number(t, c.Arg("start", "0")))
	return ranks, fields(c.Arg("names", "a")), begin
}

func TestRoundsScripts(t *testing.T) {
	scripttest.RunDir(t, "testdata/rounds", func(t *testing.T) func(scripttest.Command) string {
		var r *pserver.Rounds
		return func(c scripttest.Command) string {
			switch c.Name {
			case "new":
				ranks, names, begin := created(t, c)
				r = pserver.WithBackups(pserver.NewRounds(ranks, names, begin.Round), int(number(t, c.Arg("backup", "0"))), c.Arg("decides", "") == "yes")
				r.Await(uint64(number(t, c.Arg("awaits", "0"))))
				if len(begin.Members) > 0 {
					must(t, r, begin)
				}
				return ""
			case "state":
				return fmt.Sprintf("%v; missing %v", r, r.Missing())
			case "told":
				s := r.State()
				text := fmt.Sprintf("generation %d, round %d, declared %v, applied %v, completed %v", s.Generation, s.Round, rowsOf(s.Declared),
					rowsOf(s.Applied), s.Completed)
				if s.History > 0 {
					text += fmt.Sprintf(", history %d", s.History)
				}
				return text
			}
			return show(r.Step(0, eventOf(t, c)))
		}
	})
}

// must tells a machine an event that counts.
func must(t interface{ Fatal(...any) }, m stepper, e pserver.Event) pserver.Effects {
	f, err := m.Step(0, e)
	if err != nil || f.Hold || f.Ignore {
		t.Fatal(e, show(f, err))
	}
	return f
}

// stepper is a machine.
type stepper interface {
	Step(now time.Duration, e pserver.Event) (pserver.Effects, error)
}

// rowsOf shows contributions as rank:rows.
func rowsOf(list []pserver.Declaration) []string {
	out := []string{}
	for _, d := range list {
		out = append(out, fmt.Sprintf("%d:%d", d.Rank, d.Rows))
	}
	return out
}

func TestUpdatesScripts(t *testing.T) {
	scripttest.RunDir(t, "testdata/updates", func(t *testing.T) func(scripttest.Command) string {
		var u *pserver.Updates
		return func(c scripttest.Command) string {
			switch c.Name {
			case "new":
				ranks, names, begin := created(t, c)
				if u = pserver.NewUpdates(ranks, names); len(begin.Members) > 0 {
					must(t, u, begin)
				}
				return ""
			case "missing":
				return fmt.Sprint(u.Missing())
			case "begun":
				begun, ledger := u.NextSteps()
				return fmt.Sprint(begun, ledger)
			case "told":
				s := u.State()
				return fmt.Sprintf("generation %d, history %d, completed %v", s.Generation, s.History, s.Completed)
			}
			return show(u.Step(0, eventOf(t, c)))
		}
	})
}

// Events stay off the heap. A sync round allocates one list, of its declarations, and an async step nothing.
func TestStepAllocates(t *testing.T) {
	names := []string{"a", "b", "c"}
	r, u := pserver.NewRounds(2, names, 0), pserver.NewUpdates(2, names)
	must(t, r, first(2))
	must(t, u, first(2))
	var from pserver.Sender
	step := func(m stepper, e pserver.Event) {
		if f, err := m.Step(0, e); err != nil || f.Hold || f.Ignore {
			t.Fatal(show(f, err))
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		for rank := range id.Rank(2) {
			from = pserver.Sender{Rank: rank, Generation: 1, Round: r.Round()}
			for _, name := range names {
				if _, err := r.Step(0, pserver.Offered{Sender: from, Variable: name}); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Step(0, pserver.Received{Sender: from, Variable: name}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.Step(0, pserver.Declared{Sender: from, Variables: 3, Declaration: pserver.Declaration{Rows: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		step(r, pserver.Applied{})
	}); n > 1 {
		t.Errorf("a round allocates %v times, want once: the list of its declarations", n)
	}
	round := id.Round(0)
	if n := testing.AllocsPerRun(100, func() {
		from = pserver.Sender{Generation: 1, Round: round}
		for _, name := range names {
			if _, err := u.Step(0, pserver.Offered{Sender: from, Variable: name}); err != nil {
				t.Fatal(err)
			}
			if _, err := u.Step(0, pserver.Received{Sender: from, Variable: name}); err != nil {
				t.Fatal(err)
			}
			if _, err := u.Step(0, pserver.Applied{}); err != nil {
				t.Fatal(err)
			}
		}
		round++
	}); n > 0 {
		t.Errorf("a step allocates %v times", n)
	}
}
