package comm_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// shelf is a Comm with tables that brings rows of them. It notes what it is asked for.
type shelf struct {
	recorder
	tables map[string][]float32 // by server and name
	asked  map[string][]int32
}

func (s *shelf) FetchRows(_ context.Context, from []ops.RowsMessage) error {
	for _, m := range from {
		key := string(rune('0'+m.Server)) + m.Name
		width := len(m.Into) / len(m.Rows)
		for i, row := range m.Rows {
			copy(m.Into[i*width:][:width], s.tables[key][int(row)*width:][:width])
		}
		s.asked[key] = append(s.asked[key], m.Rows...)
	}
	return nil
}

func bindOn(t testing.TB, comm ops.Comm, op *program.Op, in, out map[string][]*tensor.Tensor) (ops.Kernel, error) {
	def, _ := ops.Lookup(op.Type)
	return def.Bind(ops.NewBinding(op, def, &ops.Env{Comm: comm}, in, out, func(dtype tensor.DType, n int) *tensor.Tensor { return zeros(t, dtype, int64(n)) }))
}

// The lookups of two tables give what lookups in the whole tables give, and each row travels once. Rows of padding ids are zeros.
func TestPrefetchedLookups(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		comm := &shelf{tables: map[string][]float32{}, asked: map[string][]int32{}}
		prefetch := rowsOp("prefetch", args{}, args{})
		var epmap, names []string
		var outs, widths []int32
		var requests, small []*tensor.Tensor
		var checks []func()
		for table := range rapid.IntRange(1, 2).Draw(rt, "tables") {
			sections := rapid.SliceOfN(rapid.Int32Range(0, 5), 1, 3).Draw(rt, "sections")
			sections[0]++ // there is a row
			width, height := rapid.Int64Range(1, 3).Draw(rt, "width"), int64(0)
			name := string(rune('a' + table))
			var whole []float32
			for server, n := range sections {
				part := make([]float32, int64(n)*width)
				for i := range part {
					part[i] = float32(height*width) + float32(i) + 1
				}
				comm.tables[string(rune('0'+server))+name] = part
				whole = append(whole, part...)
				height += int64(n)
			}
			var ids, places []*tensor.Tensor
			total, different := int64(0), map[int64]bool{}
			for range rapid.IntRange(1, 3).Draw(rt, "lookups") {
				some := rapid.SliceOfN(rapid.Int64Range(0, height-1), 0, 30).Draw(rt, "ids")
				for _, id := range some {
					different[id] = true
				}
				v, _ := tensor.FromSlice(some, int64(len(some)), 1)
				ids, places = append(ids, v), append(places, zeros(t, tensor.Int64, int64(len(some)), 1))
				total += int64(len(some))
			}
			split := rowsOp("split_ids", args{"Ids": slices.Repeat([]string{"i"}, len(ids))},
				args{"Out": slices.Repeat([]string{"o"}, len(sections)), "Places": slices.Repeat([]string{"p"}, len(ids))})
			split.Attrs["sections"] = sections
			var own []*tensor.Tensor
			for server := range sections {
				own = append(own, zeros(t, tensor.Int32, 1+total))
				epmap, names, outs = append(epmap, "pserver:"+string(rune('0'+server))), append(names, name), append(outs, int32(table))
			}
			runRows(rt, split, map[string][]*tensor.Tensor{"Ids": ids}, map[string][]*tensor.Tensor{"Out": own, "Places": places})
			requests, widths = append(requests, own...), append(widths, int32(width))
			rows := zeros(t, tensor.Float32, total, width)
			small = append(small, rows)
			checks = append(checks, func() {
				count := 0
				for server := range sections {
					count += len(comm.asked[string(rune('0'+server))+name])
				}
				if count != len(different) {
					rt.Fatalf("%d rows of table %d have travelled, want %d", count, table, len(different))
				}
				padding := rapid.Int64Range(-1, height-1).Draw(rt, "padding")
				for i := range ids {
					merge := rowsOp("merge_ids", args{"X": {"x"}, "Places": {"p"}, "Ids": {"i"}}, args{"Out": {"o"}})
					merge.Attrs["padding_idx"] = padding
					out := zeros(t, tensor.Float32, int64(ids[i].Len()), width)
					runRows(rt, merge, map[string][]*tensor.Tensor{"X": {rows}, "Places": {places[i]}, "Ids": {ids[i]}}, map[string][]*tensor.Tensor{"Out": {out}})
					for k, id := range ids[i].Int64s() {
						want := whole[id*width:][:width]
						if id == padding {
							want = make([]float32, width)
						}
						if got := out.Float32s()[int64(k)*width:][:width]; !slices.Equal(got, want) {
							rt.Fatalf("row %d is %v, want %v", id, got, want)
						}
					}
				}
			})
		}
		prefetch.Inputs["X"], prefetch.Outputs["Out"] = make([]string, len(requests)), slices.Repeat([]string{"o"}, len(small))
		for i := range requests {
			prefetch.Inputs["X"][i] = "x" + string(rune('a'+i))
		}
		prefetch.Attrs = attrs{"epmap": epmap, "table_names": names, "outs": outs, "widths": widths}
		kernel, err := bindOn(t, comm, prefetch, map[string][]*tensor.Tensor{"X": requests}, map[string][]*tensor.Tensor{"Out": small})
		if err == nil {
			err = kernel(rt.Context())
		}
		if err != nil {
			rt.Fatal(err)
		}
		for _, check := range checks {
			check()
		}
	})
}

