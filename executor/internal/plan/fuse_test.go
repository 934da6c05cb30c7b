package plan

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// stepsOf compiles a model of images without joining rows, and returns what its steps are named.
func stepsOf(t *testing.T, p *program.Program, dims []int64, fetch []string, without ...Fusion) []string {
	t.Helper()
	scope := values{}
	startup, err := Compile(Request{Block: p.Startup.Global(), Scope: scope})
	if err == nil {
		err = startup.Run(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := Compile(Request{Block: p.Global(), Scope: scope, Fetch: fetch, Without: append(without, FuseRows), Feeds: map[string]ops.Meta{
		"image": {Kind: program.LoDTensor, DType: tensor.Float32, Dims: dims},
		"label": {Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{dims[0], 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range compiled.Steps() {
		names = append(names, s.Name)
	}
	return names
}

func count(names []string, name string) (n int) {
	for _, have := range names {
		if have == name {
			n++
		}
	}
	return n
}

func TestProductsTakeOverBiasAndActivation(t *testing.T) {
	mlp := fixture.MLP(t, 20, []int64{16, 16}, optimizer.SGD(0.1))
	conv := fixture.Digits(t, optimizer.SGD(0.1))
	for _, c := range []struct {
		name   string
		p      *program.Program
		dims   []int64
		fusion string
		times  int
	}{
		{"relu", mlp.Program, []int64{8, 20}, "mul+elementwise_add+relu", 2},
		{"bias alone", mlp.Program, []int64{8, 20}, "mul+elementwise_add", 1},
		{"convolution", conv.Program, []int64{2, 1, 28, 28}, "conv2d+elementwise_add+relu", 2},
	} {
		if names := stepsOf(t, c.p, c.dims, nil); count(names, c.fusion) != c.times {
			t.Errorf("%s: steps %v", c.name, names)
		}
		if names := stepsOf(t, c.p, c.dims, nil, FuseEpilogues); count(names, c.fusion) != 0 || !slices.Contains(names, "elementwise_add") {
			t.Errorf("%s, switched off: steps %v", c.name, names)
		}
	}
}

// What somebody reads between the product and the activation is stored: here by a gradient, and by whoever fetches.
func TestEpiloguesHideNothingThatIsRead(t *testing.T) {
	m := layers.NewModel()
	sum := layers.FC(layers.Data(m, "image", layers.Dims(20)), 16)
	cost, _ := layers.SoftmaxWithCrossEntropy(layers.Square(sum), layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64)))
	loss := layers.Mean(cost)
	optimizer.SGD(0.1).Minimize(loss)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	if names := stepsOf(t, p, []int64{8, 20}, nil); count(names, "mul+elementwise_add") != 1 || !slices.Contains(names, "square") {
		t.Errorf("read by square_grad: steps %v", names)
	}
	mlp := fixture.MLP(t, 20, []int64{16}, optimizer.SGD(0.1))
	var product string
	for _, op := range mlp.Program.Global().Ops {
		if op.Type == "mul" && product == "" {
			product = op.Outputs["Out"][0]
		}
	}
	if names := stepsOf(t, mlp.Program, []int64{8, 20}, []string{product}); !slices.Contains(names, "mul") {
		t.Errorf("fetched: steps %v", names)
	}
}

// Each block of a residual network sums two gradients where it begins, twice; tied weights sum those of all blocks.
func TestProductsAccumulateSumsOfGradients(t *testing.T) {
	for _, c := range []struct {
		name         string
		tied         bool
		blocks, with int // products that accumulate
	}{{"residual", false, 2, 4}, {"tied weights", true, 3, 3*2 + 3*2}} {
		m := fixture.Residual(t, 20, c.blocks, c.tied, optimizer.SGD(0.1))
		names := stepsOf(t, m.Program, []int64{8, 20}, nil)
		if n := count(names, "mul_grad+sum"); n != c.with {
			t.Errorf("%s: steps %v", c.name, names)
		}
		if names := stepsOf(t, m.Program, []int64{8, 20}, nil, FuseFanIn); count(names, "mul_grad+sum") != 0 || !slices.Contains(names, "sum") {
			t.Errorf("%s, switched off: steps %v", c.name, names)
		}
	}
}

// A term that somebody else reads stays stored, and so does one that was made before the term that it is added to.
func TestSumsThatProductsMustNotTakeOver(t *testing.T) {
	m := fixture.Residual(t, 20, 1, false, optimizer.SGD(0.1))
	var last, first string
	for _, op := range m.Program.Global().Ops {
		if op.Type == "sum" {
			first, last = op.Inputs["X"][0], op.Inputs["X"][1]
		}
	}
	if names := stepsOf(t, m.Program, []int64{8, 20}, []string{last}); count(names, "mul_grad+sum") != 1 {
		t.Errorf("a fetched term: steps %v", names)
	}
	if names := stepsOf(t, m.Program, []int64{8, 20}, []string{first}); count(names, "mul_grad+sum") != 2 {
		t.Errorf("a fetched term that is only read: steps %v", names)
	}
	read := m.Program.Clone()
	read.Global().EnsureVar(program.Var{Name: "seen", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 20}})
	read.Global().Append(&program.Op{Type: "tanh", Inputs: map[string][]string{"X": {last}}, Outputs: map[string][]string{"Out": {"seen"}}})
	if names := stepsOf(t, read, []int64{8, 20}, []string{"seen"}); count(names, "mul_grad+sum") != 1 {
		t.Errorf("a term that another op reads: steps %v", names)
	}
	three := m.Program.Clone()
	for _, op := range three.Global().Ops {
		if x := op.Inputs["X"]; op.Type == "sum" {
			op.Inputs["X"] = []string{x[1], x[0], x[0]}
		}
	}
	if names := stepsOf(t, three, []int64{8, 20}, nil); count(names, "mul_grad+sum") != 0 {
		t.Errorf("a term that comes again: steps %v", names)
	}
	reused := m.Program.Clone()
	reused.Global().EnsureVar(program.Var{Name: "seen", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 20}})
	at := slices.IndexFunc(reused.Global().Ops, func(op *program.Op) bool { return op.Type == "sum" })
	result := reused.Global().Ops[at].Outputs["Out"]
	reused.Global().Ops = slices.Insert(reused.Global().Ops, at,
		&program.Op{Type: "tanh", Inputs: map[string][]string{"X": result}, Outputs: map[string][]string{"Out": {"seen"}}})
	reused.Global().Ops = slices.Insert(reused.Global().Ops, 0,
		&program.Op{Type: "tanh", Inputs: map[string][]string{"X": {"image"}}, Outputs: map[string][]string{"Out": result}})
	if names := stepsOf(t, reused, []int64{8, 20}, []string{"seen"}); count(names, "mul_grad+sum") != 1 {
		t.Errorf("a sum whose variable has had a value that is still read: steps %v", names)
	}
	swapped := m.Program.Clone()
	for _, op := range swapped.Global().Ops {
		if op.Type == "sum" {
			slices.Reverse(op.Inputs["X"])
		}
	}
	if names := stepsOf(t, swapped, []int64{8, 20}, nil); count(names, "mul_grad+sum") != 2 {
		t.Errorf("two terms in the other order: steps %v", names)
	}
}

// Rows of a table are added while they are in the cache: in the same ranges as they are looked up.
func TestCombinedRowsAreLookedUpRangeByRange(t *testing.T) {
	for _, kind := range []string{"sum", "mean", "sqrt"} {
		m := layers.NewModel()
		ids := layers.Data(m, "ids", layers.Dims(8, 1), layers.DType(tensor.Int64))
		combined := layers.Embedding(ids, 50, 16, layers.Combine(kind))
		p, err := m.Program()
		if err != nil {
			t.Fatal(err)
		}
		scope := values{}
		startup, err := Compile(Request{Block: p.Startup.Global(), Scope: scope})
		if err == nil {
			err = startup.Run(t.Context(), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		compiled, err := Compile(Request{Block: p.Global(), Scope: scope, Fetch: []string{combined.Name()},
			Feeds: map[string]ops.Meta{"ids": {Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{256, 8, 1}}}})
		if err != nil {
			t.Fatal(err)
		}
		if steps := compiled.Steps(); len(steps) != 1 {
			t.Errorf("%s: %d steps, the first is %s", kind, len(steps), steps[0].Name)
		}
	}
}
