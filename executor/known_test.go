package executor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// reshapedBy is a model that reshapes its rows of six numbers to dims that a tensor gives.
func reshapedBy(dims func(m *layers.Model, x layers.Variable) layers.Variable) (m *layers.Model, out layers.Variable) {
	m = layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(6))
	return m, layers.Op(m, "reshape2", layers.In{"X": {x}, "Shape": {dims(m, x)}}, layers.Attrs{"shape": []int32{-1}}).One("Out")
}

// constant is one int32 number.
func constant(m *layers.Model, v float64) layers.Variable {
	return layers.FillConstant(m, v, []int64{1}, layers.DType(tensor.Int32))
}

// rowsByThree is [rows of x, 3, -1], computed from its shape, as programs do that serve batches of any size.
func rowsByThree(m *layers.Model, x layers.Variable) layers.Variable {
	rows := layers.Slice(layers.Shape(x), []int{0}, []int64{0}, []int64{1})
	return layers.Concat([]layers.Variable{rows, layers.Add(constant(m, 1), constant(m, 2)), constant(m, -1)}, 0)
}

func TestDimsFollowFromConstantsAndFromTheShapeOfAFeed(t *testing.T) {
	m, out := reshapedBy(rowsByThree)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	local := executor.New()
	defer local.Close()
	for _, rows := range []int64{1, 4, 2} {
		x, _ := tensor.New(tensor.Float32, rows, 6)
		got, err := local.Run(context.Background(), p, executor.Feed{"x": x}, out.Name())
		if err != nil {
			t.Fatal(err)
		}
		if want := []int64{rows, 3, 2}; !slices.Equal(got[0].Dims(), want) {
			t.Errorf("a batch of %d rows becomes %v, want %v", rows, got[0].Dims(), want)
		}
	}
}

// An op whose dims data decide is compiled when it runs, for each value that it meets. A value that does not fit is refused by the name of the attribute.
func TestDimsThatDataDecide(t *testing.T) {
	for name, dims := range map[string]func(m *layers.Model, x layers.Variable) layers.Variable{
		"fed": func(m *layers.Model, _ layers.Variable) layers.Variable {
			return layers.Data(m, "dims", layers.Dims(2), layers.NoBatchDim(), layers.DType(tensor.Int32))
		},
		"counted": func(m *layers.Model, _ layers.Variable) layers.Variable {
			dims := layers.Data(m, "dims", layers.Dims(2), layers.NoBatchDim(), layers.DType(tensor.Int32))
			less := layers.Scale(dims, 1, -1)
			layers.AssignTo(less, layers.Scale(less, 1, 1)) // so two ops write it
			return less
		},
	} {
		m, out := reshapedBy(dims)
		out = layers.Scale(out, 2, 0) // another op whose dims follow from them
		p := finished(t, m)
		local := executor.New()
		x, _ := tensor.New(tensor.Float32, 2, 6)
		for i := range x.Float32s() {
			x.Float32s()[i] = float32(i)
		}
		run := func(dims ...int32) ([]*tensor.Tensor, error) {
			d, _ := tensor.FromSlice(dims, 2)
			return local.Run(t.Context(), p, executor.Feed{"x": x, "dims": d}, out.Name())
		}
		for _, dims := range [][]int32{{3, 4}, {2, 6}, {3, 4}, {12, 1}} {
			got, err := run(dims...)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if want := []int64{int64(dims[0]), int64(dims[1])}; !slices.Equal(got[0].Dims(), want) || got[0].Float32s()[11] != 22 {
				t.Errorf("%s: dims %v, last element %v, want %v and 22", name, got[0].Dims(), got[0].Float32s()[11], want)
			}
		}
		if _, err := run(5, 4); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "shape = [5 4]") {
			t.Errorf("%s: %v", name, err)
		}
		local.Close()
	}
}

// top_k finds as many elements as data say, and not more than there are.
func TestTopOfAsManyAsDataSay(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(4))
	k := layers.Data(m, "k", layers.Dims(1), layers.NoBatchDim(), layers.DType(tensor.Int32))
	best := layers.Op(m, "top_k", layers.In{"X": {x}, "K": {k}}, layers.Attrs{"k": int32(1)}).One("Out")
	p, exe := finished(t, m), executor.New()
	defer exe.Close()
	rows, _ := tensor.FromSlice([]float32{3, 1, 4, 2}, 1, 4)
	for n := range int32(6) {
		count, _ := tensor.FromSlice([]int32{n}, 1)
		got, err := exe.Run(t.Context(), p, executor.Feed{"x": rows, "k": count}, best.Name())
		if n < 1 || n > 4 {
			if !errors.Is(err, fault.InvalidArgument) {
				t.Errorf("the %d largest of 4: %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if want := []float32{4, 3, 2, 1}[:n]; !slices.Equal(got[0].Float32s(), want) {
			t.Errorf("the %d largest are %v, want %v", n, got[0].Float32s(), want)
		}
	}
}

// A mask has as many places as a number that the program computes of lengths, which are halves of those that are fed.
func TestMaskOfLengthsThatAreComputed(t *testing.T) {
	m := layers.NewModel()
	lengths := layers.Data(m, "lengths", layers.Dims(), layers.DType(tensor.Int64))
	halves := layers.Op(m, "elementwise_floordiv", layers.In{"X": {lengths}, "Y": {layers.Counter(m, 2)}}, nil).One("Out")
	most := layers.Op(m, "reduce_max", layers.In{"X": {halves}}, layers.Attrs{"reduce_all": true}).One("Out")
	mask := layers.Op(m, "sequence_mask", layers.In{"X": {halves}, "MaxLenTensor": {most}}, layers.Attrs{"out_dtype": int32(tensor.Int64)}).One("Y")
	largest := layers.Op(m, "sequence_mask", layers.In{"X": {halves}}, layers.Attrs{"maxlen": int32(-1), "out_dtype": int32(tensor.Int64)}).One("Y")
	rows := layers.ReduceSum(layers.Cast(largest, tensor.Float32), layers.Axes(1)) // computed from dims that follow from the lengths
	p, exe := finished(t, m), executor.New()
	defer exe.Close()
	for _, c := range []struct{ fed, want []int64 }{{[]int64{5, 2}, []int64{1, 1, 1, 0}}, {[]int64{2, 7}, []int64{1, 0, 0, 1, 1, 1}}, {[]int64{5, 2}, []int64{1, 1, 1, 0}}, {[]int64{1, 1}, []int64{}}} {
		fed, _ := tensor.FromSlice(c.fed, int64(len(c.fed)))
		got, err := exe.Run(t.Context(), p, executor.Feed{"lengths": fed}, mask.Name(), largest.Name(), rows.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, y := range got[:2] {
			if !slices.Equal(y.Int64s(), c.want) {
				t.Errorf("the mask of halves of %v is %v, want %v", c.fed, y.Int64s(), c.want)
			}
		}
		if want := []float32{float32(c.fed[0] / 2), float32(c.fed[1] / 2)}; !slices.Equal(got[2].Float32s(), want) {
			t.Errorf("rows of the mask of halves of %v have %v places, want %v", c.fed, got[2].Float32s(), want)
		}
	}
}
