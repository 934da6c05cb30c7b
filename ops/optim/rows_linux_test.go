package optim

import (
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/edl-go/edl/tensor"
)

// Rows of a table that were never in use take no memory: rules that change all rows do not write blocks that are zeros. Here the system refuses it. A rule that makes
// something of zeros writes them, and so do those with norms.
func TestFreeRowsAreNotWritten(t *testing.T) { guardFreeRows(t, syscall.PROT_READ, nil) }

// Rows that are known to be free are not even read: a table that grows may have room for many.
func TestFreeRowsAreNotRead(t *testing.T) {
	guardFreeRows(t, syscall.PROT_NONE, []tensor.RowRange{{From: 7, To: 8}})
}

// guardFreeRows runs each rule on a table whose rows after the first block are zeros that the system guards.
func guardFreeRows(t *testing.T, guard int, live []tensor.RowRange) {
	const width, block, height = 64, blockElements / 64, 16 * blockElements / 64
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for _, f := range formulas {
		if f.opType == "adamax" || slices.Contains(wholes, f.opType) {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			u := newUpdate(t, f.opType, f.attrs, tensor.Float32, 3, 4, width)
			for out, in := range u.def.InPlace {
				if !slices.Equal(u.in[in].Dims(), []int64{4, width}) {
					continue
				}
				memory, err := syscall.Mmap(-1, 0, height*width*4, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
				if err != nil {
					t.Fatal(err)
				}
				defer syscall.Munmap(memory)
				if err := syscall.Mprotect(memory[block*width*4:], guard); err != nil {
					t.Fatal(err)
				}
				x, err := tensor.FromSlice(unsafe.Slice((*float32)(unsafe.Pointer(&memory[0])), height*width), height, width)
				if err != nil {
					t.Fatal(err)
				}
				u.in[in], u.out[out] = x, x
			}
			grad, err := (&tensor.SelectedRows{Rows: []int64{7}, Height: height, Value: filled(t, tensor.Float32, func() float64 { return 1 }, 1, width)}).Tensor()
			if err != nil {
				t.Fatal(err)
			}
			if live != nil {
				tensor.SetLive(grad, func() []tensor.RowRange { return live })
			}
			u.in[gradSlot] = grad
			u.run(t, 2)
		})
	}
}
