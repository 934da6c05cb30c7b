package dataplane

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// Any cut of slices into parts, with the slices in any order and interleaved, completes each slice once, and no part fits after that.
func TestProgressTakesEveryCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := tableOf(rapid.SliceOfN(rapid.IntRange(0, 40), 0, 8).Draw(t, "sizes")...)
		p := NewProgress(table)
		for range 2 { // the second round after Reset is like the first
			at, open, had := make([]int, len(table)), all(table), 0
			for len(open) > 0 {
				if p.Complete() {
					t.Fatal("complete with slices missing")
				}
				k := rapid.IntRange(0, len(open)-1).Draw(t, "next")
				slice := open[k]
				part := Part{Slice: slice, Offset: at[slice]}
				if left := table[slice].Bytes - at[slice]; left > 0 {
					part.Length = rapid.IntRange(1, left).Draw(t, "length")
				}
				part.End = part.Length == table[slice].Bytes-at[slice]
				wrong := part
				switch rapid.IntRange(0, 4).Draw(t, "wrong") {
				case 4:
					wrong.End = !part.End
				case 0:
					wrong.Offset += rapid.SampledFrom([]int{-1, 1, 1 << 40, math.MinInt}).Draw(t, "by")
				case 1:
					wrong.Length = table[slice].Bytes - at[slice] + rapid.SampledFrom([]int{1, 7, math.MaxUint32}).Draw(t, "by")
				case 2:
					wrong.Slice = len(table) + rapid.SampledFrom([]int{0, 1, math.MaxUint32}).Draw(t, "by")
				case 3:
					if table[slice].Bytes == 0 {
						wrong.Length = 1
					} else {
						wrong.Length = 0
					}
				}
				if err := p.add(wrong); !errors.Is(err, fault.Corrupt) {
					t.Fatalf("%+v after %d bytes of slice %d with %d: %v", wrong, at[slice], slice, table[slice].Bytes, err)
				}
				if err := p.add(part); err != nil {
					t.Fatal(err)
				}
				at[slice] += part.Length
				if whole := at[slice] == table[slice].Bytes; whole != p.Has(slice) {
					t.Fatalf("after %d of %d bytes, Has says %v", at[slice], table[slice].Bytes, !whole)
				} else if whole {
					open = append(open[:k], open[k+1:]...)
					had++
				}
			}
			if !p.Complete() || had != len(table) {
				t.Fatal("not complete")
			}
			for slice, s := range table {
				for _, part := range []Part{{Slice: slice}, {Slice: slice, Length: s.Bytes}, {Slice: slice, Offset: s.Bytes}, {Slice: slice, Offset: s.Bytes, Length: 1}} {
					if err := p.add(part); !errors.Is(err, fault.Corrupt) {
						t.Fatalf("%+v after the end: %v", part, err)
					}
				}
			}
			p.Reset()
			if p.Complete() != (len(table) == 0) {
				t.Fatal("Reset")
			}
		}
	})
}

// A table describes values, also those without elements.
func TestTable(t *testing.T) {
	var table Table
	for _, dims := range [][]int64{{2, 3}, {0, 5}, {}} {
		v, err := tensor.New(tensor.Float64, dims...)
		if err != nil {
			t.Fatal(err)
		}
		table = append(table, SliceOf("x", v))
	}
	if table[0].Bytes != 48 || table[1].Bytes != 0 || table[2].Bytes != 8 || table.Bytes() != 56 || table[0].DType != tensor.Float64 || table[0].Dims[1] != 3 {
		t.Errorf("%+v", table)
	}
	if err := table.Check(); err != nil {
		t.Error(err)
	}
	for _, dims := range [][]int64{{1 << 61}, {math.MaxInt64, 2}, {1 << 30, 1 << 29}} { // each or together more than memory can have
		lie := append(table[:3:3], Slice{DType: tensor.UInt8, Dims: dims, Bytes: 1 << 61}, Slice{DType: tensor.UInt8, Dims: []int64{1 << 60}, Bytes: 1 << 60})
		if err := lie.Check(); !errors.Is(err, fault.Corrupt) {
			t.Errorf("dims %v: %v", dims, err)
		}
	}
}

// rowsTable is a table of one slice with room for 5 rows of width 3.
var rowsTable = Table{{Name: "rows", DType: tensor.Int32, Dims: []int64{6, 4}, Bytes: 6 * 4 * 4, Rows: true}}

// Of rows only those in use travel: the part that is marked ends the slice, and the slice says how many bytes that must be.
func TestProgressOfRows(t *testing.T) {
	if err := rowsTable.Check(); err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, rowsTable[0].Bytes)
	for rows := range uint32(6) {
		binary.NativeEndian.PutUint32(memory, rows)
		used := 4 + int(rows)*4*4
		if n, err := rowsTable[0].Used(memory); n != used || err != nil {
			t.Fatalf("%d rows: %d bytes, %v, want %d", rows, n, err, used)
		}
		for _, length := range []int{used - 4, used, used + 4} {
			p := NewProgress(rowsTable)
			for _, part := range []Part{{Length: 2}, {Offset: 2, Length: length - 2, End: true}} {
				if err := p.add(part); err != nil && length > 2 && length <= rowsTable[0].Bytes {
					t.Fatal(err)
				}
			}
			if length <= 2 || length > rowsTable[0].Bytes {
				continue
			}
			if err := p.Check(0, memory); !p.Complete() || (err == nil) != (length == used) {
				t.Errorf("%d bytes for %d rows: complete %t, %v", length, rows, p.Complete(), err)
			}
		}
	}
	binary.NativeEndian.PutUint32(memory, 6)
	if _, err := rowsTable[0].Used(memory); !errors.Is(err, fault.Corrupt) {
		t.Errorf("more rows than there is room for: %v", err)
	}
	p := NewProgress(rowsTable)
	if err := p.add(Part{Length: rowsTable[0].Bytes}); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a slice that is full and has no end: %v", err)
	}
	for _, lie := range []Slice{{DType: tensor.Float32, Dims: []int64{6, 4}, Bytes: 96, Rows: true}, {DType: tensor.Int32, Dims: []int64{24}, Bytes: 96, Rows: true},
		{DType: tensor.Int32, Dims: []int64{0, 4}, Rows: true}} {
		if err := (Table{lie}).Check(); !errors.Is(err, fault.Corrupt) {
			t.Errorf("rows in %v%v: %v", lie.DType, lie.Dims, err)
		}
	}
}
