package sparse_test

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	_ "github.com/edl-go/edl/ops/sparse"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

type tensors = map[string][]*tensor.Tensor

// run binds an op and runs it once.
func run(t rapid.TB, opType string, attrs map[string]program.Attr, in, out tensors) error {
	t.Helper()
	return runAt(t, 0, opType, attrs, in, out)
}

// runAt runs it in a round of an hour.
func runAt(t rapid.TB, hour int64, opType string, attrs map[string]program.Attr, in, out tensors) error {
	t.Helper()
	op := &program.Op{Type: opType, Attrs: attrs, Inputs: map[string][]string{}, Outputs: map[string][]string{}}
	for slot := range in {
		op.Inputs[slot] = []string{slot}
	}
	for slot := range out {
		op.Outputs[slot] = []string{slot}
	}
	def, _ := ops.Lookup(opType)
	k, err := def.Bind(ops.NewBinding(op, def, &ops.Env{Step: &ops.Step{Hour: hour}}, in, out, func(dtype tensor.DType, n int) *tensor.Tensor { return zeros(t, dtype, int64(n)) }))
	if err != nil {
		t.Fatal(err)
	}
	return k(context.Background())
}

func zeros(t rapid.TB, dtype tensor.DType, dims ...int64) *tensor.Tensor {
	z, err := tensor.New(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// gradient is a sparse gradient of keys, with room for some more rows. Each row has its place in keys for values.
func gradient(t rapid.TB, keys []int64, height, width int64, room int) *tensor.Tensor {
	n := int64(len(keys) + room)
	rows, value := zeros(t, tensor.Int64, n), zeros(t, tensor.Float32, n, width)
	for i, key := range keys {
		rows.Int64s()[i] = kernel.KeyRow(kernel.MixKey(key), height)
		for j := range width {
			value.Float32s()[int64(i)*width+j] = float32(i)
		}
	}
	if room > 0 {
		rows.Int64s()[len(keys)] = height
	}
	g, err := tensor.Select(value, rows, height)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// keyOf is the key of a row in use, of regions of so many rows.
func keyOf(keys *tensor.Tensor, row, region int64) int64 {
	return kernel.KeyOf(int64(uint64(row/region)<<58 | uint64(keys.Int64s()[row])>>6))
}

// A table that grows, step by step, is what a map of keys would be: a key reads as its initial value until it is inserted and then as its row, to which its
// gradients go.
func TestTableIsAMapOfKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		region, width := rapid.Int64Range(1, 3).Draw(t, "rows of a region"), rapid.Int64Range(1, 4).Draw(t, "width")
		height := region * kernel.KeyRegions
		table, keys, index := zeros(t, tensor.Float32, height, width), zeros(t, tensor.Int64, height), zeros(t, tensor.Int32, height)
		attrs := map[string]program.Attr{"table_name": "w", "seed": int64(5), "min": float32(-1), "max": float32(1), "at_bound": "refuse", "region_rows": region}
		lookup := map[string]program.Attr{"table_name": "w", "seed": int64(5), "min": float32(-1), "max": float32(1), "shape": []int64{height, width}, "padding_idx": int64(3)}
		rows, used := map[int64]float32{}, map[int]int64{} // the first element of the row of a key
		key := rapid.OneOf(rapid.Int64Range(-1, 60), rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64, height}))
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			batch := rapid.SliceOfN(key, 1, 12).Draw(t, "keys")
			ids, _ := tensor.FromSlice(batch, int64(len(batch)), 1)
			out := zeros(t, tensor.Float32, int64(len(batch)), width)
			if err := run(t, "lookup_sparse_table", lookup, tensors{"W": {table}, "Keys": {keys}, "Index": {index}, "Ids": {ids}}, tensors{"Out": {out}}); err != nil {
				t.Fatal(err)
			}
			initial := kernel.InitialRow{Seed: 5, Table: kernel.StreamOf("w"), Low: -1, High: 1}
			for i, k := range batch {
				want, first := make([]float32, width), float32(0)
				if initial.Fill(want, kernel.MixKey(k)); k == kernel.NoKey || k == 3 {
					clear(want)
				}
				if value, ok := rows[k]; ok && k != 3 {
					first = value
				} else {
					first = want[0]
				}
				if got := out.Float32s()[int64(i)*width]; got != first {
					t.Fatalf("key %d reads as %v, want %v", k, got, first)
				}
			}
			batch = slices.DeleteFunc(batch, func(k int64) bool { return k == kernel.NoKey })
			grad := gradient(t, batch, height, width, rapid.IntRange(0, 2).Draw(t, "room"))
			if err := run(t, "lookup_sparse_table_insert", attrs, tensors{"Param": {table}, "Keys": {keys}, "Index": {index}, "Grad": {grad}},
				tensors{"ParamOut": {table}, "KeysOut": {keys}, "IndexOut": {index}}); err != nil {
				t.Fatal(err)
			}
			numbers := zeros(t, tensor.Int64, grad.Dims()[0])
			placed, _ := tensor.Select(zeros(t, tensor.Float32, grad.Dims()...), numbers, height)
			if err := run(t, "lookup_sparse_table_rows", attrs, tensors{"X": {grad}, "Keys": {keys}, "Index": {index}}, tensors{"Out": {placed}}); err != nil {
				t.Fatal(err)
			}
			found := map[int64]bool{}
			at := tensor.UsedRows(placed)
			for i, row := range at { // each is the row of the key at the place that its values say
				k := batch[int(placed.Float32s()[int64(i)*width])]
				if keyOf(keys, row, region) != k {
					t.Fatalf("the gradient of key %d goes to row %d", k, row)
				}
				if _, known := rows[k]; !known {
					used[kernel.RegionOf(kernel.MixKey(k))]++
					rows[k] = table.Float32s()[row*width]
				}
				found[k] = true
			}
			for _, k := range batch {
				if full := used[kernel.RegionOf(kernel.MixKey(k))] == region; !found[k] && !full {
					t.Fatalf("key %d has no row, and its region has room", k)
				}
			}
			for _, row := range at { // an update
				table.Float32s()[row*width]++
			}
			for _, row := range at {
				rows[keyOf(keys, row, region)] = table.Float32s()[row*width]
			}
		}
	})
}