// An id that is no row of the table is named with its variable. Nothing is asked for then.
func TestSplitIDsRefusesStrangers(t *testing.T) {
	for _, id := range []int64{-1, 5, math.MaxInt64} {
		ids, _ := tensor.FromSlice([]int64{0, id})
		op := rowsOp("split_ids", args{"Ids": {"words"}}, args{"Out": {"a", "b"}, "Places": {"p"}})
		op.Attrs["sections"] = []int32{2, 3}
		kernel, err := bindScratch(t, op, map[string][]*tensor.Tensor{"Ids": {ids}}, map[string][]*tensor.Tensor{
			"Out": {zeros(t, tensor.Int32, 3), zeros(t, tensor.Int32, 3)}, "Places": {zeros(t, tensor.Int64, 2)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := kernel(t.Context()); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), `"words"`) {
			t.Errorf("id %d: %v", id, err)
		}
	}
}

// On one machine the op says what it needs.
func TestPrefetchNeedsACluster(t *testing.T) {
	op := rowsOp("prefetch", args{"X": {"x"}}, args{"Out": {"o"}})
	op.Attrs = attrs{"epmap": []string{"pserver:0"}, "table_names": []string{"w"}, "outs": []int32{0}, "widths": []int32{2}}
	for _, comm := range []ops.Comm{nil, &recorder{}} {
		_, err := bindOn(t, comm, op, map[string][]*tensor.Tensor{"X": {zeros(t, tensor.Int32, 3)}}, map[string][]*tensor.Tensor{"Out": {zeros(t, tensor.Float32, 2, 2)}})
		if err == nil || !strings.Contains(err.Error(), "cluster") {
			t.Errorf("%v: %v", comm, err)
		}
	}
}

// Programs may name these ops with anything.
func TestPrefetchInference(t *testing.T) {
	ids := ops.Meta{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{4, 1}}
	request := ops.Meta{Kind: program.LoDTensor, DType: tensor.Int32, Dims: []int64{5}}
	small := ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{4, 3}}
	wrong := ops.Meta{Kind: program.LoDTensor, DType: tensor.Float64, Dims: []int64{2}}
	good := map[string]ops.Meta{"i": ids, "p": ids, "x": request, "s": small}
	make := func(opType string, in, out args, a attrs) *program.Op {
		op := rowsOp(opType, in, out)
		op.Attrs = a
		return op
	}
	split := func(sections ...int32) *program.Op {
		return make("split_ids", args{"Ids": {"i"}}, args{"Out": {"a", "b"}, "Places": {"q"}}, attrs{"sections": sections})
	}
	prefetch := func(outs, widths []int32, epmap ...string) *program.Op {
		return make("prefetch", args{"X": {"x"}}, args{"Out": {"o"}}, attrs{"epmap": epmap, "table_names": []string{"w"}, "outs": outs, "widths": widths})
	}
	merge := func(shape ...int64) *program.Op {
		return make("merge_ids", args{"X": {"s"}, "Places": {"p"}, "Ids": {"i"}}, args{"Out": {"o"}}, attrs{"shape": shape})
	}
	for name, c := range map[string]struct {
		op   *program.Op
		good bool
		read string // an input that is wrong in turn
	}{
		"split":                       {split(2, 3), true, "i"},
		"split into one run of two":   {split(2), false, ""},
		"split with negative rows":    {split(-2, 3), false, ""},
		"prefetch":                    {prefetch([]int32{0}, []int32{3}, "pserver:0"), true, "x"},
		"prefetch of no server":       {prefetch([]int32{0}, []int32{3}), false, ""},
		"prefetch into another table": {prefetch([]int32{1}, []int32{3}, "pserver:0"), false, ""},
		"prefetch below the tables":   {prefetch([]int32{-1}, []int32{3}, "pserver:0"), false, ""},
		"prefetch of width 0":         {prefetch([]int32{0}, []int32{0}, "pserver:0"), false, ""},
		"merge":                       {merge(4, 3), true, "s"},
		"merge with the last 1":       {merge(4, 1, 3), true, "i"},
		"merge of open rows":          {merge(program.Unknown, 3), true, ""},
		"merge of another width":      {merge(4, 4), false, ""},
		"merge of other rows":         {merge(5, 3), false, ""},
		"merge without dims":          {merge(), false, ""},
	} {
		for _, spoil := range slices.Compact([]string{"", c.read}) {
			_, err := ops.Infer(c.op, func(name string) (ops.Meta, bool) {
				if name == spoil {
					return wrong, true
				}
				return good[name], true
			})
			if (err == nil) != (c.good && spoil == "") {
				t.Errorf("%s, with a wrong %q: %v", name, spoil, err)
			}
		}
	}
}
