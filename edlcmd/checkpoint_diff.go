package edlcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/spf13/cobra"
)

// errDiffer ends a command that has found differences, and has printed them. Its exit code is 1, as that of diff.
var errDiffer = errors.New("the two differ")

func newCheckpointDiff(c *console) *cobra.Command {
	var output *choice
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two checkpoints: which variables differ and by how much, and what else",
		Long: `Compare two checkpoints, STORE[@STEPS|@NAME] each: their values bit by bit, whatever number of pservers has written them, and how far
they are in the data, their program and their ledger. The exit code is that of diff: 0 if they are equal, 1 if not, 2 if one cannot be read.`,
		Example: "  edl checkpoint diff ckpt@1000 ckpt@2000",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCheckpoint(cmd.Context(), args[0], func(a *checkpoint.Checkpoint) error {
				return withCheckpoint(cmd.Context(), args[1], func(b *checkpoint.Checkpoint) error {
					return diffCheckpoints(cmd.Context(), c, a, b, output.value)
				})
			})
		},
	}
	output = outputFlag(cmd)
	return cmd
}

// A checkpointDiff is what differs between two checkpoints, or models. Its fields are those of the JSON form.
type checkpointDiff struct {
	Equal     bool           `json:"equal"`
	Compared  int            `json:"compared"` // variables that both have
	Fields    []fieldDiff    `json:"fields"`
	Variables []variableDiff `json:"variables"` // with other values
}

// A fieldDiff is something other than values that two checkpoints, or models, have otherwise.
type fieldDiff struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

func diffCheckpoints(ctx context.Context, c *console, a, b *checkpoint.Checkpoint, output string) error {
	d := checkpointDiff{Fields: diffManifests(a, b), Variables: []variableDiff{}}
	if err := d.compareValues(ctx, &stored{checkpoint: a, names: a.Variables(), value: a.Value}, &stored{checkpoint: b, names: b.Variables(), value: b.Value}); err != nil {
		return err
	}
	return d.finish(c, output)
}

// diffManifests compares all but values. How a state was spread over pservers, and when, is no difference.
func diffManifests(a, b *checkpoint.Checkpoint) []fieldDiff {
	list := []fieldDiff{}
	add := func(what, x, y string) {
		if x != y {
			list = append(list, fieldDiff{what, x, y})
		}
	}
	m, n := a.Manifest, b.Manifest
	at := func(k *checkpoint.Checkpoint) string {
		p := jobspec.ProgressOf(k.Manifest.Progress)
		return fmt.Sprintf("pass %d, after %d batches", p.Pass, p.Batch)
	}
	add("steps", fmt.Sprint(m.Progress.GetSteps()), fmt.Sprint(n.Progress.GetSteps()))
	add("place", at(a), at(b))
	add("reader", short(m.Progress.GetReader()), short(n.Progress.GetReader()))
	add("program", short(fmt.Sprintf("%x", m.Program)), short(fmt.Sprintf("%x", n.Program)))
	add("mode", m.Mode.String(), n.Mode.String())
	if !bytes.Equal(m.Ledger, n.Ledger) {
		add("ledger", "of its records", "of others")
	}
	names := slices.Concat(a.Variables(), b.Variables())
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		add("variable "+name, shapeOf(a, name), shapeOf(b, name))
	}
	return list
}

// shapeOf is the type and the dims of a variable as text.
func shapeOf(k *checkpoint.Checkpoint, name string) string {
	dtype, dims, ok := k.Describe(name)
	if !ok {
		return "missing"
	}
	return fmt.Sprintf("%v %v", dtype, dims)
}

// short is the beginning of a hash, enough to tell it from others.
func short(hash string) string { return hash[:min(len(hash), 12)] }

func writeDiff(c *console, d checkpointDiff, output string) error {
	if output == "json" {
		return writeJSON(c.out, d)
	}
	switch {
	case d.Equal && d.Compared == 0: // programs
		_, err := fmt.Fprintln(c.out, "equal")
		return err
	case d.Equal:
		_, err := fmt.Fprintf(c.out, "equal: %d variables\n", d.Compared)
		return err
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	if len(d.Fields) > 0 {
		fmt.Fprintln(t, "WHAT\tA\tB")
	}
	for _, f := range d.Fields {
		fmt.Fprintln(t, strings.Join([]string{f.What, f.A, f.B}, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(d.Variables) > 0 {
		fmt.Fprintln(t, "VARIABLE\tELEMENTS\tDIFFERENT\tLARGEST DIFFERENCE\tMEAN DIFFERENCE")
	}
	for _, v := range d.Variables {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.4g\t%.4g\n", v.Name, v.Elements, v.Differing, float64(v.Largest), float64(v.Mean))
	}
	if err := t.Flush(); err != nil || d.Compared == 0 {
		return err
	}
	_, err := fmt.Fprintf(c.out, "%d of %d variables have other values\n", len(d.Variables), d.Compared)
	return err
}
