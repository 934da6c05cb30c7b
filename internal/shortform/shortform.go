// Package shortform writes arrays most of whose elements are equal, such as those of a table that grows and has room for more rows than are in use: it leaves
// these elements out.
//
// The short form of an array of n elements is the element that is left out, and then runs, until they have n elements together:
//
//	element              of size bytes
//	uvarint left out     how many elements are equal to it
//	uvarint count        how many elements follow; 0 only in the last run
//	elements
//
// Sizes are those of the types of tensors: 1, 2, 4 or 8 bytes. An array that is full has one run, so its short form is at most size+20 bytes longer than the array.
package shortform

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/edl-go/edl/fault"
)

const (
	block     = 4096 // bytes that are compared at a time
	gap       = 8    // bytes of equal elements within a run: as many as a run costs
	samples   = 61   // elements that are looked at to choose the one that is left out
	mostExtra = 2*binary.MaxVarintLen64 + 8

	windowBytes = 1 << 20 // of a source that are read at a time
)

// MostBytes bounds what Write writes of an array of so many bytes, which has room for the constant. What a run costs, the elements that it leaves out outweigh, but
// for the first run.
func MostBytes(bytes int64) int64 { return bytes + mostExtra }

// Write writes the short form of an array of whole elements of size bytes. It reads the array once, and holds nothing of it. It does not read bytes [from, to) of which unused reports that
// they are zeros, but for a few samples; unused may be nil.
func Write(w io.Writer, array []byte, size int, unused func(from, to int) bool) error {
	a := newArray(memory(array), array, int64(len(array)), size)
	if a.want == 0 {
		a.unused = unused
	}
	return write(w, a)
}

// A Source is an array that is read piece by piece. Done tells it that nothing before an offset is read any more.
type Source interface {
	io.ReaderAt
	Done(before int64)
}

// WriteFrom is Write of an array of so many bytes that is read in pieces of 1 MB. What it writes, it reads twice.
func WriteFrom(w io.Writer, from Source, bytes int64, size int) error {
	return write(w, newArray(from, nil, bytes, size))
}

func write(w io.Writer, a *array) error {
	to := bufio.NewWriterSize(w, 1<<16)
	if _, err := to.Write(a.fill[:a.size]); err != nil {
		return err
	}
	var lengths []byte
	for at := 0; at < a.n; {
		from := a.differs(at, a.n)
		till := a.runEnd(from)
		lengths = binary.AppendUvarint(binary.AppendUvarint(lengths[:0], uint64(from-at)), uint64(till-from))
		if _, err := to.Write(lengths); err != nil {
			return err
		}
		for from < till && a.err == nil {
			part := a.elements(from, till)
			if _, err := to.Write(part); err != nil {
				return err
			}
			from += len(part) / a.size
			a.from.Done(int64(from * a.size))
		}
		if a.err != nil {
			return a.err
		}
		at = till
	}
	return to.Flush()
}

// A memory is an array in memory.
type memory []byte

func (m memory) ReadAt(p []byte, offset int64) (int, error) { return copy(p, m[offset:]), nil }
func (memory) Done(int64)                                   {}

// An array is one that is written, with the element that is left out.
type array struct {
	from    Source
	window  []byte // elements from base on
	base    int
	size, n int
	fill    [8]byte
	want    uint64
	pattern [block]byte             // of fills
	unused  func(from, to int) bool // reports whether bytes are what is left out, without a look at them; nil: look
	err     error                   // of from: the elements are not those of the array
}

// newArray returns the array of so many bytes that is all in a window, or read from a source.
func newArray(from Source, window []byte, bytes int64, size int) *array {
	a := &array{from: from, window: window, size: size, n: int(bytes / int64(size))}
	var e [8]byte
	seen, most := map[uint64]int{}, 0
	for i := range min(samples, a.n) {
		if _, err := from.ReadAt(e[:size], int64(i*a.n/min(samples, a.n)*size)); err != nil {
			a.err = err
			break
		}
		x := number(e[:], size)
		if seen[x]++; seen[x] > most {
			most, a.want = seen[x], x
		}
	}
	var whole [8]byte
	binary.LittleEndian.PutUint64(whole[:], a.want)
	copy(a.fill[:], whole[:size])
	for at := 0; at < block; at += size {
		copy(a.pattern[at:], a.fill[:size])
	}
	return a
}

// number is the first element in b as a number.
func number(b []byte, size int) uint64 {
	switch size {
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	case 8:
		return binary.LittleEndian.Uint64(b)
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	default:
		return uint64(b[0])
	}
}

// elements returns elements from at on, at least one and at most those before end, which at is before.
func (a *array) elements(at, end int) []byte {
	first := (at - a.base) * a.size
	if first < 0 || first >= len(a.window) {
		a.load(at)
		first = 0
	}
	return a.window[first:min(len(a.window), first+(end-at)*a.size)]
}