// A full region is an error that names the table and the key, and says what to do.
func TestFullTable(t *testing.T) {
	err := insert(t, keysFrom(0, kernel.KeyRegions), nil) // some regions get two keys
	if fault.KindOf(err) != fault.TooLarge {
		t.Fatal(err)
	}
	for _, part := range []string{`"w"`, "a new key ", "more rows", "layers.Refuse()", "layers.EvictOldest()"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %s", err, part)
		}
	}
}

// A gradient may have no more different keys than the table has rows, whatever happens to keys without a row: a cluster has no room for more.
func TestMoreKeysThanRows(t *testing.T) {
	for _, attrs := range []map[string]program.Attr{{"at_bound": "refuse"}, {"at_bound": "evict"}, {"entry": "probability_entry:0.25", "at_bound": "refuse"}} {
		most := keysFrom(7, kernel.KeyRegions)
		if err := insert(t, slices.Concat(most, most), attrs); err != nil { // twice as many rows, but no more keys
			t.Errorf("%v: %v", attrs, err)
		}
		err := insert(t, append(most, 1), attrs)
		if fault.KindOf(err) != fault.TooLarge || !strings.Contains(err.Error(), "65 keys in one step") || !strings.Contains(err.Error(), "at most 64") {
			t.Errorf("%v: %v", attrs, err)
		}
	}
}

func keysFrom(first, n int64) (keys []int64) {
	for k := range n {
		keys = append(keys, first+k)
	}
	return keys
}

