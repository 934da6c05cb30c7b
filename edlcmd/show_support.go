package edlcmd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A supportReport says what of a program this build runs.
type supportReport struct {
	Runs    bool            `json:"runs"`
	Ops     int             `json:"ops"`    // of all blocks
	Needed  int             `json:"needed"` // of them, by what the program fetches, with the fetch ops; all if it fetches nothing
	Types   []opSupport     `json:"types"`
	Reasons []supportReason `json:"reasons"`
}

type opSupport struct {
	Op     string `json:"op"`
	Count  int    `json:"count"`
	Refuse int    `json:"refused"` // faults of these ops, up to the number that the verifier reports
}

type supportReason struct {
	Count int    `json:"count"`
	Kind  string `json:"kind"`
	First string `json:"first"` // message of the first fault, with its place
	text  string
}

// showSupport says which ops of a program run, and what does not and why. As "edl run" does, it looks only at what the fetched values depend on.
func showSupport(c *console, f *showFlags, p *program.Program) error {
	r := supportReport{Ops: countOps(p), Types: []opSupport{}, Reasons: []supportReason{}}
	checked := p
	if targets := p.Targets(); len(targets) > 0 {
		pruned, err := p.CloneForTest().Prune(targets...)
		if err != nil {
			return err
		}
		checked = pruned.Clone()
		keepFetches(checked, p)
		p = pruned
	}
	r.Needed = countOps(checked)
	err := ops.Verify(checked, program.StageLocal)
	var list fault.List
	if err != nil && !errors.As(err, &list) {
		return err
	}
	r.Runs = len(list) == 0
	types := map[string]*opSupport{}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			if types[op.Type] == nil {
				types[op.Type] = &opSupport{Op: op.Type}
			}
			types[op.Type].Count++
		}
	}
	for _, reason := range list.Reasons() {
		r.Reasons = append(r.Reasons, supportReason{reason.Count, reason.First.Kind.String(), reason.First.Error(), reason.String()})
		if t := types[reason.First.Op]; t != nil {
			t.Refuse += reason.Count
		}
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		r.Types = append(r.Types, *types[name])
	}
	if f.as.value == "json" {
		return writeJSON(c.out, r)
	}
	return r.write(c)
}

// keepFetches adds the fetch ops of a program to a pruned one, which has lost them: what is fetched must have the type that it is declared to have.
func keepFetches(pruned, p *program.Program) {
	for _, op := range p.Global().Ops {
		if op.Type != "fetch" {
			continue
		}
		if v, ok := p.Global().Var(op.Out("Out")); ok {
			pruned.Global().EnsureVar(v.Copy(""))
		}
		pruned.Global().Append(op.Clone())
	}
}

func (r *supportReport) write(c *console) error {
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "OP\tOPS\tRUNS")
	for _, o := range r.Types {
		answer := "yes"
		if o.Refuse > 0 {
			answer = "no"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\n", o.Op, o.Count, answer)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Needed < r.Ops {
		fmt.Fprintf(c.out, "%d of %s are left out: what the program fetches does not depend on them\n", r.Ops-r.Needed, count(r.Ops, "op"))
	}
	if r.Runs {
		_, err := fmt.Fprintln(c.out, "the program runs")
		return err
	}
	fmt.Fprintf(c.out, "the program does not run, for %s:\n", count(len(r.Reasons), "reason"))
	for _, reason := range r.Reasons {
		if _, err := fmt.Fprintf(c.out, "  %s\n", reason.text); err != nil {
			return err
		}
	}
	return nil
}

func countOps(p *program.Program) int {
	n := 0
	for _, b := range p.Blocks {
		n += len(b.Ops)
	}
	return n
}
