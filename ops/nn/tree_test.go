package nn_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Node 1 has the children 2, 3 and 4, and node 3 the child 5.
var smallTree = Int32s(dims{1, 5, 2}, 1, 2, 1, 3, 1, 4, 3, 5, 0, 0)

var forestCases = []Case{
	// The filters take the top, ten times the left and a hundred times the right.
	{Name: "by hand", Type: "tree_conv", Inputs: slots{"NodesVector": One(Floats(dims{1, 6, 1}, 1, 2, 4, 8, 16, 32)), "EdgeSet": One(smallTree), "Filter": One(Floats(dims{1, 3, 1, 1}, 10, 100, 1))},
		Want: slots{"Out": One(Floats(dims{1, 6, 1, 1},
			1+0.5*14+10*(0.25*4+0.5*8)+100*(0.5*2+0.5*0.75*4+0.5*0.5*8), 2, 4+0.5*16+10*0.25*16+100*0.5*0.75*16, 8, 16, 0))}},
	{Name: "deeper", Type: "tree_conv", Attrs: attrs{"max_depth": int32(3)}, Inputs: slots{"NodesVector": One(Spread(1, 2, 5, 2)),
		"EdgeSet": One(Int32s(dims{2, 4, 2}, 1, 2, 1, 3, 1, 4, 3, 5, 2, 1, 1, 3, 0, 0, 1, 1)), "Filter": One(Spread(2, 2, 3, 3, 2))}},
	{Name: "circle", Type: "tree_conv", Attrs: attrs{"max_depth": int32(9)}, Inputs: slots{"NodesVector": One(Spread(1, 1, 3, 2)), "EdgeSet": One(Int32s(dims{1, 2, 2}, 1, 2, 2, 1)), "Filter": One(Spread(2, 2, 3, 1, 2))}},

	{Name: "by hand", Type: "batch_fc", Inputs: slots{"Input": One(Floats(dims{2, 1, 2}, 1, 2, 3, 4)), "W": One(Floats(dims{2, 2, 1}, 1, 10, 1, 1)), "Bias": One(Floats(dims{2, 1}, 100, 0.5))},
		Want: slots{"Out": One(Floats(dims{2, 1, 1}, 121, 7.5))}},
	{Name: "rows", Type: "batch_fc", Inputs: slots{"Input": One(Spread(1, 2, 3, 2)), "W": One(Spread(2, 2, 2, 4)), "Bias": One(Spread(3, 2, 4))}},

	// Row 0, of rank 1, sees itself and row 1, of rank 2. Row 1 sees row 0. Row 2 has no rank.
	{Name: "by hand", Type: "rank_attention", Attrs: attrs{"MaxRank": int32(2)}, Constant: []string{"X"}, Inputs: slots{"X": One(Floats(dims{3, 1}, 2, 3, 5)),
		"RankOffset": One(Int32s(dims{3, 5}, 1, 1, 0, 2, 1, 2, 1, 0, 0, 7, 0, 1, 0, 0, 0)), "RankParam": One(Floats(dims{4, 2}, 1, 2, 10, 20, 100, 200, 1000, 2000))},
		Want: slots{"Out": One(Floats(dims{3, 2}, 32, 64, 200, 400, 0, 0)), "InputHelp": One(Floats(dims{3, 2}, 2, 3, 2, 0, 0, 0)), "InsRank": One(Floats(dims{3, 1}, 1, 2, 0))}},
	{Name: "wider", Type: "rank_attention", Constant: []string{"X"}, Inputs: slots{"X": One(Spread(1, 3, 2)),
		"RankOffset": One(Int32s(dims{3, 7}, 1, 1, 0, 2, 1, 3, 2, 2, 1, 0, 2, 1, 3, 2, 3, 1, 0, 0, 0, 3, 2)), "RankParam": One(Spread(2, 18, 2))}},

	{Name: "by hand", Type: "tdm_child", Attrs: attrs{"child_nums": int32(2), "dtype": int32(tensor.Int64)}, Inputs: slots{"X": One(Ints(dims{4, 1}, 1, 2, 0, 3)),
		"TreeInfo": One(Int32s(dims{5, 5}, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 7, 1, 1, 0, 0, 0, 1, 1, 4, 0, 9, 2, 3, 0, 0))},
		Want: slots{"Child": One(Ints(dims{4, 1, 2}, 2, 3, 0, 0, 0, 0, 4, 0)), "LeafMask": One(Ints(dims{4, 1, 2}, 1, 0, 0, 0, 0, 0, 1, 0))}},

	// All other nodes of a layer are drawn, so that only their order is open.
	{Name: "without choice", Type: "tdm_sampler", Attrs: attrs{"neg_samples_num_list": []int32{1, 1}, "layer_offset_lod": []int32{0, 2, 4}},
		Inputs: slots{"X": One(Int32s(dims{2, 1}, 1, 2)), "Travel": One(Int32s(dims{3, 2}, 0, 0, 1, 3, 2, 0)), "Layer": One(Int32s(dims{4, 1}, 1, 2, 3, 4))},
		Want:   slots{"Out": One(Int32s(dims{2, 4}, 1, 2, 3, 4, 2, 1, 0, 0)), "Labels": One(Int32s(dims{2, 4}, 1, 0, 1, 0, 1, 0, 0, 0)), "Mask": One(Int32s(dims{2, 4}, 1, 1, 1, 1, 1, 1, 0, 0))}},
	{Name: "other nodes alone", Type: "tdm_sampler", Attrs: attrs{"neg_samples_num_list": []int32{1, 0}, "layer_offset_lod": []int32{0, 2, 4}, "output_positive": false, "dtype": int32(tensor.Int64)},
		Inputs: slots{"X": One(Ints(dims{2, 1}, 1, 2)), "Travel": One(Ints(dims{3, 2}, 0, 0, 1, 3, 2, 0)), "Layer": One(Ints(dims{4, 1}, 1, 2, 3, 4))},
		Want:   slots{"Out": One(Ints(dims{2, 1}, 2, 1))}},
}

