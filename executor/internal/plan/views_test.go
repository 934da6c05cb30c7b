package plan_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// written makes a program of lines such as "split x -> a b", where ! marks an op of the update. x is fed. Variables that begin with w are persistable. A
// name up to f has two rows, another one has four; one that begins with col is a column of four numbers.
func written(lines ...string) *program.Program {
	p := program.New()
	b := p.Global()
	declare := func(names []string) []string {
		for _, name := range names {
			rows := int64(4)
			if name <= "f" {
				rows = 2
			}
			v := program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{rows, 2}, Persistable: name[0] == 'w'}
			if strings.HasPrefix(name, "col") {
				v.Dims = []int64{4, 1}
			}
			if _, known := b.Var(name); !known && v.Persistable {
				p.Startup.Global().EnsureVar(v)
				p.Startup.Global().Append(&program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {name}},
					Attrs: map[string]program.Attr{"shape": v.Dims, "dtype": int32(tensor.Float32), "value": float32(3)}})
			}
			b.EnsureVar(v)
		}
		return names
	}
	declare([]string{"x"})
	for _, line := range lines {
		opType, rest, _ := strings.Cut(strings.TrimPrefix(line, "!"), " ")
		in, out, _ := strings.Cut(rest, "->")
		op := &program.Op{Type: opType, Inputs: map[string][]string{"X": declare(strings.Fields(in))},
			Outputs: map[string][]string{"Out": declare(strings.Fields(out))}, Attrs: map[string]program.Attr{}}
		switch messages := append(op.Inputs["X"], op.Outputs["Out"]...); opType {
		case "split", "split_byref":
			op.Attrs["sections"] = slices.Repeat([]int32{4 / int32(len(op.Outputs["Out"]))}, len(op.Outputs["Out"]))
		case "send", "recv":
			op.Attrs["epmap"] = slices.Repeat([]string{comm.Address(0)}, len(messages))
			op.Attrs[opType+"_varnames"] = messages
		case "reshape2":
			op.Attrs["shape"] = []int32{0, 2}
		case "column":
			op.Type, op.Attrs["shape"] = "reshape2", []int32{-1, 1}
		case "mul", "elementwise_add":
			op.Inputs["X"], op.Inputs["Y"] = messages[:1], messages[1:2]
			op.Attrs["axis"] = int32(0)
		case "scale":
			op.Attrs["scale"] = float32(2)
		}
		if strings.HasPrefix(line, "!") {
			op.SetRole(program.RoleOptimize)
		}
		b.Append(op)
	}
	return p
}

