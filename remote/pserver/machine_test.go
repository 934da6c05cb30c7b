package pserver_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/script"
	"github.com/edl-go/edl/remote/pserver"
)

// eventOf reads an event from a command. Trainers are in generation 1 unless a command says otherwise.
func eventOf(t *testing.T, c script.Command) pserver.Event {
	kinds := map[string]pserver.EventKind{"offer": pserver.Offer, "send": pserver.Deliver, "barrier": pserver.Barrier, "complete": pserver.Complete,
		"applied": pserver.Applied,
		"read":    pserver.Read, "final": pserver.ReadFinal, "any": pserver.ReadAny, "freeze": pserver.Freeze, "resume": pserver.Resume}
	kind, ok := kinds[c.Name]
	if !ok {
		t.Fatalf("unknown command %s", c.Name)
	}
	e := pserver.Event{Kind: kind, Rank: int(number(t, c.Arg("rank", "0"))), Round: uint64(number(t, c.Arg("round", "0"))),
		Generation: uint64(number(t, c.Arg("generation", "1"))),
		Fence:      uint64(number(t, c.Arg("fence", "0"))), Variable: c.Arg("name", ""), Variables: int(number(t, c.Arg("variables", "0")))}
	e.Share.Rows = number(t, c.Arg("rows", "0"))
	for _, m := range fields(c.Arg("members", "")) { // rank:since
		rank, since, _ := strings.Cut(m, ":")
		e.Members = append(e.Members, pserver.Member{Rank: int(number(t, rank)), Since: uint64(number(t, "0"+since))})
	}
	for _, m := range fields(c.Arg("commit", "")) { // rank:rows
		rank, rows, _ := strings.Cut(m, ":")
		e.Commit = append(e.Commit, pserver.Declared{Rank: int(number(t, rank)), Rows: number(t, rows)})
	}
	return e
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

// show writes a decision on one line.
func show(d pserver.Decision) string {
	out := d.Verdict.String()
	if d.Err != nil {
		out += fmt.Sprintf(", %v: %v", fault.KindOf(d.Err), d.Err)
	}
	if d.Drop {
		out += "; drop"
	}
	if d.Apply {
		out += "; apply"
		for _, s := range d.Shares {
			out += fmt.Sprintf(" trainer %d (%d rows)", s.Rank, s.Rows)
		}
	}
	if d.Tick {
		out += "; tick"
	}
	if d.Commit != nil {
		out += fmt.Sprintf("; commit %d rows of trainer %d", d.Commit.Rows, d.Commit.Rank)
	}
	if d.Finished {
		out += "; finished"
	}
	return out
}

// created reads the arguments of the command new: trainers that the job can have, and those that generation 1 has, all unless it says otherwise.
func created(t *testing.T, c script.Command) (limit int, names []string, first pserver.Event) {
	limit = int(number(t, c.Arg("limit", c.Arg("members", "1"))))
	first = pserver.Event{Kind: pserver.Resume, Generation: 1}
	for rank := range int(number(t, c.Arg("members", "1"))) {
		first.Members = append(first.Members, pserver.Member{Rank: rank, Since: 1})
	}
	return limit, fields(c.Arg("names", "a")), first
}

func TestRoundsScripts(t *testing.T) {
	script.RunDir(t, "testdata/rounds", func(t *testing.T) func(script.Command) string {
		var r *pserver.Rounds
		return func(c script.Command) string {
			switch c.Name {
			case "new":
				limit, names, first := created(t, c)
				if r = pserver.NewRounds(limit, names); len(first.Members) > 0 {
					r.Step(first)
				}
				return ""
			case "state":
				return fmt.Sprintf("%v; missing %v", r, r.Missing())
			case "told":
				s := r.State()
				return fmt.Sprintf("generation %d, round %d, declared %v, applied %v, completed %v", s.Generation, s.Round, rowsOf(s.Declared),
					rowsOf(s.Applied), s.Completed)
			}
			return show(r.Step(eventOf(t, c)))
		}
	})
}

// rowsOf shows contributions as rank:rows.
func rowsOf(list []pserver.Declared) []string {
	out := []string{}
	for _, d := range list {
		out = append(out, fmt.Sprintf("%d:%d", d.Rank, d.Rows))
	}
	return out
}

func TestUpdatesScripts(t *testing.T) {
	script.RunDir(t, "testdata/updates", func(t *testing.T) func(script.Command) string {
		var u *pserver.Updates
		return func(c script.Command) string {
			switch c.Name {
			case "new":
				limit, names, first := created(t, c)
				if u = pserver.NewUpdates(limit, names); len(first.Members) > 0 {
					u.Step(first)
				}
				return ""
			case "missing":
				return fmt.Sprint(u.Missing())
			case "told":
				s := u.State()
				return fmt.Sprintf("generation %d, completed %v", s.Generation, s.Completed)
			}
			return show(u.Step(eventOf(t, c)))
		}
	})
}