// Each other node of a layer is drawn about as often, at most once for a row, and the one on the way never.
func TestTDMSamplerDrawsOtherNodes(t *testing.T) {
	const rows, nodes, samples = 3000, 10, 3
	layer := make([]int64, nodes)
	for i := range layer {
		layer[i] = int64(i + 1)
	}
	c := Case{Type: "tdm_sampler", Attrs: attrs{"neg_samples_num_list": []int32{samples}, "layer_offset_lod": []int32{0, nodes}, "dtype": int32(tensor.Int64)},
		Inputs: slots{"X": One(Ints(dims{rows, 1}, make([]int64, rows)...)), "Travel": One(Ints(dims{1, 1}, 4)), "Layer": One(Ints(dims{nodes, 1}, layer...))}}
	op := opOf(c)
	m := NewInterpreter(map[string]*tensor.Tensor{"X": c.Inputs["X"][0], "Travel": c.Inputs["Travel"][0], "Layer": c.Inputs["Layer"][0]}, ops.Step{})
	if err := m.Run(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	seen := map[int64]int{}
	all := m.Vars["Out"].Int64s()
	for ; len(all) > 0; all = all[samples+1:] {
		row := slices.Clone(all[:samples+1])
		if row[0] != 4 {
			t.Fatalf("row %v, want 4 first", row)
		}
		slices.Sort(row)
		if len(slices.Compact(row)) != samples+1 {
			t.Fatalf("row %v has a node twice", row)
		}
		for _, node := range row {
			seen[node]++
		}
	}
	for node := int64(1); node <= nodes; node++ {
		if n := seen[node]; node != 4 && (n < 850 || n > 1150) { // 1000 are expected
			t.Errorf("node %d is drawn %d times", node, n)
		}
	}
}

func TestTreesCheckNumbers(t *testing.T) {
	for name, change := range map[string]func() Case{
		"edge": func() Case { c := forestCases[0]; return withSlot(c, "EdgeSet", Int32s(dims{1, 1, 2}, 1, 7)) },
		"many nodes": func() Case {
			return withSlot(forestCases[2], "EdgeSet", Int32s(dims{1, 3, 2}, 1, 2, 2, 3, 3, 1))
		},
		"rank": func() Case {
			return withSlot(forestCases[5], "RankOffset", Int32s(dims{3, 5}, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
		},
		"neighbour": func() Case {
			return withSlot(forestCases[5], "RankOffset", Int32s(dims{3, 5}, 1, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
		},
		"node": func() Case { return withSlot(forestCases[7], "X", Ints(dims{1, 1}, 5)) },
		"child": func() Case {
			return withSlot(forestCases[7], "TreeInfo", Int32s(dims{2, 5}, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3))
		},
		"item": func() Case { return withSlot(forestCases[8], "X", Int32s(dims{1, 1}, 3)) },
	} {
		c := change()
		c.Want = nil
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// withSlot returns a case with another value in a slot.
func withSlot(c Case, slot string, value *tensor.Tensor) Case {
	inputs := slots{}
	for name, v := range c.Inputs {
		inputs[name] = v
	}
	inputs[slot] = One(value)
	c.Inputs = inputs
	return c
}

// opOf makes the op of a case whose variables have the names of their slots.
func opOf(c Case) *program.Op {
	op := &program.Op{Type: c.Type, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: c.Attrs}
	for slot := range c.Inputs {
		op.Inputs[slot] = []string{slot}
	}
	def, _ := ops.Lookup(c.Type)
	for _, slot := range def.Outputs {
		op.Outputs[slot.Name] = []string{slot.Name}
	}
	return op
}