// insert gives a batch of keys rows of a new table of 64 rows.
func insert(t *testing.T, batch []int64, attrs map[string]program.Attr) error {
	t.Helper()
	table, keys, index := zeros(t, tensor.Float32, kernel.KeyRegions, 1), zeros(t, tensor.Int64, kernel.KeyRegions), zeros(t, tensor.Int32, kernel.KeyRegions)
	all := map[string]program.Attr{"table_name": "w", "region_rows": int64(1)}
	maps.Copy(all, attrs)
	return run(t, "lookup_sparse_table_insert", all, tensors{"Param": {table}, "Keys": {keys}, "Index": {index}, "Rounds": {zeros(t, tensor.Int64, 1)},
		"Grad": {gradient(t, batch, kernel.KeyRegions, 1, 0)}}, tensors{"ParamOut": {table}, "KeysOut": {keys}, "IndexOut": {index}})
}

// Shapes and attributes that cannot be are refused before anything runs.
func TestTablesThatCannotBe(t *testing.T) {
	table := ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{128, 4}}
	keys := ops.Meta{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{128}}
	index := ops.Meta{Kind: program.LoDTensor, DType: tensor.Int32, Dims: []int64{128}}
	rounds := ops.Meta{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{1}}
	grad := ops.Meta{Kind: program.SelectedRows, DType: tensor.Float32, Dims: []int64{128, 4}, Rows: 3}
	ids := ops.Meta{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{program.Unknown, 1}}
	dims := func(m ops.Meta, dims ...int64) ops.Meta { m.Dims = dims; return m }
	for name, c := range map[string]struct {
		op    string
		attrs map[string]program.Attr
		vars  map[string]ops.Meta
	}{
		"rows of no regions":      {"lookup_sparse_table", map[string]program.Attr{"shape": []int64{100, 4}}, map[string]ops.Meta{"W": dims(table, 100, 4), "Keys": dims(keys, 100), "Ids": ids}},
		"another shape":           {"lookup_sparse_table", map[string]program.Attr{"shape": []int64{64, 4}}, map[string]ops.Meta{"W": table, "Keys": keys, "Ids": ids}},
		"keys of other rows":      {"lookup_sparse_table", map[string]program.Attr{"shape": []int64{128, 4}}, map[string]ops.Meta{"W": table, "Keys": dims(keys, 64), "Ids": ids}},
		"ids of floats":           {"lookup_sparse_table", map[string]program.Attr{"shape": []int64{128, 4}}, map[string]ops.Meta{"W": table, "Keys": keys, "Ids": table}},
		"a range without numbers": {"lookup_sparse_table", map[string]program.Attr{"shape": []int64{128, 4}, "min": float32(1)}, map[string]ops.Meta{"W": table, "Keys": keys, "Ids": ids}},
		"another bound":           {"lookup_sparse_table_insert", map[string]program.Attr{"region_rows": int64(2), "at_bound": "wait"}, map[string]ops.Meta{"Param": table, "Keys": keys, "Grad": grad}},
		"an entry that is none":   {"lookup_sparse_table", map[string]program.Attr{"shape": []int64{128, 4}, "entry": "first"}, map[string]ops.Meta{"W": table, "Keys": keys, "Ids": ids}},
		"a count of nothing":      {"lookup_sparse_table", map[string]program.Attr{"shape": []int64{128, 4}, "entry": "count_filter_entry:0"}, map[string]ops.Meta{"W": table, "Keys": keys, "Ids": ids}},
		"a chance of two":         {"lookup_sparse_table", map[string]program.Attr{"shape": []int64{128, 4}, "entry": "probability_entry:2"}, map[string]ops.Meta{"W": table, "Keys": keys, "Ids": ids}},
		"less than no rounds":     {"lookup_sparse_table", map[string]program.Attr{"shape": []int64{128, 4}, "evict_unseen": int64(-1)}, map[string]ops.Meta{"W": table, "Keys": keys, "Ids": ids}},
		"an index of other rows":  {"lookup_sparse_table", map[string]program.Attr{"shape": []int64{128, 4}}, map[string]ops.Meta{"W": table, "Keys": keys, "Index": dims(index, 64), "Ids": ids}},
		"less than no days":       {"lookup_sparse_table", map[string]program.Attr{"shape": []int64{128, 4}, "evict_unseen_days": int64(-1)}, map[string]ops.Meta{"W": table, "Keys": keys, "Ids": ids}},
		"rounds and days":         {"lookup_sparse_table", map[string]program.Attr{"shape": []int64{128, 4}, "evict_unseen": int64(1), "evict_unseen_days": int64(1)}, map[string]ops.Meta{"W": table, "Keys": keys, "Ids": ids}},
		"no hours":                {"lookup_sparse_table_insert", map[string]program.Attr{"region_rows": int64(2), "evict_unseen_days": int64(2)}, map[string]ops.Meta{"Param": table, "Keys": keys, "Rounds": rounds, "Grad": grad}},
		"hours of nothing":        {"lookup_sparse_table_insert", map[string]program.Attr{"region_rows": int64(2), "evict_unseen": int64(2)}, map[string]ops.Meta{"Param": table, "Keys": keys, "Rounds": rounds, "Hours": rounds, "Grad": grad}},
		"an hour alone":           {"lookup_sparse_table_insert", map[string]program.Attr{"region_rows": int64(2), "evict_unseen_days": int64(2)}, map[string]ops.Meta{"Param": table, "Keys": keys, "Rounds": rounds, "Hours": rounds, "Grad": grad}},
		"no counts":               {"lookup_sparse_table_insert", map[string]program.Attr{"region_rows": int64(2), "entry": "count_filter_entry:2"}, map[string]ops.Meta{"Param": table, "Keys": keys, "Rounds": rounds, "Grad": grad}},
		"no rounds":               {"lookup_sparse_table_insert", map[string]program.Attr{"region_rows": int64(2), "evict_unseen": int64(2)}, map[string]ops.Meta{"Param": table, "Keys": keys, "Grad": grad}},
		"rounds of nothing":       {"lookup_sparse_table_shrink", map[string]program.Attr{"region_rows": int64(2)}, map[string]ops.Meta{"Param": table, "Keys": keys, "Rounds": rounds, "Grad": grad}},
		"state without values":    {"lookup_sparse_table_shrink", map[string]program.Attr{"region_rows": int64(2), "evict_unseen": int64(2)}, map[string]ops.Meta{"Param": table, "Keys": keys, "Rounds": rounds, "Grad": grad, "Moments": table}},
		"a region of no rows":     {"lookup_sparse_table_insert", map[string]program.Attr{"region_rows": int64(0)}, map[string]ops.Meta{"Param": table, "Keys": keys, "Grad": grad}},
		"regions behind the last": {"lookup_sparse_table_rows", map[string]program.Attr{"region_rows": int64(2), "first_region": int64(1)}, map[string]ops.Meta{"X": grad, "Keys": keys}},
		"a dense gradient":        {"lookup_sparse_table_insert", map[string]program.Attr{"region_rows": int64(2)}, map[string]ops.Meta{"Param": table, "Keys": keys, "Grad": table}},
	} {
		if _, has := c.vars["Index"]; !has {
			c.vars["Index"] = dims(index, c.vars["Keys"].Dims...)
		}
		if c.attrs["table_name"] == nil && c.op != "lookup_sparse_table_rows" {
			c.attrs["table_name"] = "w"
		}
		op := &program.Op{Type: c.op, Attrs: c.attrs, Inputs: map[string][]string{}, Outputs: map[string][]string{}}
		for slot := range c.vars {
			op.Inputs[slot] = []string{slot}
		}
		def, _ := ops.Lookup(c.op)
		for _, slot := range def.Outputs {
			op.Outputs[slot.Name] = []string{slot.Name}
		}
		_, err := ops.Infer(op, func(name string) (ops.Meta, bool) { m, ok := c.vars[name]; return m, ok })
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
