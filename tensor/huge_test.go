package tensor

import "testing"

// Large tensors of every type are zeros of their whole length that can be written, however their memory is paged.
func TestLargeTensorsAreZeros(t *testing.T) {
	const bytes = hugeLeast + 12345*8
	for _, dtype := range []DType{Bool, Int32, Int64, Float32, Float64} {
		n := int64(bytes / dtype.Size())
		large, err := New(dtype, n)
		if err != nil {
			t.Fatal(err)
		}
		if large.Len() != int(n) {
			t.Fatalf("%v: %d elements, want %d", dtype, large.Len(), n)
		}
		if dtype != Float32 {
			continue
		}
		for i, v := range Data[float32](large) {
			if v != 0 {
				t.Fatalf("element %d is %v", i, v)
			}
			Data[float32](large)[i] = float32(i)
		}
		for i, v := range Data[float32](large) {
			if v != float32(i) {
				t.Fatalf("element %d is %v after it was set", i, v)
			}
		}
	}
}
