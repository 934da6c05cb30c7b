package sequence_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// align runs ctc_align twice. The second run allocates nothing.
func align(t *testing.T, a attrs, input, lengths *tensor.Tensor) (out, counts *tensor.Tensor, err error) {
	t.Helper()
	op := &program.Op{Type: "ctc_align", Attrs: a, Inputs: map[string][]string{"Input": {"x"}}, Outputs: map[string][]string{"Output": {"out"}, "OutputLength": {"counts"}}}
	in := slots{"Input": {input}}
	out, counts = gradcheck.Ints(input.Dims(), make([]int64, input.Len())...), gradcheck.Ints(dims{0, 1})
	if lengths != nil {
		op.Inputs["InputLength"], in["InputLength"] = []string{"lengths"}, gradcheck.One(lengths)
		counts = gradcheck.Ints(lengths.Dims(), make([]int64, lengths.Len())...)
	}
	def, _ := ops.Lookup("ctc_align")
	kernel, err := def.Bind(ops.NewBinding(op, def, &ops.Env{}, in, slots{"Output": {out}, "OutputLength": {counts}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := kernel(t.Context()); err != nil {
		return nil, nil, err
	}
	if n := testing.AllocsPerRun(2, func() { err = kernel(t.Context()) }); n != 0 || err != nil {
		t.Errorf("%v allocations a run, %v", n, err)
	}
	return out, counts, nil
}

// The first cases are the examples of Fluid's page.
func TestCTCAlignOfSequences(t *testing.T) {
	frames := []int64{0, 1, 2, 2, 0, 4, 0, 4, 5, 0, 6, 6, 0, 0, 7, 7, 7, 0}
	for _, c := range []struct {
		name          string
		attrs         attrs
		frames        []int64
		lengths       []int64
		want, offsets []int64
	}{
		{"merged", nil, frames, []int64{11, 7}, []int64{1, 2, 4, 4, 5, 6, 6, 7}, []int64{0, 6, 8}},
		{"all", attrs{"merge_repeated": false}, frames, []int64{11, 0, 7}, []int64{1, 2, 2, 4, 4, 5, 6, 6, 7, 7, 7}, []int64{0, 7, 7, 11}},
		{"blank", attrs{"blank": int32(7)}, frames[13:], []int64{5}, []int64{0, 0}, []int64{0, 2}},
		{"nothing", nil, []int64{0, 0, 0}, []int64{1, 2}, []int64{-1}, []int64{0, 0, 1}},
	} {
		out, _, err := align(t, c.attrs, words(c.frames, c.lengths...)[0], nil)
		if err != nil || !slices.Equal(out.Int64s(), c.want) || !slices.Equal(out.Dims(), dims{int64(len(c.want)), 1}) || !slices.Equal(out.LoD()[0], c.offsets) {
			t.Errorf("%s: %v with LoD %v, %v", c.name, out, out.LoD(), err)
		}
	}
}

func TestCTCAlignOfRows(t *testing.T) {
	input := gradcheck.Ints(dims{3, 6}, 0, 1, 2, 2, 0, 4, 0, 4, 5, 0, 6, 0, 0, 7, 7, 7, 0, 0)
	out, counts, err := align(t, attrs{"padding_value": int32(9)}, input, gradcheck.Ints(dims{3, 1}, 6, 5, 0))
	if err != nil || !slices.Equal(out.Int64s(), []int64{1, 2, 4, 9, 9, 9, 4, 5, 6, 9, 9, 9, 9, 9, 9, 9, 9, 9}) || !slices.Equal(counts.Int64s(), []int64{3, 3, 0}) {
		t.Errorf("%v, %v, %v", out, counts, err)
	}
	for _, length := range []int64{7, -1, 1 << 40} {
		if _, _, err := align(t, nil, input, gradcheck.Ints(dims{3, 1}, 6, length, 0)); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("length %d: %v", length, err)
		}
	}
}

func TestCTCAlignThatDoesNotFit(t *testing.T) {
	meta := func(dtype tensor.DType, levels int, d ...int64) ops.Meta {
		return ops.Meta{Kind: program.LoDTensor, DType: dtype, Dims: d, LoDLevel: levels}
	}
	for _, c := range []struct {
		name           string
		input, lengths ops.Meta
		want           fault.Kind
	}{
		{"floats", meta(tensor.Float32, 1, 3, 1), ops.Meta{}, fault.TypeMismatch},
		{"wide rows", meta(tensor.Int64, 1, 3, 2), ops.Meta{}, fault.ShapeMismatch},
		{"a vector", meta(tensor.Int64, 1, 3), ops.Meta{}, fault.ShapeMismatch},
		{"two levels", meta(tensor.Int64, 2, 3, 1), ops.Meta{}, fault.Unsupported},
		{"no lengths", meta(tensor.Int64, 0, 3, 4), ops.Meta{}, fault.InvalidArgument},
		{"few lengths", meta(tensor.Int64, 0, 3, 4), meta(tensor.Int64, 0, 2, 1), fault.ShapeMismatch},
		{"other lengths", meta(tensor.Int64, 0, 3, 4), meta(tensor.Int32, 0, 3, 1), fault.TypeMismatch},
	} {
		op := &program.Op{Type: "ctc_align", Inputs: map[string][]string{"Input": {"x"}}, Outputs: map[string][]string{"Output": {"out"}}}
		if c.lengths.Dims != nil {
			op.Inputs["InputLength"] = []string{"lengths"}
		}
		_, err := ops.Infer(op, func(name string) (ops.Meta, bool) {
			if name == "x" {
				return c.input, true
			}
			return c.lengths, true
		})
		if fault.KindOf(err) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
