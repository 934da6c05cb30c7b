package dense

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	gorgonia "gorgonia.org/tensor"
)

func TestBothSidesShareMemory(t *testing.T) {
	for _, dims := range [][]int64{{6}, {2, 3}, {1, 6, 1}} {
		ours, _ := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, dims...)
		theirs, err := Dense(ours)
		if err != nil {
			t.Fatal(err)
		}
		back, err := FromDense(theirs)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(back.Dims(), dims) {
			t.Errorf("dims %v came back as %v", dims, back.Dims())
		}
		ours.Float32s()[4] = -1
		if got := theirs.Data().([]float32)[4]; got != -1 {
			t.Errorf("Gorgonia sees %v, want -1", got)
		}
		if got := back.Float32s()[4]; got != -1 {
			t.Errorf("the way back sees %v, want -1", got)
		}
	}
}

func TestEveryElementTypeConverts(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.Bool, tensor.Int32, tensor.Int64, tensor.Float32, tensor.Float64} {
		ours, _ := tensor.New(dtype, 2, 2)
		theirs, err := Dense(ours)
		if err != nil {
			t.Fatal(err)
		}
		back, err := FromDense(theirs)
		if err != nil || back.String() != ours.String() {
			t.Errorf("%v came back as %v, %v", ours, back, err)
		}
	}
}

func TestWhatCannotShareIsRefused(t *testing.T) {
	empty, _ := tensor.New(tensor.Float32, 0, 3)
	if _, err := Dense(empty); !errors.Is(err, fault.Unsupported) {
		t.Errorf("empty tensor: %v", err)
	}
	transposed := gorgonia.New(gorgonia.WithShape(2, 3), gorgonia.WithBacking(make([]float32, 6)))
	if err := transposed.T(); err != nil {
		t.Fatal(err)
	}
	if _, err := FromDense(transposed); !errors.Is(err, fault.Unsupported) {
		t.Errorf("transposed tensor: %v", err)
	}
	if _, err := FromDense(gorgonia.New(gorgonia.WithShape(2), gorgonia.WithBacking([]uint8{1, 2}))); !errors.Is(err, fault.TypeMismatch) {
		t.Errorf("uint8: %v", err)
	}
}

func TestScalars(t *testing.T) {
	ours, _ := tensor.FromSlice([]float64{2.5}, []int64{}...)
	theirs, err := Dense(ours)
	if err != nil {
		t.Fatal(err)
	}
	back, err := FromDense(theirs)
	if err != nil {
		t.Fatal(err)
	}
	if back.Len() != 1 || back.Float64s()[0] != 2.5 {
		t.Errorf("got %v %v", back, back.Float64s())
	}
}

func ExampleDense() {
	x, _ := tensor.FromSlice([]float64{1, 2, 3, 4}, 2, 2)
	d, _ := Dense(x)
	sum, _ := d.Sum()
	fmt.Println(sum)
	// Output: 10
}
