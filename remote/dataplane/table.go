package dataplane

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/tensor"
)

// MaxSlices bounds the slices of a table in one direction.
const MaxSlices = 1 << 20

// A Slice is a variable of a server, as both ends have agreed on it when the connection was opened.
type Slice struct {
	Name  string // at the server
	DType tensor.DType
	Dims  []int64
	Bytes int  // of all elements
	Rows  bool // holds rows of a table (compress.SparseForm): only the bytes in use travel
}

// SliceOf describes a value.
func SliceOf(name string, t *tensor.Tensor) Slice {
	return Slice{Name: name, DType: t.DType(), Dims: t.Dims(), Bytes: int(t.Bytes())}
}

// Used is how many of the bytes of a slice travel: all, or those of the rows that it holds. b has all bytes. It refuses rows that cannot be.
func (s Slice) Used(b []byte) (int, error) {
	if !s.Rows {
		return len(b), nil
	}
	n := uint64(binary.NativeEndian.Uint32(b))
	if s.DType == tensor.Int64 {
		n = binary.NativeEndian.Uint64(b)
	}
	if n < uint64(s.Dims[0]) { // dims are those of compress.RowsDims: 1 + rows, 1 + width
		return compress.FormBytes(int(n), int(s.Dims[1]-1), s.DType.Size()), nil
	}
	return 0, fault.E(fault.Corrupt, fault.Var(s.Name), fault.Gotf("%d rows", n), fault.Wantf("at most %d", s.Dims[0]-1))
}

// A Table lists slices of one direction. A frame names a slice by its place.
type Table []Slice

// Check refuses a table that cannot be right: it comes from a peer.
func (t Table) Check() error {
	left := math.MaxInt / 4 // both tables of a layout together fit, with the gaps between their slices
	for _, s := range t {
		bytes, ok := s.DType.Size(), s.DType.Size() > 0
		for _, d := range s.Dims {
			if ok = ok && d >= 0 && (d == 0 || int64(bytes) <= int64(left)/d); ok {
				bytes *= int(d)
			}
		}
		ok = ok && (!s.Rows || (s.DType == tensor.Int32 || s.DType == tensor.Int64) && len(s.Dims) == 2 && s.Dims[0] > 0 && s.Dims[1] > 0)
		if !ok || s.Bytes != bytes || bytes > left {
			return fault.E(fault.Corrupt, fault.Var(s.Name), fault.Gotf("a slice %v%v of %d bytes", s.DType, s.Dims, s.Bytes), fault.Want("as many as its elements have"))
		}
		left -= bytes
	}
	return nil
}

// Equal reports whether two tables say the same.
func (t Table) Equal(other Table) bool {
	return slices.EqualFunc(t, other, func(a, b Slice) bool {
		return a.Name == b.Name && a.DType == b.DType && a.Bytes == b.Bytes && a.Rows == b.Rows && slices.Equal(a.Dims, b.Dims)
	})
}

// Bytes is how many bytes all slices have.
func (t Table) Bytes() (n int) {
	for _, s := range t {
		n += s.Bytes
	}
	return n
}

// A Layout is what a connection is about.
type Layout struct {
	Send    Table // from the trainer to the server
	Receive Table // from the server to the trainer
}

// bytes is how many bytes of memory both ends share.
func (l Layout) bytes() int {
	_, _, total := l.places()
	return total
}

// alignment of slices in shared memory, in bytes: a line of the cache, so that both ends copy whole lines.
const alignment = 64

// places returns where the slices lie in shared memory, and how much they take together.
func (l Layout) places() (send, receive []int, total int) {
	place := func(t Table) []int {
		at := make([]int, len(t))
		for i, s := range t {
			at[i] = total
			total += (s.Bytes + alignment - 1) / alignment * alignment
		}
		return at
	}
	send = place(l.Send)
	return send, place(l.Receive), total
}

// rowsAtFirst is how many bytes of a slice with rows of a table have memory from the beginning.
const rowsAtFirst = 64 << 10

// first is how many bytes of a slice have memory from the beginning.
func (s Slice) first() int {
	if s.Rows {
		return min(s.Bytes, rowsAtFirst)
	}
	return s.Bytes
}

// grows reports whether some slice gets more memory later.
func (l Layout) grows() bool {
	grows := func(s Slice) bool { return s.first() < s.Bytes }
	return slices.ContainsFunc(l.Send, grows) || slices.ContainsFunc(l.Receive, grows)
}

// atFirst calls grow for all bytes that have memory from the beginning: once for each run of slices without a gap.
func (l Layout) atFirst(grow func(at, n int) error) error {
	all := slices.Concat(l.Send, l.Receive)
	send, receive, _ := l.places()
	from, to := 0, 0
	for i, at := range append(send, receive...) {
		if at >= to+alignment && to > from {
			if err := grow(from, to-from); err != nil {
				return err
			}
			from = at
		}
		to = at + all[i].first()
	}
	if to > from {
		return grow(from, to-from)
	}
	return nil
}

// A Part is some bytes of a slice, as the list of a frame names it.
type Part struct {
	Slice  int
	Offset int // of the first byte in the slice
	Length int
	End    bool // nothing of the slice follows
}

// Progress says how much of each slice of a table a round has brought. The zero Progress with a table is the beginning of a round.
type Progress struct {
	table    Table
	at       []int // bytes, by slice
	complete int   // slices
	ended    []bool
}

// NewProgress is that of a table at the beginning of a round.
func NewProgress(t Table) *Progress {
	return &Progress{table: t, at: make([]int, len(t)), ended: make([]bool, len(t))}
}

// Reset is the beginning of the next round.
func (p *Progress) Reset() {
	clear(p.at)
	clear(p.ended)
	p.complete = 0
}

// Complete reports whether every byte of every slice is there.
func (p *Progress) Complete() bool { return p.complete == len(p.table) }

// Has reports whether every byte of a slice that travels is there.
func (p *Progress) Has(slice int) bool { return p.ended[slice] }

// Check refuses a slice that is there and has another length than its rows. b has its memory.
func (p *Progress) Check(slice int, b []byte) error {
	s := p.table[slice]
	if !s.Rows {
		return nil
	}
	used, err := s.Used(b)
	if err == nil && used != p.at[slice] {
		err = fault.E(fault.Corrupt, fault.Var(s.Name), fault.Gotf("%d bytes of rows", p.at[slice]), fault.Wantf("%d, as it says", used))
	}
	return err
}

// add notes a part. It refuses one that does not follow the part before.
func (p *Progress) add(part Part) error {
	if part.Slice >= len(p.table) {
		return fault.E(fault.Corrupt, fault.Gotf("slice %d in a frame", part.Slice), fault.Wantf("0 to %d", len(p.table)-1))
	}
	s := p.table[part.Slice]
	left := s.Bytes - p.at[part.Slice]
	end := part.Length == left || s.Rows && part.End // all bytes of a tensor travel
	if part.Offset != p.at[part.Slice] || part.Length > left || part.Length == 0 && s.Bytes > 0 || p.Has(part.Slice) || end != part.End {
		return fault.E(fault.Corrupt, fault.Var(s.Name), fault.Gotf("%d bytes at offset %d", part.Length, part.Offset),
			fault.Wantf("at most %d at offset %d, the last of them marked as the end", left, p.at[part.Slice]))
	}
	p.at[part.Slice] += part.Length
	if part.End {
		p.ended[part.Slice] = true
		p.complete++
	}
	return nil
}