// run runs a program twice and returns the names of its steps, and all values that can be seen.
func run(t *testing.T, p *program.Program, fetch []string, without ...plan.Fusion) (steps []string, seen [][]float32) {
	t.Helper()
	scope, wire, x := started(t, p), &lateComm{}, fixture.Numbers(1, 4, 2)
	compiled, err := plan.Compile(plan.Request{Block: p.Global(), Scope: scope, Env: ops.Env{Comm: wire}, Fetch: fetch, Without: without,
		Feeds: metas(map[string]*tensor.Tensor{"x": x})})
	for range 2 {
		if err == nil {
			err = compiled.Feed("x", x)
		}
		if err == nil {
			err = compiled.Run(t.Context(), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		wire.end()
		for _, v := range compiled.Fetched() {
			seen = append(seen, slices.Clone(v.Float32s()))
		}
		for _, name := range scope.Names() {
			w, _ := scope.Find(name)
			seen = append(seen, slices.Clone(w.Float32s()))
		}
	}
	for _, s := range compiled.Steps() {
		steps = append(steps, strings.Split(s.Name, "+")...)
	}
	return steps, append(seen, wire.sent)
}

func TestSplitAndConcatShareMemoryWhereNobodyCanTell(t *testing.T) {
	for name, c := range map[string]struct {
		copies int // that stay
		fetch  []string
		lines  []string
	}{
		"the round of a trainer": {0, []string{"w"}, []string{"scale w -> g", "split_byref g -> a b", "send a b", "send_barrier", "recv -> c d",
			"fetch_barrier", "concat c d -> w"}},
		"a concat that a later op reads": {0, []string{"out"}, []string{"tanh x -> g", "split g -> a b", "tanh a -> c", "scale b -> d", "concat c d -> h",
			"tanh h -> out"}},
		"parts that are changed, and read later": {0, []string{"out", "e"}, []string{"split w -> a b", "tanh a -> c", "scale b -> d", "scale c -> c",
			"concat c d -> h", "tanh d -> e", "tanh h -> out"}},
		"views of views": {0, []string{"out"}, []string{"tanh x -> g", "reshape2 g -> h", "split h -> a b", "tanh a -> c", "scale b -> d", "concat c d -> i",
			"split i -> e f", "sum e f -> e1", "tanh i -> out"}},

		// Loops over a view and loops over the variable that has the elements do not run range by range, and products hand on that they write a part.
		"a term that is a slice": {0, []string{"d"}, []string{"split w -> e f", "tanh x -> g", "split g -> a b", "mul e f -> c", "sum b c -> d"}},
		"a sum that is a part": {0, []string{"out"}, []string{"split w -> a b", "tanh a -> c", "mul a b -> d", "sum c d -> e", "scale a -> f",
			"concat f e -> h", "tanh h -> out"}},
		"a product with a function that is a part": {0, []string{"out"}, []string{"split w -> a b", "scale b -> d", "mul a b -> e", "relu e -> c",
			"concat c d -> h", "tanh h -> out"}},
		"a variable that is overwritten while its slice is read": {0, []string{"out"}, []string{"tanh x -> g", "split g -> a b", "column a -> col",
			"tanh col -> col2", "elementwise_add g col2 -> h", "softmax h -> out"}},

		"an input that is written later":    {1, []string{"e", "g"}, []string{"tanh x -> g", "split g -> a b", "scale g -> g", "sum a b -> e"}},
		"a parameter that is updated later": {1, []string{"e"}, []string{"split w -> a b", "!scale w -> w", "sum a b -> e"}},
		"a slice that is fetched":           {1, []string{"a", "g"}, []string{"tanh x -> g", "split g -> a b"}},
		"a slice that is written later":     {1, []string{"e", "g"}, []string{"tanh x -> g", "split g -> a b", "scale a -> a", "sum a b -> e"}},
		"a slice that had a value":          {2, []string{"e"}, []string{"split w1 -> a b", "tanh a -> c", "split w -> a b", "sum a c -> e"}},
		"slices of a feed":                  {1, []string{"e"}, []string{"split x -> a b", "sum a b -> e"}},
		"the same slice twice":              {1, []string{"e"}, []string{"tanh x -> g", "split g -> a a", "scale a -> e"}},

		"a part that is fetched": {1, []string{"c", "h"}, []string{"split w -> a b", "tanh a -> c", "scale b -> d", "concat c d -> h"}},
		"a part twice":           {1, []string{"h"}, []string{"split w -> a b", "sum a b -> c", "concat c c -> h"}},
		"parts that are views":   {1, []string{"h"}, []string{"split w -> a b", "concat b a -> h"}},
		"an output that is read between": {1, []string{"out", "w"}, []string{"split w1 -> a b", "tanh a -> c", "tanh w -> out", "scale b -> d",
			"concat c d -> w"}},
		"an output that is written between":      {1, []string{"w"}, []string{"split w1 -> a b", "tanh a -> c", "scale w -> w", "scale b -> d", "concat c d -> w"}},
		"an output that its own parts come from": {2, []string{"w"}, []string{"split w -> c d", "concat d c -> w"}},
		"an output that is written later": {1, []string{"e", "w"}, []string{"split w1 -> a b", "tanh a -> c", "scale b -> d", "concat c d -> w", "scale w -> w",
			"scale c -> e"}},
		"a part that is written later": {1, []string{"w", "e"}, []string{"split w1 -> a b", "tanh a -> c", "scale b -> d", "concat c d -> w", "scale c -> c",
			"tanh c -> e"}},
		"an output that is being sent": {1, []string{"w"}, []string{"split w1 -> a b", "send w", "tanh a -> c", "scale b -> d", "send_barrier",
			"concat c d -> w"}},
		"an output that is sent without a barrier": {1, []string{"w"}, []string{"split w1 -> a b", "send w", "tanh a -> c", "scale b -> d", "concat c d -> w"}},
		"a part that is sent without a barrier":    {1, []string{"w"}, []string{"split w1 -> a b", "tanh a -> c", "scale b -> d", "send c", "concat c d -> w"}},
		"a part that a barrier fills later":        {1, []string{"out"}, []string{"recv -> c d", "concat c d -> h", "fetch_barrier", "tanh h -> out"}},
		"a part that no barrier fills":             {1, []string{"out"}, []string{"recv -> c d", "concat c d -> h", "tanh h -> out"}},
		"parts before the update, joined in it": {1, []string{"w"}, []string{"split w1 -> a b", "tanh a -> c", "scale b -> d", "!scale w2 -> w2",
			"concat c d -> w"}},
	} {
		p := written(c.lines...)
		steps, got := run(t, p, c.fetch)
		plain, want := run(t, p, c.fetch, plan.Fusions...)
		if !slices.EqualFunc(got, want, sameBits) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		copies := 0
		for _, step := range steps {
			if strings.HasPrefix(step, "split") || step == "concat" {
				copies++
			}
		}
		if copies != c.copies || !slices.ContainsFunc(plain, func(step string) bool { return strings.HasPrefix(step, "split") || step == "concat" }) {
			t.Errorf("%s: %d copies in the steps %v, want %d", name, copies, steps, c.copies)
		}
	}
}

// A run that fails before the update has written parts of what it joins. It leaves the scope as it was.
func TestFailedStepRestoresWhatPartsWrote(t *testing.T) {
	p := written("split w1 -> a b", "tanh a -> c", "scale b -> d", "concat c d -> w", "test_fails -> g", "!scale w1 -> w1")
	p.Global().Ops[4].Inputs = nil
	v, _ := p.Global().Var("g")
	v.Dims = []int64{1}
	scope := started(t, p)
	compiled, err := plan.Compile(plan.Request{Block: p.Global(), Scope: scope, Fetch: []string{"g"}})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(compiled.Steps(), func(s plan.StepInfo) bool { return s.Name == "concat" }) {
		t.Fatal("the parts are copied")
	}
	if err := compiled.Run(t.Context(), nil); fault.KindOf(err) != fault.Corrupt {
		t.Fatal(err)
	}
	if w, _ := scope.Find("w"); !slices.Equal(w.Float32s(), []float32{3, 3, 3, 3, 3, 3, 3, 3}) {
		t.Errorf("w is %v", w.Float32s())
	}
}

// Slices of a parameter that is received go straight into the scope, and a trainer without rows receives them, too.
func TestReceivedSlicesOfTrainerWithoutRows(t *testing.T) {
	p := written("scale w -> g", "split_byref g -> a b", "send a b", "send_barrier", "recv -> c d", "fetch_barrier", "concat c d -> w")
	scope := executor.NewScope()
	if err := scope.Set("w", fixture.Numbers(1, 4, 2)); err != nil {
		t.Fatal(err)
	}
	wire := &lazyComm{value: 7}
	compiled, err := plan.Compile(plan.Request{Block: p.Global(), Scope: scope, Env: ops.Env{Comm: wire}})
	if err == nil {
		err = compiled.RunFromBarrier(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if w, _ := scope.Find("w"); !slices.Equal(w.Float32s(), []float32{7, 7, 7, 7, 7, 7, 7, 7}) || !slices.Equal(compiled.Written(), []string{"w"}) {
		t.Errorf("w is %v, written %v", w.Float32s(), compiled.Written())
	}
}

// lateComm moves bytes as late as it may, as lazyComm does: at the barrier, or after the run where there is none. It gives each message values of its
// own.
type lateComm struct {
	sending, receiving []ops.Message
	sent               []float32 // one message after the other
}

func (c *lateComm) Send(_ context.Context, m ops.Message) error {
	c.sending = append(c.sending, m)
	return nil
}

func (c *lateComm) SendBarrier(context.Context) error {
	for _, m := range c.sending {
		c.sent = append(c.sent, m.Value.Float32s()...)
	}
	c.sending = nil
	return nil
}

func (c *lateComm) Recv(_ context.Context, m ops.Message) error {
	fill(m, -1000)
	c.receiving = append(c.receiving, m)
	return nil
}

func (c *lateComm) FetchBarrier(ctx context.Context) error {
	_ = c.SendBarrier(ctx)
	for _, m := range c.receiving {
		fill(m, float32(len(m.Name)+int(m.Name[len(m.Name)-1]))/64+float32(len(c.sent)%7))
	}
	c.receiving = nil
	return nil
}

func fill(m ops.Message, value float32) {
	for i := range m.Value.Float32s() {
		m.Value.Float32s()[i] = value + float32(i)/8
	}
}

// end ends what no barrier has waited for.
func (c *lateComm) end() {
	_ = c.FetchBarrier(context.Background())
}
