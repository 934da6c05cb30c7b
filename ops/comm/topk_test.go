package comm_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func topKOp(sections, entries []int32, outs ...string) *program.Op {
	return &program.Op{Type: "compress_topk", Inputs: args{"X": {"x"}, "Residual": {"r"}}, Outputs: args{"Out": outs, "ResidualOut": {"r"}},
		Attrs: attrs{"sections": sections, "entries": entries}}
}

// What a server expands of any runs of rows, and the new residual, are the old residual and the gradient together, and of each run the op moves as many
// elements as it is told, of which none is smaller than one that stays.
func TestTopKMovesWhatItSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sections := rapid.SliceOfN(rapid.Int32Range(0, 5), 1, 5).Draw(rt, "sections")
		width, rows := rapid.Int64Range(1, 9).Draw(rt, "width"), int64(0)
		names, entries := make([]string, len(sections)), make([]int32, len(sections))
		for i, n := range sections {
			rows += int64(n)
			names[i] = string(rune('a' + i))
			entries[i] = rapid.Int32Range(0, n*int32(width)).Draw(rt, "entries")
		}
		op := topKOp(sections, entries, names...)
		s, err := infer(op, rows, width)
		if err != nil {
			rt.Fatal(err)
		}
		x, _ := tensor.New(tensor.Float32, rows, width)
		residual := x.Clone()
		for i := range x.Float32s() {
			x.Float32s()[i] = float32(rapid.IntRange(-9, 9).Draw(rt, "x"))
			residual.Float32s()[i] = float32(rapid.IntRange(-9, 9).Draw(rt, "residual"))
		}
		before, next := residual.Clone(), residual
		if rapid.Bool().Draw(rt, "another variable") {
			next = x.Clone()
		}
		var outs []*tensor.Tensor
		for _, m := range s.Outs("Out") {
			out, err := tensor.New(m.DType, m.Dims...)
			if err != nil {
				rt.Fatal(err)
			}
			outs = append(outs, out)
		}
		kernel, err := bind(op, &ops.Env{Step: &ops.Step{}}, map[string][]*tensor.Tensor{"X": {x}, "Residual": {residual}}, map[string][]*tensor.Tensor{"Out": outs, "ResidualOut": {next}})
		if err != nil {
			rt.Fatal(err)
		}
		if err := kernel(t.Context()); err != nil {
			rt.Fatal(err)
		}
		if next != residual && !slices.Equal(residual.Float32s(), before.Float32s()) {
			rt.Fatal("the old residual has changed, which is another variable")
		}
		from := 0
		for i, out := range outs {
			n := int(sections[i]) * int(width)
			moved, _ := tensor.New(tensor.Float32, int64(n))
			if err := merge.Gradients(moved, []merge.Share{{Value: out, Rows: 1}}, ops.MergeSum); err != nil {
				rt.Fatal(err)
			}
			left, sum := next.Float32s()[from:from+n], 0
			least, most := math.Inf(1), 0.0
			for j, m := range moved.Float32s() {
				want := before.Float32s()[from+j] + x.Float32s()[from+j]
				if m+left[j] != want || m != 0 && left[j] != 0 {
					rt.Fatalf("element %d of run %d: moved %v, left %v, want %v together", j, i, m, left[j], want)
				}
				if most = max(most, math.Abs(float64(left[j]))); m != 0 {
					least = min(least, math.Abs(float64(m)))
					sum++
				}
			}
			if k := int(entries[i]); sum > k || sum < k && most > 0 || k > 0 && most > least {
				rt.Fatalf("run %d: %d of %d entries moved, the least %v; %v is left", i, sum, k, least, most)
			}
			from += n
		}
		if n := testing.AllocsPerRun(5, func() { _ = kernel(t.Context()) }); n > 0 {
			rt.Errorf("it allocates %v times", n)
		}
	})
}

func TestTopKFaults(t *testing.T) {
	for name, c := range map[string]struct {
		op   *program.Op
		kind fault.Kind
	}{
		"too few rows":             {topKOp([]int32{1, 1}, []int32{1, 1}, "a", "b"), fault.InvalidArgument},
		"one number for two":       {topKOp([]int32{2, 2}, []int32{1}, "a", "b"), fault.InvalidArgument},
		"more entries than a run":  {topKOp([]int32{2, 2}, []int32{5, 1}, "a", "b"), fault.InvalidArgument},
		"fewer entries than none":  {topKOp([]int32{2, 2}, []int32{-1, 1}, "a", "b"), fault.InvalidArgument},
		"rows for another number":  {topKOp([]int32{4}, []int32{1, 1}, "a", "b"), fault.InvalidArgument},
		"negative rows":            {topKOp([]int32{-1, 5}, []int32{0, 1}, "a", "b"), fault.InvalidArgument},
		"an open number of rows":   {topKOp([]int32{4}, []int32{1}, "a"), fault.ShapeMismatch},
		"a residual of other dims": {topKOp([]int32{4}, []int32{1}, "a"), fault.ShapeMismatch},
		"float64":                  {topKOp([]int32{4}, []int32{1}, "a"), fault.ShapeMismatch},
	} {
		x := ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{4, 2}}
		residual := x
		switch name {
		case "an open number of rows":
			x.Dims, residual.Dims = []int64{program.Unknown, 2}, []int64{program.Unknown, 2}
		case "a residual of other dims":
			residual.Dims = []int64{2, 4}
		case "float64":
			x.DType, residual.DType = tensor.Float64, tensor.Float64
		}
		_, err := ops.Infer(c.op, func(name string) (ops.Meta, bool) {
			if name == "x" {
				return x, true
			}
			return residual, true
		})
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
}

