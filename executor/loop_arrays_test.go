package executor_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A loop fills and reads arrays of dense items, which have no sequences: Fluid declares the array, and what is read from it, without dims or with wrong ones. Each read has the dims of
// what was written before the loop.
func TestLoopsOverArraysWithoutSequences(t *testing.T) {
	m, err := fluidtext.Read(`var x float32 [2,2] feed=[2,2]
		var items float32 [] array
		var n int64 [1]
		var i int64 [1]
		var more bool [1]
		var last float32 [2]
		var length int64 [1]
		var end float32 []
		fill_constant -> Out=i | shape=[1L] value=0.0f dtype=3
		fill_constant -> Out=n | shape=[1L] value=3.0f dtype=3
		write_to_array X=x I=i -> Out=items
		less_than X=i Y=n -> Out=more | axis=-1
		while X=i,n,items Condition=more -> Out=i,items,more,last StepScopes=scopes | sub_block=block:1
		lod_array_length X=items -> Out=length
		read_from_array X=items I=n -> Out=end
		block 1 0
		var item int64 [7]
		read_from_array X=items I=i -> Out=item
		scale X=item -> Out=twice | scale=2.0f
		reduce_sum X=twice -> Out=last | dim=[1]
		increment X=i -> Out=i | step=1.0f
		write_to_array X=twice I=i -> Out=items
		less_than X=i Y=n -> Out=more | axis=-1
		`)
	if err != nil {
		t.Fatal(err)
	}
	if err := ops.Verify(m.Program, program.StageLocal); err != nil {
		t.Fatal(err)
	}
	l := executor.New()
	defer l.Close()
	for _, x := range [][]float32{{1, 2, 3, 4}, {0, -1, 0.5, 8}, {1, 2, 3, 4}} {
		out, err := l.Run(t.Context(), m.Program, executor.Feed{"x": values(t, slices.Clone(x), 2, 2)}, "length", "end", "last")
		if err != nil {
			t.Fatal(err)
		}
		want := []float32{8 * x[0], 8 * x[1], 8 * x[2], 8 * x[3]}
		sums := []float32{want[0] + want[1], want[2] + want[3]}
		if !slices.Equal(out[0].Int64s(), []int64{4}) || !slices.Equal(out[1].Float32s(), want) || !slices.Equal(out[2].Float32s(), sums) {
			t.Errorf("%v: %v, want 4 items, %v and %v", x, out, want, sums)
		}
		if end := out[1]; end.DType() != tensor.Float32 || !slices.Equal(end.Dims(), []int64{2, 2}) || len(end.LoD()) != 0 {
			t.Errorf("the last item is %v with offsets %v", end, end.LoD())
		}
	}
}
