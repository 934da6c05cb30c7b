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

// eventOf reads an event from a command: offer, send, barrier, complete or applied.
func eventOf(t *testing.T, c script.Command) pserver.Event {
	number := func(key, otherwise string) int64 {
		n, err := strconv.ParseInt(c.Arg(key, otherwise), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	kinds := map[string]pserver.EventKind{"offer": pserver.Offer, "send": pserver.Deliver, "barrier": pserver.Barrier, "complete": pserver.Complete, "applied": pserver.Applied}
	kind, ok := kinds[c.Name]
	if !ok {
		t.Fatalf("unknown command %s", c.Name)
	}
	return pserver.Event{Kind: kind, Rank: int(number("rank", "0")), Round: uint64(number("round", "0")), Variable: c.Arg("name", ""),
		Rows: number("rows", "0"), Variables: int(number("variables", "0"))}
}

// show writes a verdict, and why.
func show(v pserver.Verdict, err error) string {
	if err == nil {
		return v.String()
	}
	return fmt.Sprintf("%v, %v: %v", v, fault.KindOf(err), err)
}

// created reads the arguments of the command new.
func created(t *testing.T, c script.Command) (members int, names []string) {
	members, err := strconv.Atoi(c.Arg("members", "1"))
	if err != nil {
		t.Fatal(err)
	}
	return members, strings.FieldsFunc(c.Arg("names", "a"), func(r rune) bool { return r == ',' })
}

func TestRoundsScripts(t *testing.T) {
	script.RunDir(t, "testdata/rounds", func(t *testing.T) func(script.Command) string {
		var r *pserver.Rounds
		return func(c script.Command) string {
			switch c.Name {
			case "new":
				r = pserver.NewRounds(created(t, c))
				return ""
			case "state":
				return fmt.Sprintf("%v; missing %v", r, r.Missing())
			case "others":
				rank, _ := strconv.Atoi(c.Arg("rank", "0"))
				return fmt.Sprint(r.OthersComplete(rank))
			}
			d := r.Step(eventOf(t, c))
			out := show(d.Verdict, d.Err)
			if d.Apply {
				out += "; apply"
				for _, s := range d.Shares {
					out += fmt.Sprintf(" trainer %d (%d rows)", s.Rank, s.Rows)
				}
			}
			if d.Finished {
				out += "; finished"
			}
			return out
		}
	})
}

func TestUpdatesScripts(t *testing.T) {
	script.RunDir(t, "testdata/updates", func(t *testing.T) func(script.Command) string {
		var u *pserver.Updates
		return func(c script.Command) string {
			rank, _ := strconv.Atoi(c.Arg("rank", "0"))
			switch c.Name {
			case "new":
				u = pserver.NewUpdates(created(t, c))
				return ""
			case "pending":
				return fmt.Sprint(u.Pending(rank))
			case "missing":
				return fmt.Sprint(u.Missing())
			case "others":
				return fmt.Sprint(u.OthersComplete(rank))
			}
			a := u.Step(eventOf(t, c))
			out := show(a.Verdict, a.Err)
			if a.Tick {
				out += "; tick"
			}
			if a.Finished {
				out += "; finished"
			}
			return out
		}
	})
}
