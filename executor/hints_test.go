package executor_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A program of Fluid whose temporary variables are declared wrongly runs, and computes what its ops say.
func TestDeclarationsOfTemporariesDoNotDecide(t *testing.T) {
	p := program.New()
	b := p.Global()
	for _, v := range []program.Var{
		{Name: "x", DType: tensor.Float32, Dims: []int64{program.Unknown, 3}},
		{Name: "best", DType: tensor.Float32},
		{Name: "indices", DType: tensor.Float32, Dims: []int64{7, 7}}, // int64[-1 1]
		{Name: "numbers", DType: tensor.Float32, Dims: []int64{program.Unknown, 1}},
	} {
		v.Kind = program.LoDTensor
		b.EnsureVar(v)
	}
	b.Append(&program.Op{Type: "top_k", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"best"}, "Indices": {"indices"}}}).
		SetAttr("k", int32(1))
	cast := b.Append(&program.Op{Type: "cast", Inputs: map[string][]string{"X": {"indices"}}, Outputs: map[string][]string{"Out": {"numbers"}}})
	cast.SetAttr("in_dtype", int32(tensor.Int64))
	cast.SetAttr("out_dtype", int32(tensor.Float32))
	e := executor.New()
	defer e.Close()
	x, err := tensor.FromSlice([]float32{1, 3, 2, 9, 5, 4}, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Run(t.Context(), p, executor.Feed{"x": x}, "numbers", "best")
	if err != nil {
		t.Fatal(err)
	}
	if n := got[0].Float32s(); len(n) != 2 || n[0] != 1 || n[1] != 0 {
		t.Errorf("the indices of the largest are %v", n)
	}
	if n := got[1].Float32s(); len(n) != 2 || n[0] != 3 || n[1] != 9 {
		t.Errorf("the largest are %v", n)
	}
}

// A program that is fed with bytes, as the files of Fluid have it, takes the same numbers as int32.
func TestBytesAreFedAsIntegers(t *testing.T) {
	p := program.New()
	b := p.Global()
	b.EnsureVar(program.Var{Name: "pixels", Kind: program.LoDTensor, DType: tensor.UInt8, Dims: []int64{program.Unknown, 3}})
	b.EnsureVar(program.Var{Name: "numbers", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 3}})
	cast := b.Append(&program.Op{Type: "cast", Inputs: map[string][]string{"X": {"pixels"}}, Outputs: map[string][]string{"Out": {"numbers"}}})
	cast.SetAttr("in_dtype", int32(tensor.UInt8))
	cast.SetAttr("out_dtype", int32(tensor.Float32))
	bytes, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := program.Decode(bytes, program.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	e := executor.New()
	defer e.Close()
	x, err := tensor.FromSlice([]int32{0, 7, 255}, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Run(t.Context(), read, executor.Feed{"pixels": x}, "numbers")
	if err != nil {
		t.Fatal(err)
	}
	if n := got[0].Float32s(); len(n) != 3 || n[0] != 0 || n[1] != 7 || n[2] != 255 {
		t.Errorf("got %v", n)
	}
}

// Feeds of different numbers of records are named where their rows do not fit together.
func TestFeedsOfOtherRowsAreNamed(t *testing.T) {
	m := layers.NewModel()
	x, y := layers.Data(m, "x", layers.Dims(2)), layers.Data(m, "y", layers.Dims(1))
	cost := layers.SquareErrorCost(layers.FC(x, 1), y)
	p := finished(t, m)
	feed := executor.Feed{}
	for name, dims := range map[string][]int64{"x": {2, 2}, "y": {3, 1}} {
		v, err := tensor.New(tensor.Float32, dims...)
		if err != nil {
			t.Fatal(err)
		}
		feed[name] = v
	}
	e := executor.New()
	defer e.Close()
	if _, err := e.Run(t.Context(), p, feed, cost.Name()); fault.KindOf(err) != fault.ShapeMismatch || !strings.Contains(err.Error(), `"x" has 2 rows and "y" has 3`) {
		t.Errorf("got %v", err)
	}
}
