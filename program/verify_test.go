package program_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// requireFaults demands that the verifier reports exactly these faults, each with its words between semicolons.
func requireFaults(t *testing.T, err error, want ...string) {
	t.Helper()
	var list fault.List
	if errors.As(err, &list); len(list) != len(want) {
		t.Fatalf("got %v, want %d faults", err, len(want))
	}
	for i, f := range list {
		for word := range strings.SplitSeq(want[i], "; ") {
			if !strings.Contains(f.Error(), word) {
				t.Errorf("fault %d is %q, which does not say %q", i, f, word)
			}
		}
	}
}

func verify(p *program.Program) error { return program.Verify(p, program.Spec{Fed: true}) }

func TestSoundProgramsVerify(t *testing.T) {
	for _, p := range []*program.Program{regression(t), training(t), nested(t), program.New()} {
		requireFaults(t, verify(p))
		requireFaults(t, verify(decode(t, encode(t, p))))
	}
}

func TestNamesAndAttributesOfOps(t *testing.T) {
	p := regression(t)
	op := p.Global().Ops[1]
	op.Type = ""
	op.Inputs["Y"] = []string{"nowhere", program.Empty}
	op.SetAttr("axis", 5)
	op.SetAttr(program.AttrRoleVar, []string{"fc_0.w_0", "fc_0.w_0@GRAD", "odd"})
	requireFaults(t, verify(p),
		`fit.go:12; block 0, op 1; without a type`,
		`"nowhere"; "Y"; declared`,
		`"axis"; Go type int`,
		`3 names in op_role_var; pairs`,
		`"fc_0.w_0@GRAD"; op_role_var`,
		`"odd"; op_role_var`)
}

func TestReadingBeforeWriting(t *testing.T) {
	// The sum of squares is used before the op that computes it.
	p := regression(t)
	ops := p.Global().Ops
	ops[3], ops[4] = ops[4], ops[3]
	requireFaults(t, verify(p), `block 0, op 3; op mean; "cost_squared"; written later`)

	// A variable that nothing writes is a feed, where there are feeds.
	p = program.New()
	p.Global().EnsureVar(program.Var{Name: "x", Kind: program.LoDTensor, DType: tensor.Float32})
	p.Global().Append(&program.Op{Type: "relu", Inputs: map[string][]string{"X": {"x"}}})
	requireFaults(t, verify(p))
	requireFaults(t, program.Verify(p, program.Spec{}), `"x"; no op writes`)

	// A feed may be changed in place.
	p.Global().Ops[0].Outputs = map[string][]string{"Out": {"x"}}
	requireFaults(t, verify(p))

	// A sub-block runs where its op stands.
	p = nested(t)
	p.Blocks[2].Ops[0], p.Blocks[2].Ops[1] = p.Blocks[2].Ops[1], p.Blocks[2].Ops[0]
	requireFaults(t, verify(p), `block 2, op 0; "local"; written later`)

	// A gradient block reads what its forward block computed.
	p = nested(t)
	p.Blocks[2].EnsureVar(program.Var{Name: "never", Kind: program.LoDTensor, DType: tensor.Float32})
	p.Blocks[2].Append(&program.Op{Type: "relu", Inputs: map[string][]string{"X": {"never"}}})
	requireFaults(t, verify(p), `block 2, op 2; "never"; no op writes`)
	p = nested(t)
	p.Blocks[1].Append(&program.Op{Type: "scale_grad", Inputs: map[string][]string{"X": {"local"}}})
	requireFaults(t, verify(p))
	p.Blocks[1].Forward = program.NoBlock
	requireFaults(t, verify(p), `block 1, op 0; "local"; declares`)
}

