package program_test

import (
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// regression builds y = x w + b with its mean squared error, as the layers do, and a startup program.
func regression(tb testing.TB) *program.Program {
	tb.Helper()
	p := program.New()
	b := p.Global()
	add := func(v program.Var) {
		if v.Kind == 0 {
			v.Kind = program.LoDTensor
		}
		v.DType = tensor.Float32
		if _, err := b.AddVar(v); err != nil {
			tb.Fatal(err)
		}
	}
	add(program.Var{Name: "x", Dims: []int64{program.Unknown, 13}, NeedCheckFeed: true, StopGradient: true})
	add(program.Var{Name: "y", Dims: []int64{program.Unknown, 1}, NeedCheckFeed: true, StopGradient: true})
	add(program.Var{Name: "fc_0.w_0", Dims: []int64{13, 1}, Persistable: true, IsParameter: true})
	add(program.Var{Name: "fc_0.b_0", Dims: []int64{1}, Persistable: true, IsParameter: true})
	for _, name := range []string{"fc_0.tmp_0", "fc_0.tmp_1", "cost", "cost_squared"} {
		add(program.Var{Name: name, Dims: []int64{program.Unknown, 1}})
	}
	add(program.Var{Name: "loss", Dims: []int64{1}})
	op := func(opType, out string, in map[string][]string, attrs map[string]program.Attr) {
		o := b.Append(&program.Op{Type: opType, Inputs: in, Outputs: map[string][]string{"Out": {out}}, Attrs: attrs})
		o.SetLine("model/fit.go:12")
	}
	op("mul", "fc_0.tmp_0", map[string][]string{"X": {"x"}, "Y": {"fc_0.w_0"}},
		map[string]program.Attr{"x_num_col_dims": int32(1), "y_num_col_dims": int32(1)})
	op("elementwise_add", "fc_0.tmp_1", map[string][]string{"X": {"fc_0.tmp_0"}, "Y": {"fc_0.b_0"}}, map[string]program.Attr{"axis": int32(1)})
	op("elementwise_sub", "cost", map[string][]string{"X": {"fc_0.tmp_1"}, "Y": {"y"}}, nil)
	op("square", "cost_squared", map[string][]string{"X": {"cost"}}, nil)
	op("mean", "loss", map[string][]string{"X": {"cost_squared"}}, nil)

	s := p.Startup.Global()
	for _, name := range []string{"fc_0.w_0", "fc_0.b_0"} {
		v, _ := b.Var(name)
		s.EnsureVar(v.Copy(""))
		s.Append(&program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {name}},
			Attrs: map[string]program.Attr{"shape": v.Dims, "value": float32(0.5), "dtype": int32(5)}})
	}
	return p
}

// training adds what an optimizer adds to regression: gradients, a learning-rate schedule and an update.
func training(t *testing.T) *program.Program {
	p := regression(t)
	b := p.Global()
	for _, name := range []string{"fc_0.w_0@GRAD", "loss@GRAD", "rate"} {
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}, Persistable: name == "rate"})
	}
	b.Ops[0].SetAttr("is_test", int32(0))
	add := func(opType string, role program.Role, in, out string) {
		op := b.Append(&program.Op{Type: opType, Inputs: map[string][]string{"X": {in}}, Outputs: map[string][]string{"Out": {out}}})
		op.SetRole(role)
		op.SetRoleVar("fc_0.w_0", "fc_0.w_0@GRAD")
	}
	add("increment", program.RoleLRSched, "rate", "rate")
	add("fill_constant", program.RoleBackward|program.RoleLoss, "loss", "loss@GRAD")
	add("mean_grad", program.RoleBackward, "loss@GRAD", "fc_0.w_0@GRAD")
	add("sgd", program.RoleOptimize, "fc_0.w_0@GRAD", "fc_0.w_0")
	p.Startup.Global().EnsureVar(program.Var{Name: "rate", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}, Persistable: true})
	p.Startup.Global().Append(&program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {"rate"}}})
	return p
}

// nested returns a program whose block 0 has a while op (block 2, inside of it block 3) and a grad op that owns block 1.
func nested(t *testing.T) *program.Program {
	p := program.New()
	b := p.Global()
	for _, name := range []string{"i", "sum", "other"} {
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}})
	}
	gradient, body := p.NewBlock(b), p.NewBlock(b)
	inner := p.NewBlock(body)
	body.EnsureVar(program.Var{Name: "local", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}})
	gradient.Forward = body.Index
	step := func(b *program.Block, opType, in, out string, sub ...program.BlockIndex) {
		op := b.Append(&program.Op{Type: opType, Inputs: map[string][]string{"X": {in}}, Outputs: map[string][]string{"Out": {out}}})
		if len(sub) == 1 {
			op.SetAttr("sub_block", sub[0])
		} else if sub != nil {
			op.SetAttr("blocks", sub)
		}
	}
	step(b, "fill", "i", "i")
	step(b, "while", "i", "i", 2)
	step(b, "while_grad", "i", "other", 1)
	b.Ops[2].SetRole(program.RoleBackward)
	step(body, "scale", "i", "local")
	step(body, "cond", "local", "local", 3, 3)
	step(inner, "add", "local", "sum")
	return p
}
