package nn_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func float32s(t *testing.T, values ...float32) []*tensor.Tensor {
	t.Helper()
	x, err := tensor.FromSlice(values, int64(len(values)))
	if err != nil {
		t.Fatal(err)
	}
	return One(x)
}

var iouCases = []Case{
	{Name: "by hand", Type: "mean_iou", Attrs: attrs{"num_classes": int32(4)},
		Inputs: slots{"Predictions": One(Ints(dims{2, 3}, 0, 0, 1, 1, 2, 2)), "Labels": One(Ints(dims{2, 3}, 0, 1, 1, 1, 2, 0))},
		Want:   slots{"OutWrong": One(Int32s(dims{4}, 2, 1, 1, 0)), "OutCorrect": One(Int32s(dims{4}, 1, 2, 1, 0))}},
	{Name: "more batches", Type: "mean_iou", Attrs: attrs{"num_classes": int32(2)},
		Inputs: slots{"Predictions": One(Int32s(dims{2}, 0, 1)), "Labels": One(Int32s(dims{2}, 0, 0)),
			"InWrongs": One(Int32s(dims{2}, 1, 0), Int32s(dims{2}, 0, 2)), "InCorrects": One(Int32s(dims{2}, 1, 3))},
		Want: slots{"OutWrong": One(Int32s(dims{2}, 2, 3)), "OutCorrect": One(Int32s(dims{2}, 2, 3))}},
}

func TestMeanIOU(t *testing.T) {
	mean := iouCases[1]
	mean.Want = slots{"OutMeanIou": float32s(t, 0.5)} // 2 of 4, and 3 of 6
	if err := Golden(mean); err != nil {
		t.Error(err)
	}
	one := One(Ints(dims{1}, 0))
	for _, c := range []struct {
		labels  int64
		classes int32
		want    string
	}{{2, 2, "class 2 of element 0"}, {-1, 2, "class -1 of element 0"}, {0, 0, "num_classes"}, {0, 1 << 30, "num_classes"}} {
		err := Golden(Case{Type: "mean_iou", Attrs: attrs{"num_classes": c.classes}, Inputs: slots{"Predictions": one, "Labels": One(Ints(dims{1}, c.labels))}})
		if fault.KindOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