// load makes the window begin with an element.
func (a *array) load(at int) {
	if cap(a.window) == 0 {
		a.window = make([]byte, windowBytes)
	}
	a.window, a.base = a.window[:min(int64(cap(a.window)), int64(a.n-at)*int64(a.size))], at
	if a.err == nil {
		_, a.err = a.from.ReadAt(a.window, int64(at)*int64(a.size))
	}
}

// at is an element as a number.
func (a *array) at(i int) uint64 { return number(a.elements(i, i+1), a.size) }

// differs returns the first element from at on that is not left out, or end.
func (a *array) differs(at, end int) int {
	each := block / a.size
	for at < end && a.err == nil {
		if a.unused != nil && at+each <= end && a.unused(at*a.size, (at+each)*a.size) {
			at += each
			continue
		}
		if b := a.elements(at, min(at+each, end)); len(b) == block && bytes.Equal(b, a.pattern[:]) {
			at += each
			continue
		}
		for till := min(at+each, end); at < till; at++ {
			if a.at(at) != a.want {
				return at
			}
		}
	}
	return end
}

// runEnd returns where a run ends that begins at an element which is not left out.
func (a *array) runEnd(at int) int {
	for at < a.n && a.err == nil {
		b, i := a.elements(at, a.n), 0
		for i < len(b) && number(b[i:], a.size) != a.want {
			i += a.size
		}
		if at += i / a.size; i == len(b) {
			continue
		}
		next := a.differs(at, min(a.n, at+gap/a.size))
		if next == a.n || next-at >= gap/a.size {
			return at
		}
		at = next
	}
	return at
}

// A Reader reads the array whose short form another reader gives. It reads no byte behind the short form if that is an io.ByteReader.
type Reader struct {
	from interface {
		io.Reader
		io.ByteReader
	}
	size  int
	left  int64 // bytes of the array that no run has named
	fill  [8]byte
	begun bool
	gap   int64 // bytes of the run that are left out
	run   int64 // bytes of it that follow
	phase int   // of the next byte in its element
}

// NewReader returns what reads an array of n elements, which is not negative. n*size must not overflow.
func NewReader(r io.Reader, size int, n int64) *Reader {
	from, ok := r.(interface {
		io.Reader
		io.ByteReader
	})
	if !ok {
		from = bufio.NewReaderSize(r, 1<<16)
	}
	return &Reader{from: from, size: size, left: n * int64(size)}
}

// Read implements io.Reader. What is no short form of such an array is fault.Corrupt, and io.ErrUnexpectedEOF if it is too short.
func (r *Reader) Read(p []byte) (n int, err error) {
	if !r.begun {
		if _, err := io.ReadFull(r.from, r.fill[:r.size]); err != nil {
			return 0, cut(err)
		}
		r.begun = true
	}
	for n < len(p) {
		switch {
		case r.gap > 0:
			part := p[n:min(int64(len(p)), int64(n)+r.gap)]
			r.leftOut(part)
			n, r.gap = n+len(part), r.gap-int64(len(part))
		case r.run > 0:
			part := p[n:min(int64(len(p)), int64(n)+r.run)]
			got, err := io.ReadFull(r.from, part)
			n, r.run, r.phase = n+got, r.run-int64(got), (r.phase+got)%r.size
			if err != nil {
				return n, cut(err)
			}
		case r.left == 0:
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		default:
			if err := r.next(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// leftOut gives elements that are left out.
func (r *Reader) leftOut(p []byte) {
	if r.fill == [8]byte{} {
		clear(p)
		r.phase = (r.phase + len(p)) % r.size
		return
	}
	for i := range p {
		p[i] = r.fill[r.phase]
		if r.phase++; r.phase == r.size {
			r.phase = 0
		}
	}
}

// next begins a run.
func (r *Reader) next() error {
	var lengths [2]int64
	for i := range lengths {
		n, err := r.length()
		if err != nil {
			return err
		}
		if n > uint64(r.left)/uint64(r.size) {
			return corrupt(fmt.Sprintf("a run of %d elements", n), fmt.Sprintf("at most the %d that are left", r.left/int64(r.size)))
		}
		lengths[i] = int64(n) * int64(r.size)
		r.left -= lengths[i]
	}
	if r.gap, r.run = lengths[0], lengths[1]; r.run == 0 && r.left > 0 {
		return corrupt("a run without elements", "one at the end alone")
	}
	return nil
}

// length reads the length of a part of a run.
func (r *Reader) length() (n uint64, err error) {
	for shift := 0; shift < 63; shift += 7 {
		b, err := r.from.ReadByte()
		if err != nil {
			return 0, cut(err)
		}
		if n |= uint64(b&0x7f) << shift; b < 0x80 {
			return n, nil
		}
	}
	return 0, corrupt("a length of more than 63 bits", "one below the elements of the array")
}

func corrupt(got, want string) error {
	return fault.E(fault.Corrupt, fault.At("an array in short form"), fault.Got(got), fault.Want(want))
}

// cut is the error of a short form that ends too early, or that cannot be read.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if fault.KindOf(err) != fault.Internal {
		return err
	}
	return fault.E(fault.Unavailable, fault.At("an array in short form"), fault.Cause(err))
}
