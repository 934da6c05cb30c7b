package reader_test

import (
	"fmt"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// What a program is fed it can read: the fields of a record are the variables that are fed, in their order.
func TestAttach(t *testing.T) {
	build := func(dims []int64, feeds ...string) *program.Program {
		p := program.New()
		b := p.Global()
		b.EnsureVar(program.Var{Name: "words", Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{-1, 1}, LoDLevel: 1})
		b.EnsureVar(program.Var{Name: "label", Kind: program.LoDTensor, DType: tensor.Float32, Dims: dims})
		b.EnsureVar(program.Var{Name: "w", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{9, 3}, Persistable: true})
		for _, name := range []string{"rows", "sums", "loss"} {
			b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 3}})
		}
		for i, name := range feeds {
			b.Append(&program.Op{Type: "feed", Inputs: map[string][]string{"X": {"w"}}, Outputs: map[string][]string{"Out": {name}}, Attrs: attrs{"col": int32(i)}})
		}
		b.Append(&program.Op{Type: "lookup_table", Inputs: map[string][]string{"W": {"w"}, "Ids": {"words"}}, Outputs: map[string][]string{"Out": {"rows"}}})
		b.Append(&program.Op{Type: "sequence_pool", Inputs: map[string][]string{"X": {"rows"}}, Outputs: map[string][]string{"Out": {"sums"}}, Attrs: attrs{"pooltype": "SUM"}})
		b.Append(&program.Op{Type: "elementwise_sub", Inputs: map[string][]string{"X": {"sums"}, "Y": {"label"}}, Outputs: map[string][]string{"Out": {"loss"}}})
		return p
	}
	for _, c := range []struct {
		feeds []string
		want  string
	}{{nil, "words int64[1] 1 label float32[3] 0 "}, {[]string{"label", "words"}, "label float32[3] 0 words int64[1] 1 "}} {
		p := build([]int64{-1, 3}, c.feeds...)
		if err := reader.Attach(p, "train", 8); err != nil {
			t.Fatal(err)
		}
		read, err := reader.ReadOp(p.Global())
		if err != nil {
			t.Fatal(err)
		}
		pipeline, err := reader.PipelineOf(p.Global(), read)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range pipeline.Fields {
			got += fmt.Sprintf("%s %v%v %d ", f.Name, f.DType, f.Dims, f.LoDLevel)
		}
		if got != c.want || pipeline.Dataset != "train" || pipeline.Batch != 8 || len(p.Feeds()) != 0 {
			t.Errorf("%v reads %s of %+v", c.feeds, got, pipeline)
		}
		if err := ops.Verify(p, program.StageLocal); err != nil {
			t.Errorf("%v: %v", c.feeds, err)
		}
	}
	fixed := build([]int64{4, 3})
	before := len(fixed.Global().Ops)
	if err := reader.Attach(fixed, "train", 8); fault.KindOf(err) != fault.Unsupported || len(fixed.Global().Ops) != before {
		t.Errorf("a fixed number of rows: %v", err)
	}
}
