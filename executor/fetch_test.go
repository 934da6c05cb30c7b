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
			got, err := executor.MergeFetch(declared, test.loss, ops.Along{}, 4, []executor.Part{{test.parts[0], 1, 0}, {nil, 0, 0}, {test.parts[1], 3, 0}})
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
	if _, err := executor.MergeFetch(declared, ops.MergeMean, ops.Along{}, 1, []executor.Part{{nil, 0, 0}}); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("no rows: %v", err)
	}
	parts := []executor.Part{{values(t, []float32{1}), 1, 0}, {values(t, []float32{1, 2}), 1, 0}}
	if _, err := executor.MergeFetch(declared, ops.MergeMean, ops.Along{}, 2, parts); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("two sizes: %v", err)
	}
}

// A trainer that is lost leaves a gap in the rows. The gradients of the others are still those of the mean over the whole batch.
func TestGradientsOfRowsWithoutALostTrainer(t *testing.T) {
	declared := &program.Var{Name: program.GradName("v"), Kind: program.LoDTensor, DType: tensor.Float64, Dims: []int64{program.Unknown}}
	got, err := executor.MergeFetch(declared, ops.MergeMean, ops.Along{}, 8, []executor.Part{{values(t, []float64{1, 2}), 2, 0}})
	if err != nil || !slices.Equal(got.Float64s(), []float64{.25, .5}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := executor.MergeFetch(declared, ops.MergeMean, ops.Along{}, 1, []executor.Part{{values(t, []float64{1, 2}), 2, 0}}); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("more rows than the batch has: %v", err)
	}
}

// TestPartsOfSequences merges what two trainers made of 2 and 1 sequences, of 3 and 1 rows. A third has a sequence without rows.
func TestPartsOfSequences(t *testing.T) {
	parts := func(a, b, none *tensor.Tensor) []executor.Part {
		return []executor.Part{{a, 2, 3}, {none, 1, 0}, {b, 1, 1}}
	}
	loss := &program.Var{Name: "loss", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}}
	got, err := executor.MergeFetch(loss, ops.MergeMean, ops.Along{}, 4, parts(values(t, []float32{8}), values(t, []float32{4}), values(t, []float32{0})))
	if err != nil || got.Float32s()[0] != 7 {
		t.Errorf("a mean over rows: %v, %v", got, err)
	}
	a, b, none := values(t, []float32{3, 6, 9}, 3, 1), values(t, []float32{5}, 1, 1), values(t, []float32{}, 0, 1)
	a.SetLoD([][]int64{{0, 1, 3}})
	b.SetLoD([][]int64{{0, 1}})
	none.SetLoD([][]int64{{0, 0}})
	for name, want := range map[string][]float32{"h": {3, 6, 9, 5}, program.GradName("h"): {2.25, 4.5, 6.75, 1.25}} {
		declared := &program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 1}}
		got, err := executor.MergeFetch(declared, ops.MergeMean, ops.Along{}, 4, parts(a, b, none))
		if err != nil || !slices.Equal(got.Float32s(), want) || !slices.Equal(got.LoD()[0], []int64{0, 1, 3, 3, 4}) {
			t.Errorf("%s: %v with LoD %v, %v", name, got.Float32s(), got.LoD(), err)
		}
	}
	b.SetLoD(nil)
	declared := &program.Var{Name: "h", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 1}}
	if _, err := executor.MergeFetch(declared, ops.MergeMean, ops.Along{}, 4, parts(a, b, none)); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("sequences beside rows: %v", err)
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

// Records may lie along another axis than the first, as in a network whose tensors begin with the steps.
func TestFetchedRecordsFollowEachOtherAlongTheirAxis(t *testing.T) {
	declared := &program.Var{Name: "v", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{2, program.Unknown}}
	parts := []executor.Part{{values(t, []float32{1, 5}, 2, 1), 1, 0}, {nil, 0, 0}, {values(t, []float32{2, 3, 4, 6, 7, 8}, 2, 3), 3, 0}}
	got, err := executor.MergeFetch(declared, ops.MergeMean, ops.Along{Axis: 1}, 4, parts)
	if err != nil {
		t.Fatal(err)
	}
	if want := []float32{1, 2, 3, 4, 5, 6, 7, 8}; !slices.Equal(got.Dims(), []int64{2, 4}) || !slices.Equal(got.Float32s(), want) {
		t.Errorf("%v %v, want [2 4] %v", got, got.Float32s(), want)
	}
	declared.Name = program.GradName("v")
	if got, err = executor.MergeFetch(declared, ops.MergeMean, ops.Along{Axis: 1}, 4, parts); err != nil {
		t.Fatal(err)
	}
	if want := []float32{0.25, 1.5, 2.25, 3, 1.25, 4.5, 5.25, 6}; !slices.Equal(got.Float32s(), want) {
		t.Errorf("gradients are %v, want %v", got.Float32s(), want)
	}
	declared = &program.Var{Name: "v", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown}}
	twice := []executor.Part{{values(t, []float32{1, 5}), 1, 0}, {values(t, []float32{2, 3, 4, 6, 7, 8}), 3, 0}}
	if got, err = executor.MergeFetch(declared, ops.MergeMean, ops.Along{Runs: 2}, 4, twice); err != nil || !slices.Equal(got.Float32s(), []float32{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("twice all records: %v, %v", got, err)
	}
	declared.Dims = []int64{2, program.Unknown}
	parts[2].Value = values(t, []float32{2, 3, 4}, 1, 3)
	if _, err := executor.MergeFetch(declared, ops.MergeMean, ops.Along{Axis: 1}, 4, parts); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("another number of steps: %v", err)
	}
}
