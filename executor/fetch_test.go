package executor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func values[T tensor.Element](t *testing.T, data []T, dims ...int64) *tensor.Tensor {
	t.Helper()
	v, err := tensor.FromSlice(data, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestFetchedPartsBecomeTheWhole(t *testing.T) {
	for name, test := range map[string]struct {
		dims        []int64
		persistable bool
		loss        ops.Merge
		parts       []*tensor.Tensor // of 1 and 3 rows
		want        *tensor.Tensor
	}{
		"rows follow each other": {[]int64{program.Unknown, 1}, false, ops.MergeMean,
			[]*tensor.Tensor{values(t, []float32{1}, 1, 1), values(t, []float32{2, 3, 4}, 3, 1)}, values(t, []float32{1, 2, 3, 4}, 4, 1)},
		"labels follow each other": {[]int64{program.Unknown}, false, ops.MergeMean,
			[]*tensor.Tensor{values(t, []int64{1}), values(t, []int64{2, 3, 4})}, values(t, []int64{1, 2, 3, 4})},
		"gradients of rows are those of the mean over all rows": {[]int64{program.Unknown, 1}, false, ops.MergeMean,
			[]*tensor.Tensor{values(t, []float32{1}, 1, 1), values(t, []float32{2, 3, 4}, 3, 1)}, values(t, []float32{.25, 1.5, 2.25, 3}, 4, 1)},
		"gradients of a sum follow each other": {[]int64{program.Unknown, 1}, false, ops.MergeSum,
			[]*tensor.Tensor{values(t, []float32{1}, 1, 1), values(t, []float32{2, 3, 4}, 3, 1)}, values(t, []float32{1, 2, 3, 4}, 4, 1)},
		"means are weighted by rows": {[]int64{1}, false, ops.MergeMean,
			[]*tensor.Tensor{values(t, []float32{8}), values(t, []float32{4})}, values(t, []float32{5})},
		"sums are added": {[]int64{1}, false, ops.MergeSum,
			[]*tensor.Tensor{values(t, []float32{8}), values(t, []float32{4})}, values(t, []float32{12})},
		"counts are added": {[]int64{1}, false, ops.MergeMean,
			[]*tensor.Tensor{values(t, []int32{8}), values(t, []int32{4})}, values(t, []int32{12})},
		"parameters are the same everywhere": {[]int64{1}, true, ops.MergeMean,
			[]*tensor.Tensor{values(t, []float32{0.1}), values(t, []float32{0.1})}, values(t, []float32{0.1})},
	} {
		t.Run(name, func(t *testing.T) {
			declared := &program.Var{Name: "v", Kind: program.LoDTensor, DType: test.want.DType(), Dims: test.dims, Persistable: test.persistable}
			if strings.HasPrefix(name, "gradients") {
				declared.Name = program.GradName("v")
			}
			got, err := executor.MergeFetch(declared, test.loss, 4, []executor.Part{{test.parts[0], 1}, {nil, 0}, {test.parts[1], 3}})
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != test.want.String() || !slices.Equal(got.Float32s(), test.want.Float32s()) ||
				!slices.Equal(got.Int64s(), test.want.Int64s()) || !slices.Equal(got.Int32s(), test.want.Int32s()) {
				t.Errorf("got %v %v, want %v", got, got.Float32s(), test.want)
			}
		})
	}
}

func TestPartsThatDoNotFitAreRefused(t *testing.T) {
	declared := &program.Var{Name: "v", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}}
	if _, err := executor.MergeFetch(declared, ops.MergeMean, 1, []executor.Part{{nil, 0}}); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("no rows: %v", err)
	}
	parts := []executor.Part{{values(t, []float32{1}), 1}, {values(t, []float32{1, 2}), 1}}
	if _, err := executor.MergeFetch(declared, ops.MergeMean, 2, parts); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("two sizes: %v", err)
	}
}

// A trainer that is lost leaves a gap in the rows. The gradients of the others are still those of the mean over the whole batch.
func TestGradientsOfRowsWithoutALostTrainer(t *testing.T) {
	declared := &program.Var{Name: program.GradName("v"), Kind: program.LoDTensor, DType: tensor.Float64, Dims: []int64{program.Unknown}}
	got, err := executor.MergeFetch(declared, ops.MergeMean, 8, []executor.Part{{values(t, []float64{1, 2}), 2}})
	if err != nil || !slices.Equal(got.Float64s(), []float64{.25, .5}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := executor.MergeFetch(declared, ops.MergeMean, 1, []executor.Part{{values(t, []float64{1, 2}), 2}}); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("more rows than the batch has: %v", err)
	}
}

func TestScalarIsTheOnlyElement(t *testing.T) {
	b, _ := tensor.FromSlice([]bool{true})
	i, _ := tensor.FromSlice([]int32{-3}, 1, 1)
	l, _ := tensor.FromSlice([]int64{1 << 40})
	f, _ := tensor.FromSlice([]float32{0.5})
	d, _ := tensor.FromSlice([]float64{0.1})
	for want, v := range map[float64]*tensor.Tensor{1: b, -3: i, 1 << 40: l, 0.5: f, 0.1: d} {
		if got := executor.Scalar(v); got != want {
			t.Errorf("%v: %v, want %v", v, got, want)
		}
	}
	defer func() {
		if r := recover(); r == nil {
			t.Error("two elements are one number")
		}
	}()
	two, _ := tensor.FromSlice([]float32{1, 2})
	executor.Scalar(two)
}
