package tensor_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/edl-go/edl/tensor"
)

// One pass over a memory clears, compares and copies as one without a Usage does, whatever was in use before.
func TestUsage(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int64{5, 100_000, 20 << 20} {
		x, err := tensor.New(tensor.Float32, n)
		if err != nil {
			t.Fatal(err)
		}
		memory := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x.Float32s()))), x.Bytes())
		want := make([]byte, len(memory))
		for range 30 {
			at := r.IntN(len(memory))
			memory[at], want[at] = 1, 1
		}
		u := tensor.UsageOf(memory)
		for at := 0; at < len(memory); {
			end := min(len(memory), at+1+r.IntN(min(len(memory), 1<<20)))
			switch r.IntN(3) {
			case 0:
				u.Clear(at, end)
				clear(want[at:end])
			case 1:
				from := make([]byte, end-at)
				from[r.IntN(len(from))] = 2
				u.Copy(at, from)
				copy(want[at:], from)
			default:
				if got := u.Zeros(at, end); got != tensor.ZeroBytes(want[at:end]) {
					t.Fatalf("%d bytes: %d to %d are zeros: %v", len(memory), at, end, got)
				}
			}
			at = end
		}
		if !bytes.Equal(memory, want) {
			t.Errorf("%d bytes differ", len(memory))
		}
	}
}
