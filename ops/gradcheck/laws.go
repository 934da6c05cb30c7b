package gradcheck

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Laws checks every law of the package on every case. It also fails if the cases leave out an op of the family that computes (ops.Def.Family).
func Laws(t *testing.T, family string, cases []Case) {
	t.Helper()
	covered, differentiated := checkAll(t, cases)
	report(t, "division", undivided(cases))
	seeds := seedsOf(t, cases)
	for _, def := range ops.All() {
		if def.Family() != family {
			continue
		}
		if (def.Class == ops.Compute || def.Class == ops.Backward || def.Class == ops.Random) && !covered[def.Type] {
			t.Errorf("no case covers op %s", def.Type)
		}
		if def.Class != ops.Control { // whose gradients tests of package executor check, in whole programs
			Covered(t, def, ops.CheckGradient, def.Gradient == nil || differentiated[def.Type])
		}
		seeds = append(seeds, SeedOf(def))
	}
	t.Run("hostile", func(t *testing.T) { Hostile(t, seeds) })
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
	t.Run("hostile", func(t *testing.T) { Hostile(t, seedsOf(t, cases)) })
}

// Covered fails if an op lacks a check without a reason in its definition, or has both.
func Covered(t *testing.T, def *ops.Def, check ops.Check, has bool) {
	t.Helper()
	switch reason := def.Exempt[check]; {
	case !has && reason == "":
		t.Errorf("no test makes the check %q of op %s, and its definition does not say why", check, def.Type)
	case has && reason != "" && (check != ops.CheckGradient || def.Gradient != nil):
		t.Errorf("op %s has the check %q, and its definition says why it has not: %s", def.Type, check, reason)
	}
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
			if !c.NoDifferences {
				report(t, "gradient", differences(double))
			}
			report(t, "float32", precision(c, double))
			def, _ := ops.Lookup(c.Type)
			_, _, err = divided(c, double, def)
			report(t, "division", err)
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

// undivided reports the ops whose rows a cluster may divide and of which no case has rows to divide.
func undivided(cases []Case) error {
	checked, empty := map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		def, ok := ops.Lookup(c.Type)
		if !ok {
			continue
		}
		double, err := run(c, tensor.Float64)
		if err != nil {
			continue // which the case itself reports
		}
		n, none, err := divided(c, double, def)
		if checked[c.Type] = checked[c.Type] || n > 0 || err != nil; none > 0 {
			empty[c.Type] = true
		}
	}
	for opType := range checked {
		if checked[opType] {
			delete(empty, opType)
		}
	}
	if len(empty) > 0 {
		return fmt.Errorf("no case divides the rows of %v", slices.Sorted(maps.Keys(empty)))
	}
	return nil
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

// A trace is a case that ran forwards and, if the op has a gradient, backwards.
type trace struct {
	*Interpreter
	forward  *program.Op
	backward []*program.Op
	losses   []string
	wanted   []string
}

// run runs a case with floats of a type. The loss is the sum over the outputs of losses, each element weighted by
// weights.
func run(c Case, float tensor.DType) (*trace, error) {
	def, ok := ops.Lookup(c.Type)
	if !ok {
		return nil, fmt.Errorf("%v is not registered", c.Type)
	}
	t := &trace{Interpreter: NewInterpreter(c.variables(float), c.Step), forward: c.op()}
	if err := t.Run(context.Background(), t.forward); err != nil {
		return nil, err
	}
	if def.Gradient == nil {
		return t, nil
	}
	t.losses, t.wanted = c.losses(t.forward, t.Vars), c.wanted()
	if len(t.wanted) == 0 || len(t.losses) == 0 {
		t.wanted, t.losses = nil, nil
		return t, nil
	}
	for i, name := range t.losses {
		t.Vars[program.GradName(name)] = convert(weights(i, t.Vars[name].Dims()), float)
	}
	made, err := def.Gradient(ops.NewGrad(t.forward, def,
		func(name string) bool { return slices.Contains(t.losses, name) },
		func(name string) bool { return slices.Contains(t.wanted, name) }).WithDims(func(name string) []int64 { return t.Vars[name].Dims() }))
	if err != nil {
		return nil, err
	}
	t.backward = made
	return t, t.Run(context.Background(), made...)
}

// weights returns the gradient of the loss in output i.
func weights(i int, dims []int64) *tensor.Tensor {
	n, _ := tensor.Count(dims)
	values := make([]float64, n)
	for k := range values {
		values[k] = 0.5 + float64((3*k+5*i)%7)/4
	}
	return Floats(dims, values...)
}

// differences compares the gradients of a float64 trace with central finite differences of the forward op.
func differences(t *trace) error {
	const h, tolerance = 1e-5, 2e-6
	if len(t.wanted) == 0 {
		return nil
	}
	kernel, err := t.Bind(t.forward)
	if err != nil {
		return err
	}
	loss := func() (float64, error) {
		if err := kernel(context.Background()); err != nil {
			return 0, err
		}
		total := 0.0
		for _, name := range t.losses {
			weight := t.Vars[program.GradName(name)].Float64s()
			for i, v := range t.Vars[name].Float64s() {
				total += weight[i] * v
			}
		}
		return total, nil
	}
	for _, name := range t.wanted {
		gradient, ok := t.Vars[program.GradName(name)]
		if !ok {
			return fmt.Errorf("no op of the gradient writes that of %s", name)
		}
		x := t.Vars[name].Float64s()
		for i, analytic := range dense(gradient.Clone()).Float64s() {
			at := x[i]
			x[i] = at + h
			above, err := loss()
			if err != nil {
				return err
			}
			x[i] = at - h
			below, err := loss()
			if err != nil {
				return err
			}
			x[i] = at
			if numeric := (above - below) / (2 * h); !near(analytic, numeric, tolerance) {
				return fmt.Errorf("gradient of %s[%d]: %v, finite differences give %v", name, i, analytic, numeric)
			}
		}
	}
	_, err = loss()
	return err
}

// Check runs a case in float64, forwards and backwards, and compares gradients with finite differences.
func Check(c Case) error {
	t, err := run(c, tensor.Float64)
	if err != nil {
		return err
	}
	return differences(t)
}

// openExtents infers op with the batch open and with every extent open; both must agree with what is known. Unsupported is legal where the rank of an output
// depends on an extent.
func openExtents(t *trace, op *program.Op) error {
	known, err := t.Infer(op)
	if err != nil {
		return err
	}
	if err := costs(known); err != nil {
		return err
	}
	given := givingAttrs(op)
	for what, open := range map[string]func(axis int) bool{
		"batch":        func(axis int) bool { return axis == 0 },
		"every extent": func(int) bool { return true },
	} {
		s, err := ops.Infer(op, func(name string) (ops.Meta, bool) {
			v, ok := t.Vars[name]
			if !ok {
				return ops.Meta{}, false
			}
			meta := ops.MetaOfValue(v)
			dims := slices.Clone(meta.Dims)
			number, gives := given[name]
			if number {
				meta.Value = v
			}
			for axis := range dims {
				if open(axis) && dims[axis] > 0 && !gives {
					dims[axis] = program.Unknown
				}
			}
			meta.Dims, meta.Sequences = dims, nil
			if meta.Kind == program.SelectedRows {
				meta.Rows = program.Unknown
			}
			return meta, true
		})
		if fault.KindOf(err) == fault.Unsupported && dependsRank(op) {
			continue
		}
		if err != nil {
			return fmt.Errorf("with %s open: %w", what, err)
		}
		if err := costs(s); err != nil {
			return err
		}
		for slot := range op.Outputs {
			for i, m := range s.Outs(slot) {
				if want := known.Outs(slot)[i]; m.Kind != want.Kind || m.DType != want.DType || !ops.Compatible(m.Dims, want.Dims) {
					return fmt.Errorf("with %s open %s is %v, want %v", what, slot, m, want)
				}
			}
		}
	}
	return nil
}

// dependsRank reports whether the rank of an output of op depends on an extent: on how many indices name a place.
func dependsRank(op *program.Op) bool {
	return slices.Contains([]string{"gather_nd", "scatter_nd_add"}, strings.TrimSuffix(op.Type, "_grad"))
}

// givingAttrs returns the variables that give op attributes: how many numbers they hold must be known. It says of each whether its value must be known, too,
// which holds for single numbers but where Attr.Opens says otherwise, and where Attr.Whole says so.
func givingAttrs(op *program.Op) map[string]bool {
	def, _ := ops.Lookup(op.Type)
	given := map[string]bool{}
	for _, a := range def.Attrs {
		like := a.Default
		if like == nil {
			like = a.Kind
		}
		for _, name := range slices.Concat(op.Inputs[a.Tensor], op.Inputs[a.Tensors]) {
			given[name] = a.Whole || reflect.TypeOf(like).Kind() != reflect.Slice && !a.Opens
		}
	}
	return given
}

// costs checks that the estimate of one run is not negative.
func costs(s *ops.Shapes) error {
	def, _ := ops.Lookup(s.Op().Type)
	if def.Cost == nil {
		return nil
	}
	if c := def.Cost(s); c.Flops < 0 || c.Bytes < 0 {
		return fmt.Errorf("negative cost %+v", c)
	}
	return nil
}
