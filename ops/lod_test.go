package ops_test

import (
	"testing"

	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// TestOpsHandOnSequences infers ops on rows that form two sequences, and on rows without sequences.
func TestOpsHandOnSequences(t *testing.T) {
	words := ops.Meta{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{5, 1}, LoDLevel: 1, Sequences: []int64{2}, LoDOf: "words"}
	rows := ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{5, 4}, LoDLevel: 1, Sequences: []int64{2}, LoDOf: "words"}
	plain := ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{4, 4}}
	bias := ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{4}}
	metas := map[string]ops.Meta{"words": words, "rows": rows, "plain": plain, "bias": bias}
	for name, c := range map[string]struct {
		op   program.Op
		slot string
		kept bool
	}{
		"lookup_table":    {program.Op{Type: "lookup_table", Inputs: in("W", "plain", "Ids", "words")}, "Out", true},
		"mul":             {program.Op{Type: "mul", Inputs: in("X", "rows", "Y", "plain")}, "Out", true},
		"matmul":          {program.Op{Type: "matmul", Inputs: in("X", "rows", "Y", "plain")}, "Out", true},
		"elementwise_add": {program.Op{Type: "elementwise_add", Inputs: in("X", "rows", "Y", "bias")}, "Out", true},
		"tanh":            {program.Op{Type: "tanh", Inputs: in("X", "rows")}, "Out", true},
		"softmax":         {program.Op{Type: "softmax", Inputs: in("X", "rows")}, "Out", true},
		"dropout":         {program.Op{Type: "dropout", Inputs: in("X", "rows")}, "Out", true},
		"sum":             {program.Op{Type: "sum", Inputs: map[string][]string{"X": {"rows", "rows"}}}, "Out", true},
		"concat of columns": {program.Op{Type: "concat", Inputs: map[string][]string{"X": {"rows", "rows"}},
			Attrs: map[string]program.Attr{"axis": int32(1)}}, "Out", true},
		"concat of rows": {program.Op{Type: "concat", Inputs: map[string][]string{"X": {"rows", "rows"}},
			Attrs: map[string]program.Attr{"axis": int32(0)}}, "Out", false},
		"reshape that keeps": {program.Op{Type: "reshape", Inputs: in("X", "rows"), Attrs: map[string]program.Attr{"shape": []int32{0, 2, 2}}},
			"Out", true},
		"reshape that mixes": {program.Op{Type: "reshape", Inputs: in("X", "rows"), Attrs: map[string]program.Attr{"shape": []int32{-1, 2}}},
			"Out", false},
		"reduce_sum of rows": {program.Op{Type: "reduce_sum", Inputs: in("X", "rows"), Attrs: map[string]program.Attr{"dim": []int32{0}}}, "Out", false},
		"reduce_sum in rows": {program.Op{Type: "reduce_sum", Inputs: in("X", "rows"), Attrs: map[string]program.Attr{"dim": []int32{1}}}, "Out", true},
		"transpose": {program.Op{Type: "transpose", Inputs: in("X", "rows"), Attrs: map[string]program.Attr{"axis": []int32{1, 0}}},
			"Out", false},
		"mean":                 {program.Op{Type: "mean", Inputs: in("X", "rows")}, "Out", false},
		"sequence_pool":        {program.Op{Type: "sequence_pool", Inputs: in("X", "rows")}, "Out", false},
		"mul of what has none": {program.Op{Type: "mul", Inputs: in("X", "plain", "Y", "plain")}, "Out", false},
	} {
		c.op.Outputs = map[string][]string{c.slot: {"out"}}
		shapes, err := ops.Infer(&c.op, func(name string) (ops.Meta, bool) { m, ok := metas[name]; return m, ok })
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := shapes.Outs(c.slot)[0]
		if c.kept != (got.LoDLevel == 1) || c.kept && (got.LoDOf != "words" || len(got.Sequences) != 1 || got.Sequences[0] != 2) {
			t.Errorf("%s: %d levels of %q with %v sequences", name, got.LoDLevel, got.LoDOf, got.Sequences)
		}
		if name == "sequence_pool" && got.Dims[0] != 2 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// in makes input slots of one variable each.
func in(slotsAndNames ...string) map[string][]string {
	slots := map[string][]string{}
	for i := 0; i < len(slotsAndNames); i += 2 {
		slots[slotsAndNames[i]] = []string{slotsAndNames[i+1]}
	}
	return slots
}
