package detection_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Box 1 covers three quarters of box 0, box 2 lies apart, and box 3 is box 2.
func TestBoxesThatAreKept(t *testing.T) {
	boxes := floatsOf(t, []float64{0, 0, 4, 4, 0, 0, 4, 3, 6, 6, 8, 8, 6, 6, 8, 8}, 4, 4)
	for limit, want := range map[float32][]int64{0.5: {0, 2}, 0.75: {0, 1, 2}, 1: {0, 1, 2, 3}} {
		op := &program.Op{Type: "nms", Attrs: attrs{"iou_threshold": limit}, Inputs: map[string][]string{"Boxes": {"boxes"}}, Outputs: map[string][]string{"KeepBoxesIdxs": {"kept"}}}
		def, _ := ops.Lookup("nms")
		kept, err := tensor.New(tensor.Int64, 0)
		if err != nil {
			t.Fatal(err)
		}
		kernel, err := def.Bind(ops.NewBinding(op, def, &ops.Env{}, slots{"Boxes": {boxes}}, slots{"KeepBoxesIdxs": {kept}}, nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := kernel(t.Context()); err != nil || !slices.Equal(kept.Int64s(), want) || !slices.Equal(kept.Dims(), []int64{int64(len(want))}) {
			t.Errorf("%v: %v %v, %v, want %v", limit, kept.Dims(), kept.Int64s(), err, want)
		}
		if n := testing.AllocsPerRun(3, func() { err = kernel(t.Context()) }); n != 0 || err != nil {
			t.Errorf("%v allocations a run, %v", n, err)
		}
	}
}
