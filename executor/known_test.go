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

// A value that data decide, or that another op may change, is refused by the name of its variable.
func TestDimsThatDataDecideAreRefused(t *testing.T) {
	for name, dims := range map[string]func(m *layers.Model, x layers.Variable) layers.Variable{
		"fed": func(m *layers.Model, _ layers.Variable) layers.Variable {
			return layers.Data(m, "dims", layers.Dims(2), layers.NoBatchDim(), layers.DType(tensor.Int32))
		},
		"counted": func(m *layers.Model, _ layers.Variable) layers.Variable {
			return layers.Increment(layers.FillConstant(m, 5, []int64{1}, layers.DType(tensor.Int32), layers.Name("dims")), 1)
		},
	} {
		m, out := reshapedBy(dims)
		p, err := m.Program()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		local := executor.New()
		x, _ := tensor.New(tensor.Float32, 2, 6)
		feed := executor.Feed{"x": x}
		if name == "fed" {
			feed["dims"], _ = tensor.FromSlice([]int32{3, 4}, 2)
		}
		if _, err = local.Run(context.Background(), p, feed, out.Name()); !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), `"dims"`) {
			t.Errorf("%s: %v", name, err)
		}
		local.Close()
	}
}
