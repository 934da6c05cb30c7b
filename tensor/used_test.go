package tensor_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/tensor"
)

// A copy has the bytes of its source, whatever was there, also where one of the two has zeros.
func TestCopyUsed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	fill := func(b []byte) {
		for at := 0; at < len(b); at += 1000 {
			if r.IntN(3) == 0 {
				b[at] = byte(1 + r.IntN(255))
			}
		}
		for zeros := r.IntN(4); zeros > 0; zeros-- {
			from := r.IntN(len(b) + 1)
			clear(b[from:min(len(b), from+8192)])
		}
	}
	for _, n := range []int{0, 1, 4095, 4096, 4097, 50000} {
		for range 20 {
			to, from := make([]byte, n), make([]byte, n)
			fill(to)
			fill(from)
			tensor.CopyUsed(to, from)
			if !bytes.Equal(to, from) {
				t.Fatalf("%d bytes differ", n)
			}
		}
	}
}

// Copies of large tensors, and streams of them, have all elements, and zeros replace what was there.
func TestLargeCopies(t *testing.T) {
	const n = 3 << 20
	from, err := tensor.New(tensor.Float32, n)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		from.Float32s()[i*i] = float32(i)
	}
	to, err := tensor.New(tensor.Float32, n)
	if err != nil {
		t.Fatal(err)
	}
	filled := func() *tensor.Tensor {
		for i := range to.Float32s() {
			to.Float32s()[i] = -1
		}
		return to
	}
	equal := func(what string, got *tensor.Tensor) {
		for i, x := range got.Float32s() {
			if x != from.Float32s()[i] {
				t.Fatalf("%s: element %d is %v, want %v", what, i, x, from.Float32s()[i])
			}
		}
	}
	equal("a clone", from.Clone())
	if err := filled().CopyFrom(from); err != nil {
		t.Fatal(err)
	}
	equal("a copy", to)
	var s tensor.Stream
	if _, err := s.Parse(tensor.AppendStream(nil, from), tensor.Limits{}); err != nil {
		t.Fatal(err)
	}
	if err := s.CopyInto(filled(), 0); err != nil {
		t.Fatal(err)
	}
	equal("a stream", to)
}