// Programs are not trusted: what does not fit together does not bind.
func TestTopKBindsWhatFits(t *testing.T) {
	x, _ := tensor.New(tensor.Float32, 4, 2)
	entries, _ := tensor.New(tensor.Int32, 2, 3)
	short, _ := tensor.New(tensor.Float32, 3, 2)
	double, _ := tensor.New(tensor.Float64, 4, 2)
	many, _ := tensor.New(tensor.Int32, 2, 9)
	good := func() (in, out map[string][]*tensor.Tensor) {
		return map[string][]*tensor.Tensor{"X": {x}, "Residual": {x.Clone()}}, map[string][]*tensor.Tensor{"Out": {entries}, "ResidualOut": {x.Clone()}}
	}
	in, out := good()
	if _, err := bind(topKOp([]int32{4}, []int32{3}, "a"), &ops.Env{Step: &ops.Step{}}, in, out); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		change   func(in, out map[string][]*tensor.Tensor)
		sections []int32
	}{
		"a short residual":      {func(in, _ map[string][]*tensor.Tensor) { in["Residual"][0] = short }, []int32{4}},
		"a short new residual":  {func(_, out map[string][]*tensor.Tensor) { out["ResidualOut"][0] = short }, []int32{4}},
		"no new residual":       {func(_, out map[string][]*tensor.Tensor) { out["ResidualOut"][0] = nil }, []int32{4}},
		"a residual of float64": {func(in, _ map[string][]*tensor.Tensor) { in["Residual"][0] = double }, []int32{4}},
		"X of float64":          {func(in, _ map[string][]*tensor.Tensor) { in["X"][0] = double }, []int32{4}},
		"entries in float32":    {func(_, out map[string][]*tensor.Tensor) { out["Out"][0] = short }, []int32{4}},
		"too many entries":      {func(_, out map[string][]*tensor.Tensor) { out["Out"][0] = many }, []int32{4}},
		"no entries":            {func(_, out map[string][]*tensor.Tensor) { out["Out"][0] = nil }, []int32{4}},
		"too few rows":          {func(_, _ map[string][]*tensor.Tensor) {}, []int32{3}},
		"too many rows":         {func(_, _ map[string][]*tensor.Tensor) {}, []int32{5}},
		"negative rows":         {func(_, _ map[string][]*tensor.Tensor) {}, []int32{-4}},
		"no sections":           {func(_, _ map[string][]*tensor.Tensor) {}, nil},
	} {
		in, out := good()
		c.change(in, out)
		if _, err := bind(topKOp(c.sections, []int32{3}, "a"), &ops.Env{Step: &ops.Step{}}, in, out); err == nil {
			t.Errorf("%s: it binds", name)
		}
	}
}

// Of a part of a batch whose weights are all 0 nothing is moved that anybody takes, and nothing of it, which is no number, comes into the residual.
func TestTopKOfAVoidPart(t *testing.T) {
	nan := float32(math.NaN())
	x, err := tensor.FromSlice([]float32{nan, nan, nan, nan}, 4)
	if err != nil {
		t.Fatal(err)
	}
	residual, err := tensor.FromSlice([]float32{1, -5, 3, 4}, 4)
	if err != nil {
		t.Fatal(err)
	}
	out, err := tensor.New(tensor.Int32, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	step := &ops.Step{Part: true, Void: true}
	kernel, err := bind(topKOp([]int32{4}, []int32{2}, "a"), &ops.Env{Step: step}, map[string][]*tensor.Tensor{"X": {x}, "Residual": {residual}},
		map[string][]*tensor.Tensor{"Out": {out}, "ResidualOut": {residual}})
	if err == nil {
		err = kernel(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(residual.Float32s(), []float32{1, -5, 3, 4}) || !slices.Equal(out.Int32s(), []int32{0, 1, 0, 0}) {
		t.Errorf("the residual is %v, and %v is moved", residual, out)
	}
	clear(x.Float32s())
	if step.Void = false; kernel(t.Context()) != nil || !slices.Equal(residual.Float32s(), []float32{1, 0, 3, 0}) {
		t.Errorf("after another step the residual is %v", residual)
	}
}
