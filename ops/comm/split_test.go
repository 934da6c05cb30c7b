package comm_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// quiet is an ops.Comm that does nothing.
type quiet struct{}

func (quiet) Send(context.Context, ops.Message) error { return nil }
func (quiet) Recv(context.Context, ops.Message) error { return nil }
func (quiet) SendBarrier(context.Context) error       { return nil }
func (quiet) FetchBarrier(context.Context) error      { return nil }

func splitOp(sections any, outs ...string) *program.Op {
	return &program.Op{Type: "split_byref", Inputs: args{"X": {"x"}}, Outputs: args{"Out": outs}, Attrs: attrs{"sections": sections}}
}

// TestSplitJoinsBackToTheWhole cuts a matrix at random rows.
func TestSplitJoinsBackToTheWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sections := rapid.SliceOfN(rapid.Int64Range(0, 5), 1, 6).Draw(rt, "sections")
		width := rapid.Int64Range(1, 4).Draw(rt, "width")
		rows := int64(0)
		names := make([]string, len(sections))
		for i, n := range sections {
			rows += n
			names[i] = string(rune('a' + i))
		}
		op := splitOp(sections, names...)
		s, err := infer(op, rows, width)
		if err != nil {
			rt.Fatal(err)
		}
		x, _ := tensor.New(tensor.Float32, rows, width)
		for i := range x.Float32s() {
			x.Float32s()[i] = float32(i)
		}
		var outs []*tensor.Tensor
		for _, m := range s.Outs("Out") {
			out, err := tensor.New(m.DType, m.Dims...)
			if err != nil {
				rt.Fatal(err)
			}
			outs = append(outs, out)
		}
		missing := rapid.IntRange(-1, len(outs)-1).Draw(rt, "unwanted")
		bound := slices.Clone(outs)
		if missing >= 0 {
			bound[missing] = nil
		}
		kernel, err := bind(op, nil, map[string][]*tensor.Tensor{"X": {x}}, map[string][]*tensor.Tensor{"Out": bound})
		if err != nil {
			rt.Fatal(err)
		}
		if err := kernel(t.Context()); err != nil {
			rt.Fatal(err)
		}
		var joined, want []float32
		rest := x.Float32s()
		for i, out := range outs {
			part := rest[:out.Len()]
			rest = rest[out.Len():]
			if i != missing {
				joined, want = append(joined, out.Float32s()...), append(want, part...)
			}
		}
		if !slices.Equal(joined, want) {
			rt.Fatalf("the parts of %v rows hold %v, want %v", sections, joined, want)
		}
	})
}

func TestSplitFaults(t *testing.T) {
	for name, op := range map[string]*program.Op{
		"too few rows":  splitOp([]int32{1, 1}, "a", "b"),
		"too many rows": splitOp([]int32{4, 1}, "a", "b"),
		"negative":      splitOp([]int32{5, -1}, "a", "b"),
		"overflow":      splitOp([]int64{math.MaxInt64, math.MaxInt64}, "a", "b"),
		"one section":   splitOp([]int32{4}, "a", "b"),
	} {
		if _, err := infer(op, 4, 2); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s infers: %v", name, err)
		}
		x, _ := tensor.New(tensor.Float32, 4, 2)
		half := func() *tensor.Tensor { h, _ := tensor.New(tensor.Float32, 2, 2); return h }
		if _, err := bind(op, nil, map[string][]*tensor.Tensor{"X": {x}},
			map[string][]*tensor.Tensor{"Out": {half(), half()}}); !errors.Is(err, fault.ShapeMismatch) {
			t.Errorf("%s binds: %v", name, err)
		}
	}
	if _, err := infer(splitOp([]int32{1}, "a")); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("split of a scalar: %v", err)
	}
	if s, err := infer(splitOp([]int32{1, 2}, "a", "b"), program.Unknown, 2); err != nil || !slices.Equal(s.Outs("Out")[1].Dims, []int64{2, 2}) {
		t.Errorf("split of open rows: %v, %v", s, err)
	}
}
