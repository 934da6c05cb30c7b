package pserver

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
)

// Whoever reads a frozen slice finds it as it was, whatever updates have changed and in whatever order it was kept, until that is past.
func TestFrozenSliceStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row, rows := rapid.IntRange(1, 150).Draw(t, "bytes of a row"), rapid.IntRange(0, 200).Draw(t, "rows")
		memory := rapid.SliceOfN(rapid.Byte(), row*rows, row*rows).Draw(t, "memory")
		byRows := rapid.Bool().Draw(t, "by rows")
		was := bytes.Clone(memory)
		f := freezeSlice(memory, int64(rows), byRows, rapid.SampledFrom([]int{64, 500, 5000}).Draw(t, "portion"))
		defer f.close()
		front := 0
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"rows", "all", "one", "read", "done"}).Draw(t, "step") {
			case "rows":
				if !byRows || rows == 0 {
					continue
				}
				touched := rapid.SliceOfN(rapid.Int32Range(0, int32(rows-1)), 0, 20).Draw(t, "touched")
				if !f.keepRows(touched) {
					t.Fatal("rows of the slice are said to be none")
				}
				for _, at := range touched {
					for i := range row {
						memory[int(at)*row+i] += 3
					}
				}
			case "all":
				f.keepAll()
				for i := range memory {
					memory[i]++
				}
			case "one":
				f.keepOne()
			case "read":
				from := rapid.IntRange(front, len(was)).Draw(t, "from")
				got := make([]byte, rapid.IntRange(0, len(was)-from).Draw(t, "bytes"))
				if n, err := f.ReadAt(got, int64(from)); err != nil || n != len(got) || !bytes.Equal(got, was[from:from+n]) {
					t.Fatalf("%d bytes from %d on differ: %d, %v", len(got), from, n, err)
				}
			case "done":
				front = rapid.IntRange(front, len(was)).Draw(t, "past")
				f.Done(int64(front))
			}
		}
		got := make([]byte, len(was)-front)
		if _, err := f.ReadAt(got, int64(front)); err != nil || !bytes.Equal(got, was[front:]) {
			t.Fatalf("%d bytes at the end differ, %v", len(got), err)
		}
	})
}

// Rows that the slice does not have are none of those that an update may change: all has to be kept.
func TestFrozenSliceHasNoOtherRows(t *testing.T) {
	f := freezeSlice(make([]byte, 400), 100, true, portionBytes)
	defer f.close()
	if f.keepRows([]int32{3, 100}) || f.keepRows([]int32{-1}) || !f.keepRows([]int32{99}) {
		t.Error("row 99 is the last of 100")
	}
}

// Updates may change a slice while it is read, and while it is kept ahead. What is replaced cannot be read any more, unless all of it was kept.
func TestFrozenSliceIsReadWhileItChanges(t *testing.T) {
	const row, rows, portion = 64, 3000, 4096
	for _, byRows := range []bool{false, true} {
		memory := make([]byte, row*rows)
		for i := range memory {
			memory[i] = byte(i / row)
		}
		was := bytes.Clone(memory)
		f := freezeSlice(memory, rows, byRows, portion)
		defer f.close()
		var group sync.WaitGroup
		if !byRows {
			group.Go(f.keepAll)
		}
		group.Go(func() {
			r := rand.New(rand.NewPCG(1, 2))
			for range 200 {
				touched := []int32{r.Int32N(rows), r.Int32N(rows), r.Int32N(rows)}
				if !byRows {
					f.keepAll()
				} else {
					f.keepRows(touched)
				}
				for _, at := range touched {
					for i := range row {
						memory[int(at)*row+i]++
					}
				}
			}
		})
		for range 20 {
			got, err := io.ReadAll(io.NewSectionReader(f, 0, int64(len(was))))
			if err != nil || !bytes.Equal(got, was) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
		}
		group.Wait()
		f.replace()
		if _, err := f.ReadAt(make([]byte, 1), 0); errors.Is(err, fault.Superseded) != byRows {
			t.Errorf("what was replaced: %v", err)
		}
	}
}