func TestRealModelsAreSound(t *testing.T) {
	for name, data := range models(t) {
		if err := verify(decode(t, data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBlocksMustNotLeadBackToThemselves(t *testing.T) {
	build := func(parents ...int) *program.Program {
		p := program.New()
		for _, parent := range parents {
			p.NewBlock(nil).Parent = parent
		}
		return p
	}
	refer := func(p *program.Program, from int, to ...program.BlockIndex) *program.Program {
		p.Blocks[from].Append(&program.Op{Type: "while", Attrs: map[string]program.Attr{"sub_block": to}})
		return p
	}
	chain := build()
	for i := range 70 {
		chain.NewBlock(chain.Blocks[i])
	}
	global := build(0)
	global.Blocks[0].Parent = 1
	moved := build(0)
	moved.Blocks[1].Index = 5
	forward := build(0)
	forward.Blocks[1].Forward = 9
	tests := map[string]struct {
		p    *program.Program
		want string
	}{
		"parents":                  {build(2, 1), "block cycle 1 → 2 → 1"},
		"own parent":               {build(1), "block cycle 1 → 1"},
		"sub-block of itself":      {refer(build(0), 1, 1), "block cycle 1 → 1"},
		"sub-block is the parent":  {refer(build(0, 1), 2, 1), "block cycle 1 → 2 → 1"},
		"sub-block is the global":  {refer(build(0), 1, 0), "block cycle 0 → 1 → 0"},
		"sub-blocks of each other": {refer(refer(build(0, 0, 0), 1, 2), 2, 1), "block cycle 1 → 2 → 1"},
		"parent out of range":      {build(7), "block 1; parent 7; want -1 to 1"},
		"negative parent":          {build(math.MinInt32), "block 1; parent -2147483648"},
		"global with a parent":     {global, "block 0; parent 1"},
		"index":                    {moved, "block 1; index 5"},
		"forward out of range":     {forward, "block 1; forward block 9"},
		"too deep":                 {chain, "65 enclosing blocks; at most 64"},
		"no block":                 {&program.Program{}, "no block"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { requireFaults(t, verify(test.p), test.want) })
	}
	requireFaults(t, verify(refer(build(0), 0, 2, -1)), "block 0, op 0; block 2; \"sub_block\"; want block 1, the only one that an op can run", "block -1")
	// Two ops may own one block, as an op and its gradient do.
	requireFaults(t, verify(refer(refer(build(0), 0, 1), 0, 1)))
}

func TestVariablesMustBePossible(t *testing.T) {
	tests := map[string]struct {
		v    program.Var
		want []string
	}{
		"open batch":           {program.Var{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 784}}, nil},
		"huge but sparse":      {program.Var{Kind: program.SelectedRows, DType: tensor.Float32, Dims: []int64{1 << 33, 8}}, nil},
		"zero":                 {program.Var{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{0, 1 << 40}}, nil},
		"raw":                  {program.Var{Kind: program.Raw}, nil},
		"rank":                 {program.Var{Kind: program.LoDTensor, DType: tensor.Float32, Dims: make([]int64, 1000)}, []string{"rank 1000; at most 16"}},
		"negative extent":      {program.Var{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-2}}, []string{"dims [-2]"}},
		"overflowing product":  {program.Var{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1 << 32, -1, 1 << 31}}, []string{"2^63"}},
		"overflow in bytes":    {program.Var{Kind: program.LoDTensor, DType: tensor.Float64, Dims: []int64{1 << 60}}, []string{"2^63"}},
		"element type":         {program.Var{Kind: program.LoDTensor, DType: 99}, []string{"dtype(99)"}},
		"kind as element type": {program.Var{Kind: program.LoDTensor, DType: 7}, []string{"dtype(7)"}},
		"kind":                 {program.Var{Kind: 99}, []string{"kind 99"}},
		"element type as kind": {program.Var{Kind: 20}, []string{"kind 20"}},
		"LoD":                  {program.Var{Kind: program.LoDTensor, DType: tensor.Float32, LoDLevel: 100}, []string{"LoD level 100"}},
		"field of a reader": {program.Var{Kind: program.Reader,
			Fields: []program.Var{{DType: tensor.Int64}, {DType: tensor.Int64, Dims: []int64{-7}}}}, []string{"field 1; dims [-7]"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := program.New()
			test.v.Name = "it"
			p.Global().EnsureVar(test.v)
			err := verify(p)
			requireFaults(t, err, test.want...)
			if err != nil && !strings.Contains(err.Error(), `block 0, variable "it"`) {
				t.Errorf("%v does not name the variable", err)
			}
		})
	}
	// A file that does not say of what a tensor is.
	requireFaults(t, verify(decode(t, block([]byte("\x1a\x07\x0a\x01x\x12\x02\x08\x07")))), "no element type")
}

func TestAnInnerVariableMustNotChangeTheTypeOfAnOuterOne(t *testing.T) {
	p := nested(t)
	p.Blocks[3].EnsureVar(program.Var{Name: "i", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown}})
	requireFaults(t, verify(p))
	p.Blocks[3].EnsureVar(program.Var{Name: "sum", Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{1}})
	requireFaults(t, verify(p), `block 3; "sum"; int64[1]; float32[1]`)
}
