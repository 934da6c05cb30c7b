package edlcmd

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/spf13/cobra"
)

func newDiff(c *console) *cobra.Command {
	var output *choice
	cmd := &cobra.Command{
		Use:        "diff MODEL MODEL",
		SuggestFor: []string{"compare"},
		Short:      "Compare two models, programs, directories of parameters or checkpoints",
		Long: `Compare two models: their programs op by op, with slots and attributes, and their parameters by the largest and the mean difference. Each of the two
may also be a program, a directory of --save, a file of parameters, or a checkpoint STORE[@STEPS]; what only one of them has a kind of is not compared.
The exit code is that of diff: 0 if they are equal, 1 if not, 2 if one cannot be read.`,
		Example: `  edl diff yesterday today
  edl diff program.pb other.pb
  edl diff model ckpt@1000`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return diffModels(cmd.Context(), c, args[0], args[1], output.value)
		},
	}
	output = outputFlag(cmd)
	return cmd
}

func diffModels(ctx context.Context, c *console, first, second, output string) error {
	a, err := openStored(ctx, first)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := openStored(ctx, second)
	if err != nil {
		return err
	}
	defer b.close()
	d := checkpointDiff{Fields: []fieldDiff{}, Variables: []variableDiff{}}
	if a.checkpoint != nil && b.checkpoint != nil {
		d.Fields = diffManifests(a.checkpoint, b.checkpoint)
	}
	if a.program != nil && b.program != nil {
		for _, one := range program.Diff(a.program, b.program) {
			what := one.Where
			if one.What != "" {
				what += ", " + one.What
			}
			d.Fields = append(d.Fields, fieldDiff{what, orDash(one.A), orDash(one.B)})
		}
	}
	if a.value != nil && b.value != nil {
		if err := d.compareValues(ctx, a, b); err != nil {
			return err
		}
	}
	return d.finish(c, output)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// compareValues compares the values that both have, parameters first, and lists those that one of them lacks or has of another shape.
func (d *checkpointDiff) compareValues(ctx context.Context, a, b *stored) error {
	names := slices.Concat(a.names, b.names)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := ctx.Err(); err != nil {
			return err
		}
		var values [2]*tensor.Tensor
		texts := [2]string{"-", "-"}
		for i, s := range []*stored{a, b} {
			if !slices.Contains(s.names, name) {
				continue
			}
			t, err := s.value(ctx, name)
			if err != nil {
				return err
			}
			values[i], texts[i] = t, t.String()
		}
		x, y := values[0], values[1]
		if x == nil || y == nil || x.DType() != y.DType() || !slices.Equal(x.Dims(), y.Dims()) {
			if a.checkpoint == nil || b.checkpoint == nil { // else it is among their fields
				d.Fields = append(d.Fields, fieldDiff{"value of " + name, texts[0], texts[1]})
			}
			continue
		}
		d.compare(name, x, y)
	}
	d.parametersFirst(a, b)
	return nil
}

// A variableDiff is how far the values of a variable are apart.
type variableDiff struct {
	difference
	Mean jsonNumber `json:"mean"` // of the absolute differences of all elements
}

// compare adds a variable that differs.
func (d *checkpointDiff) compare(name string, x, y *tensor.Tensor) {
	d.Compared++
	one := compare(name, x, y)
	if one.Differing == 0 {
		return
	}
	sum := 0.0
	for i := range x.Len() {
		if !sameBits(x, y, i) {
			sum += math.Abs(float(x, i) - float(y, i))
		}
	}
	if math.IsNaN(sum) {
		sum = math.Inf(1)
	}
	d.Variables = append(d.Variables, variableDiff{one, jsonNumber(sum / float64(x.Len()))})
}

// parametersFirst brings the variables that differ into the order in which people read them: first the parameters, then what optimizers remember of them and other
// state. A program says which is which. Without one, what is remembered has the name of its parameter and more.
func (d *checkpointDiff) parametersFirst(a, b *stored) {
	names := map[string]bool{}
	for _, name := range slices.Concat(a.names, b.names) {
		names[name] = true
	}
	other := func(name string) bool {
		for _, s := range []*stored{a, b} {
			if s.program != nil {
				if v, ok := s.program.Global().Var(name); ok {
					return !v.IsParameter
				}
			}
		}
		for i, sign := range name {
			if sign == '_' && names[name[:i]] {
				return true
			}
		}
		return strings.HasPrefix(name, "learning_rate")
	}
	slices.SortStableFunc(d.Variables, func(x, y variableDiff) int {
		switch first, second := other(x.Name), other(y.Name); {
		case first == second:
			return 0
		case second:
			return -1
		}
		return 1
	})
}

// finish prints what differs. The exit code says whether anything does.
func (d *checkpointDiff) finish(c *console, output string) error {
	d.Equal = len(d.Fields) == 0 && len(d.Variables) == 0
	if err := writeDiff(c, *d, output); err != nil || d.Equal {
		return err
	}
	return errDiffer
}
