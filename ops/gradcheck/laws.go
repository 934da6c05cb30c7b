package gradcheck

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Laws checks every law of the package on every case. It also fails if the cases leave out an op that computes and is registered in the test
// binary.
func Laws(t *testing.T, cases []Case) {
	t.Helper()
	covered, differentiated := checkAll(t, cases)
	for _, def := range ops.All() {
		if (def.Class == ops.Compute || def.Class == ops.Backward || def.Class == ops.Random) && !covered[def.Type] {
			t.Errorf("no case covers op %s", def.Type)
		}
		if def.Gradient != nil && !differentiated[def.Type] {
			t.Errorf("no case checks the gradient of op %s", def.Type)
		}
	}
	t.Run("hostile", func(t *testing.T) { hostile(t, cases) })
}

// LawsOf is Laws for a module that adds ops to those of EDL. It fails if a gradient of an op of the cases is unchecked, and asks for no cases of
// other ops.
func LawsOf(t *testing.T, cases ...Case) {
	t.Helper()
	_, differentiated := checkAll(t, cases)
	for _, c := range cases {
		if def, ok := ops.Lookup(c.Type); ok && def.Gradient != nil && !differentiated[c.Type] {
			t.Errorf("no case checks the gradient of op %s", c.Type)
		}
	}
	t.Run("hostile", func(t *testing.T) { hostile(t, cases) })
}

// checkAll runs the laws of single cases. It returns the types of the ops that ran, and of those whose gradient ran.
func checkAll(t *testing.T, cases []Case) (covered, differentiated map[string]bool) {
	t.Helper()
	covered, differentiated = map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		t.Run(c.String(), func(t *testing.T) {
			double, err := run(c, tensor.Float64)
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range append(double.backward, double.forward) {
				covered[op.Type] = true
			}
			if len(double.backward) > 0 {
				differentiated[c.Type] = true
			}
			report(t, "outputs", matchesWant(c, double))
			report(t, "gradient", differences(double))
			report(t, "float32", precision(c, double))
			for _, op := range append(double.backward, double.forward) {
				report(t, "allocations of "+op.Type, allocates(double, op))
				report(t, "in place "+op.Type, inPlace(double, op))
				report(t, "unwanted outputs of "+op.Type, unwanted(double, op))
				report(t, "rows of "+op.Type, rowSliced(double, op))
				report(t, "ranges of "+op.Type, ranges(double, op))
				report(t, "open extents of "+op.Type, openExtents(double, op))
			}
		})
	}
	return covered, differentiated
}

func report(t *testing.T, law string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", law, err)
	}
}

// matchesWant compares the outputs with those that the case states.
func matchesWant(c Case, t *trace) error {
	for slot, want := range c.Want {
		for i, w := range want {
			got := t.Vars[variable(slot, i)]
			if got == nil || got.DType() != w.DType() || !slices.Equal(got.Dims(), w.Dims()) {
				return fmt.Errorf("%s is %v, want %v", variable(slot, i), got, w)
			}
			if k := firstFar(got, w, 1e-12); k >= 0 || !sameRows(got, w) {
				return fmt.Errorf("%s is %v, want %v", variable(slot, i), numbers(got), numbers(w))
			}
		}
	}
	return nil
}

// precision compares a run in float32 with that in float64.
func precision(c Case, double *trace) error {
	if c.NoFloat32 {
		return nil
	}
	single, err := run(c, tensor.Float32)
	if err != nil {
		return err
	}
	for name, want := range double.Vars {
		got := single.Vars[name]
		if got == nil {
			return fmt.Errorf("%s is missing", name)
		}
		if i := firstFar(got, want, 1e-4); i >= 0 {
			return fmt.Errorf("%s[%d] is %v, in float64 %v", name, i, numbers(got)[i], numbers(want)[i])
		}
	}
	return nil
}

func allocates(t *trace, op *program.Op) error {
	kernel, err := t.Bind(op)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if n := testing.AllocsPerRun(5, func() { err = kernel(ctx) }); err == nil && n != 0 {
		return fmt.Errorf("%v a run", n)
	}
	return err
}

// Golden runs a case forwards and compares the outputs with those that it states.
func Golden(c Case) error {
	c.Constant = nil
	for slot := range c.Inputs {
		c.Constant = append(c.Constant, slot)
	}
	t, err := run(c, tensor.Float64)
	if err != nil {
		return err
	}
	return matchesWant(c, t)
}
