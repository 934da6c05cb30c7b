package program_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/program"
)

// Differences are found at the op, slot, attribute and variable where they are, and nowhere else; and the other way around they are the same.
func TestDiff(t *testing.T) {
	build := func() *program.Program {
		p := program.New()
		for _, op := range []*program.Op{
			{Type: "mul", Inputs: map[string][]string{"X": {"x"}, "Y": {"w"}}, Outputs: map[string][]string{"Out": {"a"}}, Attrs: map[string]program.Attr{"x_num_col_dims": int32(1)}},
			{Type: "relu", Inputs: map[string][]string{"X": {"a"}}, Outputs: map[string][]string{"Out": {"b"}}},
			{Type: "mul", Inputs: map[string][]string{"X": {"b"}, "Y": {"v"}}, Outputs: map[string][]string{"Out": {"c"}}},
			{Type: "mean", Inputs: map[string][]string{"X": {"c"}}, Outputs: map[string][]string{"Out": {"loss"}}},
		} {
			p.Global().Ops = append(p.Global().Ops, op)
		}
		return p
	}
	ops := func(p *program.Program) *[]*program.Op { return &p.Global().Ops }
	for name, c := range map[string]struct {
		change func(p *program.Program)
		want   []program.Difference
	}{
		"nothing":   {func(*program.Program) {}, nil},
		"user line": {func(p *program.Program) { (*ops(p))[0].SetLine("fit.go:7") }, nil},
		"attribute": {func(p *program.Program) { (*ops(p))[0].SetAttr("x_num_col_dims", int32(2)) }, []program.Difference{{"block 0, op 0, mul", "x_num_col_dims", "1", "2"}}},
		"type of attribute": {func(p *program.Program) { (*ops(p))[0].SetAttr("x_num_col_dims", int64(1)) },
			[]program.Difference{{"block 0, op 0, mul", "x_num_col_dims", "1", "1 (another value)"}}},
		"new attribute": {func(p *program.Program) { (*ops(p))[3].SetAttr("keep", true) }, []program.Difference{{"block 0, op 3, mean", "keep", "", "true"}}},
		"slot":          {func(p *program.Program) { (*ops(p))[2].Inputs["Y"] = []string{"w"} }, []program.Difference{{"block 0, op 2, mul", "Y", "v", "w"}}},
		"no relu": {func(p *program.Program) {
			*ops(p) = slices.Delete(*ops(p), 1, 2)
			(*ops(p))[1].Inputs["X"] = []string{"a"}
		}, []program.Difference{{"block 0, op 1, relu", "", "Out=b = relu(X=a)", ""}, {"block 0, op 2, mul", "X", "b", "a"}}},
		"other activation": {func(p *program.Program) { (*ops(p))[1].Type = "tanh" },
			[]program.Difference{{"block 0, op 1, relu", "", "Out=b = relu(X=a)", ""}, {"block 0, op 1, tanh", "", "", "Out=b = tanh(X=a)"}}},
		"startup": {func(p *program.Program) {
			p.Startup.Global().Ops = append(p.Startup.Global().Ops, &program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {"w"}}})
		}, []program.Difference{{"startup, block 0, op 0, fill_constant", "", "", "Out=w = fill_constant()"}}},
		"no startup": {func(p *program.Program) { p.Startup = nil }, nil},
	} {
		a, b := build(), build()
		c.change(b)
		if got := program.Diff(a, b); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%q\nwant\n%q", name, got, c.want)
		}
		if there, back := len(program.Diff(a, b)), len(program.Diff(b, a)); there != back {
			t.Errorf("%s: %d differences, and %d the other way around", name, there, back)
		}
	}
}

// A model of Fluid equals itself after another reading, and what is taken from its middle is found there.
func TestDiffOfModels(t *testing.T) {
	for name, data := range models(t) {
		a, b := decode(t, data), decode(t, data)
		if got := program.Diff(a, b); len(got) > 0 {
			t.Errorf("%s differs from itself: %v", name, got[0])
		}
		list := &b.Global().Ops
		if len(*list) < 3 {
			continue
		}
		at := len(*list) / 2
		gone := (*list)[at].Type
		*list = slices.Delete(*list, at, at+1)
		if got := program.Diff(a, b); len(got) != 1 || !strings.HasSuffix(got[0].Where, ", "+gone) || got[0].B != "" {
			t.Errorf("%s without op %d, %s: %v", name, at, gone, got)
		}
	}
}
