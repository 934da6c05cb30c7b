// Package compilecheck is the test kit that compares compiled plans with single ops.
//
// It takes the cases of package gradcheck. Law compiles the ops of each case in several ways: forwards alone and with the gradient, with every result wanted and with one alone, in order and divided
// among workers. It gives the plans other numbers of rows and back. All must have the bits of the interpreter, which runs one op at a time on memory of its own. So Law finds loops that a plan
// drops or divides although somebody needs what they write, memory that an op may not share, and kernels that keep something of other dims.
package compilecheck

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// workers of the pool that runs what is divided.
const workers = 3

// Law checks the cases, in short runs only plans with all results that are divided. It fails if no plan took other numbers of rows.
func Law(t *testing.T, cases []gradcheck.Case) {
	t.Helper()
	pool := plan.NewPool(workers)
	defer pool.Close()
	resized := 0
	for _, c := range cases {
		t.Run(c.String(), func(t *testing.T) {
			n, err := check(c, pool, testing.Short())
			if err != nil {
				t.Error(err)
			}
			resized += n
		})
	}
	if resized == 0 {
		t.Error("no plan was given other dims")
	}
}

// check checks a case. It returns how often a plan took other dims.
func check(c gradcheck.Case, pool *plan.Pool, short bool) (resized int, err error) {
	traces, err := gradcheck.Traces(c)
	if err != nil {
		return 0, err
	}
	if len(traces) > 1 && !alike(traces[0], traces[1]) {
		traces = traces[:1]
	}
	for _, f := range forms(traces[0]) {
		if short && !f.divided {
			continue
		}
		n, err := f.check(append(slices.Clip(traces), traces[0]), pool)
		if err != nil {
			return resized, fmt.Errorf("%v: %w", f, err)
		}
		resized += n
	}
	return resized, nil
}

// alike reports whether all variables of two traces have equal types and ranks, and sparse gradients are of tables of one height: a plan knows them as its parameters.
func alike(a, b gradcheck.Trace) bool {
	for name, v := range a.Vars {
		w := b.Vars[name]
		if w == nil || w.DType() != v.DType() || len(w.Dims()) != len(v.Dims()) || w.IsSelected() != v.IsSelected() {
			return false
		}
		if v.IsSelected() && !slices.Equal(ops.MetaOfValue(v).Dims, ops.MetaOfValue(w).Dims) {
			return false
		}
	}
	return true
}

// A form is a way to compile a trace.
type form struct {
	ops     []*program.Op
	results []string // what is fetched
	divided bool     // among workers
}

func (f form) String() string {
	way := "in order"
	if f.divided {
		way = "divided"
	}
	return fmt.Sprintf("%d ops %s for %v", len(f.ops), way, f.results)
}

// forms returns the ways in which a trace is compiled: none if a plan cannot be fed with what it needs.
func forms(t gradcheck.Trace) (list []form) {
	for _, v := range t.Vars {
		if v.IsSelected() && !slices.ContainsFunc(append(t.Backward, t.Forward), func(op *program.Op) bool { return writes(op, t.Vars, v) }) {
			return nil // sparse gradients are not fed
		}
	}
	def, _ := ops.Lookup(t.Forward.Type)
	var forward []string
	for _, slot := range def.Outputs {
		if !slot.Intermediate {
			forward = append(forward, t.Forward.Outputs[slot.Name]...)
		}
	}
	add := func(list []form, ops []*program.Op, results []string) []form {
		results = slices.DeleteFunc(slices.Clone(results), func(name string) bool { return name == program.Empty })
		slices.Sort(results)
		if len(results) == 0 {
			return list
		}
		list = append(list, form{ops, results, false}, form{ops, results, true})
		for _, name := range results {
			if len(results) > 1 {
				list = append(list, form{ops, []string{name}, false})
			}
		}
		return list
	}
	list = add(list, []*program.Op{t.Forward}, forward)
	if len(t.Backward) > 0 {
		var gradients []string
		for _, op := range t.Backward {
			gradients = append(gradients, op.OutputNames()...)
		}
		list = add(list, append([]*program.Op{t.Forward}, t.Backward...), append(gradients, forward...))
	}
	return list
}

func writes(op *program.Op, vars map[string]*tensor.Tensor, v *tensor.Tensor) bool {
	return slices.ContainsFunc(op.OutputNames(), func(name string) bool { return vars[name] == v })
}

// A built form is a program with what it is fed.
type built struct {
	program *program.Program
	feeds   map[string]string // what is fed, by the variable of the trace
	fetch   []string
	known   map[string]bool // variables whose values decide dims or attributes
}

