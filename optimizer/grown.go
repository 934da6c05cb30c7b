package optimizer

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
)

// A grown is a table that grows (layers.SparseEmbedding) while an optimizer builds its update.
type grown struct {
	in, out layers.In    // what its ops read and write
	attrs   layers.Attrs // and their attributes
	insert  *program.Op  // gives keys their rows
}

// grownOf returns the table that grows that the parameter of a pair is, nil for another parameter.
func grownOf(p Pair) *grown {
	m := p.Param.Model()
	if m == nil || !p.Param.OK() {
		return nil
	}
	for _, lookup := range m.Building().Global().Ops {
		if lookup.Type != "lookup_sparse_table" || lookup.In("W") != p.Param.Name() {
			continue
		}
		t := &grown{in: layers.In{"Param": one(p.Param), "Grad": one(p.Grad)}, out: layers.In{"ParamOut": one(p.Param)},
			attrs: layers.Attrs{"region_rows": p.Param.Dims()[0] / kernel.KeyRegions}}
		for slot, suffix := range map[string]string{"Keys": ".keys", "Index": ".index", "Counts": ".counts", "Rounds": ".rounds", "Hours": ".hours"} {
			if v, ok := m.Variable(p.Param.Name() + suffix); ok {
				t.in[slot], t.out[slot+"Out"] = one(v), one(v)
			}
		}
		for _, name := range []string{"table_name", "seed", "min", "max", "at_bound", "entry", "evict_unseen", "evict_unseen_days"} {
			if value, ok := lookup.Attrs[name]; ok {
				t.attrs[name] = value
			}
		}
		return t
	}
	return nil
}

// insertKeys gives the keys of a gradient of a table that grows their rows, and takes the gradient with row numbers in its place, which clips and updates read.
// Another gradient stays as it is, and the table is nil.
func insertKeys(p Pair) (Pair, *grown) {
	t := grownOf(p)
	if t == nil || !p.Grad.IsSparse() {
		return p, nil
	}
	gradient, m := p.Grad, p.Param.Model()
	p.Build(func() {
		out := layers.In{}
		for _, slot := range []string{"ParamOut", "KeysOut", "IndexOut", "CountsOut"} {
			if v, ok := t.out[slot]; ok {
				out[slot] = v
			}
		}
		layers.OpInto(m, "lookup_sparse_table_insert", t.in, t.attrs, out)
		if ops := m.Building().Global().Ops; len(ops) > 0 && ops[len(ops)-1].Type == "lookup_sparse_table_insert" {
			t.insert = ops[len(ops)-1]
		}
		p.Grad = layers.Op(m, "lookup_sparse_table_rows", layers.In{"X": one(gradient), "Keys": t.in["Keys"], "Index": t.in["Index"]},
			layers.Attrs{"region_rows": t.attrs["region_rows"]}).One("Out")
	})
	return p, t
}

// end ends the round of a table, after its update. The states that have a row for each row of the table belong to it: their memory comes into use with the rows
// that new keys get, and, where the table counts rounds, keys that go take their rows along.
func (t *grown) end(u *Update) {
	moments, initial := []layers.Variable{}, []float32{}
	for i, v := range u.states {
		if slices.Equal(v.Dims(), u.Param.Dims()) {
			moments, initial = append(moments, v), append(initial, float32(u.initial[i]))
		}
	}
	for _, v := range moments {
		if t.insert != nil {
			t.insert.Inputs["Moments"] = append(t.insert.Inputs["Moments"], v.Name())
		}
	}
	if t.in["Rounds"] == nil {
		return
	}
	if len(moments) > 0 {
		t.in["Moments"], t.out["MomentsOut"], t.attrs["moments_initial"] = moments, moments, initial
	}
	layers.OpInto(u.model, "lookup_sparse_table_shrink", t.in, t.attrs, t.out)
}

// refuseGrown reports a table whose rows move, where something keeps a value for each row that would stay where it is.
func refuseGrown(p Pair, what string) bool {
	t := grownOf(p)
	if t == nil || evictsNothing(t.attrs["evict_unseen"]) && evictsNothing(t.attrs["evict_unseen_days"]) && t.attrs["at_bound"] != "evict" {
		return false
	}
	p.Param.Model().Report(fault.E(fault.Unsupported, fault.At(what), fault.Var(p.Param.Name()), fault.Got("a table that evicts keys"),
		fault.Want("parameters whose rows stay where they are"), fault.Hint("give "+what+" the other pairs"), fault.Line(program.CallerLine("github.com/edl-go/edl/optimizer"))))
	return true
}

// evictsNothing reports whether a period after which keys go is none: 0, or absent as in programs that were written before there was one.
func evictsNothing(period any) bool { return period == nil || period == int64(0) }
