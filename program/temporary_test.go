package program_test

import (
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// What a step computes anew from its batch is no state, also if Fluid has marked it persistable. What a step reads before it writes is, and so is what the startup program
// or a branch writes, and what does not depend on the batch.
func TestPersistableTemporaries(t *testing.T) {
	p := program.New()
	persistable := map[string]bool{"loss": true, "loss@GRAD": true, "w": true, "count": true, "constant": true, "started": true, "branch": true}
	for _, name := range []string{"x", "loss", "loss@GRAD", "w", "count", "constant", "started", "branch"} {
		v := program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}, Persistable: persistable[name]}
		p.Global().EnsureVar(v)
		if name == "started" {
			p.Startup.Global().EnsureVar(v)
		}
	}
	add := func(b *program.Block, kind, out string, in ...string) *program.Op {
		op := &program.Op{Type: kind, Inputs: map[string][]string{"X": in}, Outputs: map[string][]string{"Out": {out}}}
		b.Append(op)
		return op
	}
	add(p.Startup.Global(), "fill_constant", "started")
	add(p.Global(), "mul", "loss", "x", "w")
	add(p.Global(), "fill_constant", "loss@GRAD")
	add(p.Global(), "sgd", "w", "w", "loss@GRAD")
	add(p.Global(), "sum", "count", "count", "loss")
	add(p.Global(), "fill_constant", "constant")
	add(p.Global(), "scale", "started", "x")
	inner := p.NewBlock(p.Global())
	add(inner, "scale", "branch", "x")
	add(p.Global(), "conditional_block", "branch", "loss").SetAttr("sub_block", program.BlockIndex(inner.Index))
	read := decode(t, encode(t, p))
	for name, was := range persistable {
		v, _ := read.Global().Var(name)
		if want := was && name != "loss" && name != "loss@GRAD"; v.Persistable != want {
			t.Errorf("%s is persistable: %v, want %v", name, v.Persistable, want)
		}
	}
}