// build writes the program of a form, for variables of the dims of two traces. Inputs and results are copies, so that what the ops read and write are temporaries, which may share memory.
func (f form) build(t, other gradcheck.Trace) built {
	b := built{program: program.New(), feeds: map[string]string{}, known: map[string]bool{}}
	block := b.program.Global()
	declare := func(name string, of string) {
		v := t.Vars[of]
		m := ops.MetaOfValue(v)
		dims := slices.Clone(m.Dims)
		for i, extent := range ops.MetaOfValue(other.Vars[of]).Dims {
			if extent != dims[i] {
				dims[i] = program.Unknown
			}
		}
		block.EnsureVar(program.Var{Name: name, Kind: m.Kind, DType: m.DType, Dims: dims, LoDLevel: m.LoDLevel})
	}
	written := map[string]bool{}
	for _, op := range f.ops {
		def, _ := ops.Lookup(op.Type)
		for _, slot := range def.Inputs {
			for _, name := range op.Inputs[slot.Name] {
				b.known[name] = b.known[name] || slot.Decides
			}
		}
		for _, a := range def.Attrs {
			for _, name := range slices.Concat(op.Inputs[a.Tensor], op.Inputs[a.Tensors]) {
				b.known[name] = true
			}
		}
	}
	for _, op := range f.ops {
		for _, name := range op.InputNames() {
			if name == program.Empty || written[name] || b.feeds[name] != "" {
				continue
			}
			declare(name, name)
			b.feeds[name] = name
			if !b.known[name] {
				b.feeds[name] = "fed " + name
				declare(b.feeds[name], name)
				block.Append(copying(b.feeds[name], name))
			}
		}
		for _, name := range op.OutputNames() {
			if written[name] = true; name != program.Empty {
				declare(name, name)
			}
		}
		block.Append(op.Clone())
	}
	for _, name := range f.results {
		if t.Vars[name].IsSelected() {
			b.fetch = append(b.fetch, name)
			continue
		}
		declare("result "+name, name)
		block.Append(copying(name, "result "+name))
		b.fetch = append(b.fetch, "result "+name)
	}
	return b
}

// feed returns what a trace feeds the program with.
func (b built) feed(t gradcheck.Trace) (values map[string]*tensor.Tensor, metas map[string]ops.Meta, err error) {
	values, metas = map[string]*tensor.Tensor{}, map[string]ops.Meta{}
	depends := ops.DependenceOf(b.program)
	depends.Values = b.known
	for name, fed := range b.feeds {
		values[fed] = t.Vars[name]
		if metas[fed], err = depends.MetaOf(name, t.Vars[name]); err != nil {
			return nil, nil, err
		}
		if b.known[name] {
			metas[fed] = withValue(metas[fed], t.Vars[name])
		}
	}
	return values, metas, nil
}

func withValue(m ops.Meta, v *tensor.Tensor) ops.Meta {
	m.Value = v.Clone()
	return m
}

// check compiles the form for the first trace, runs it, and compares. Then the plan takes the dims of the other traces in turn; where it cannot, they get a plan of their own. It returns
// how often it could.
func (f form) check(traces []gradcheck.Trace, pool *plan.Pool) (resized int, err error) {
	b := f.build(traces[0], traces[len(traces)/2])
	if !f.divided {
		pool = nil
	}
	var kept *plan.Plan
	for _, t := range traces {
		values, metas, err := b.feed(t)
		if err != nil {
			return resized, err
		}
		if kept != nil && plan.Resize(kept, metas) {
			resized++
		} else if kept, err = f.compile(b, metas); err != nil {
			return resized, err
		}
		for _, fed := range slices.Sorted(maps.Keys(values)) {
			if err := kept.Feed(fed, values[fed]); err != nil {
				return resized, err
			}
		}
		kept.SetStep(&t.Step)
		if err := kept.Run(context.Background(), pool); err != nil {
			return resized, err
		}
		for i, name := range f.results {
			if err := gradcheck.SameBits(kept.Fetched()[i], t.Vars[name]); err != nil {
				return resized, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return resized, nil
}

func (f form) compile(b built, metas map[string]ops.Meta) (*plan.Plan, error) {
	request := plan.Request{Block: b.program.Global(), Feeds: metas, Fetch: b.fetch, Scope: noScope{}}
	if f.divided {
		request.Workers = workers
	}
	return plan.Compile(request)
}

// noScope has no variables: no op of a case has parameters.
type noScope struct{}

func (noScope) Find(string) (*tensor.Tensor, bool) { return nil, false }

func (noScope) Var(name string, _ tensor.DType, _ []int64) (*tensor.Tensor, error) {
	return nil, fault.E(fault.NotFound, fault.Var(name), fault.Got("a variable that outlives the run"), fault.Want("none in a case"))
}

func (noScope) MarkReady(...string) {}

// copyOp copies a tensor into memory of its own. Other copies may be views.
const copyOp = "compilecheck_copy"

func copying(from, to string) *program.Op {
	return &program.Op{Type: copyOp, Inputs: map[string][]string{"X": {from}}, Outputs: map[string][]string{"Out": {to}}}
}

func init() {
	ops.Register(ops.Def{
		Type: copyOp, Class: ops.Optimize, // of which gradcheck.Laws wants no case
		Doc:     "Copies for tests: Out = X.",
		Inputs:  []ops.Slot{{Name: "X"}},
		Outputs: []ops.Slot{{Name: "Out"}},
		Infer:   func(s *ops.Shapes) error { s.Like("Out", "X"); return nil },
		Bind: opkit.BindBits("X", bindCopy[float32], bindCopy[float64], bindCopy[int32], bindCopy[int64], bindCopy[bool], func(b *ops.Binding) (ops.Kernel, error) {
			return nil, fault.E(fault.Unsupported, fault.On(b.Op()), fault.Got("a half type"), fault.Want("one that kernels compute with"))
		}),
	})
}

func bindCopy[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	x, out := b.In("X"), b.Out("Out")
	return opkit.Loop(b, x.Len(), func(from, till int) { copy(tensor.Data[T](out)[from:till], tensor.Data[T](x)[from:till]) })
}
