package program_test

import (
	"errors"
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
