package tensor_test

import (
	"fmt"

	"github.com/edl-go/edl/tensor"
)

// FromSlice shares the slice: a change of one is a change of the other.
func ExampleFromSlice() {
	pixels := []float32{0, 0.5, 1, 0.25, 0.75, 0}
	image, err := tensor.FromSlice(pixels, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	pixels[0] = 9
	fmt.Println(image, image.Float32s()[0])

	_, err = tensor.FromSlice(pixels, 7)
	fmt.Println(err)
	// Output:
	// float32[2 3]{9 0.5 1 0.25 0.75 0} 9
	// shape mismatch: got 6 elements, want 7 for dims [7]
}

func ExampleData() {
	labels, err := tensor.FromSlice([]int64{7, 2, 1}, 3, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tensor.Data[int64](labels), tensor.Data[float32](labels) == nil)
	// Output: [7 2 1] true
}

// A record or a parameter file holds streams back to back.
func ExampleDecodeStream() {
	weight, _ := tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	bias, _ := tensor.FromSlice([]float32{5, 6}, 2)
	b := tensor.AppendStream(tensor.AppendStream(nil, weight), bias)
	for len(b) > 0 {
		t, rest, err := tensor.DecodeStream(b, tensor.Limits{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(t, t.Float32s())
		b = rest
	}
	// Output:
	// float32[2 2]{1 2 3 4} [1 2 3 4]
	// float32[2]{5 6} [5 6]
}
