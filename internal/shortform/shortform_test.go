package shortform

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
)

// arrays draws arrays of elements of which many are equal.
func arrays(t *rapid.T) (array []byte, size int) {
	size = rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "size")
	common := rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "common")
	for range rapid.IntRange(0, 8).Draw(t, "stretches") {
		array = append(array, bytes.Repeat(common, rapid.SampledFrom([]int{0, 1, 2, 3, 9, 700, 5000}).Draw(t, "equal"))...)
		array = append(array, rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "others")...)
		array = append(array, make([]byte, (size-len(array)%size)%size)...)
	}
	return array, size
}

// A source gives an array, and keeps how much of it may be forgotten.
type source struct {
	memory
	done int64
}

func (s *source) ReadAt(p []byte, offset int64) (int, error) {
	if offset < s.done {
		return 0, io.ErrUnexpectedEOF
	}
	return s.memory.ReadAt(p, offset)
}

func (s *source) Done(before int64) { s.done = max(s.done, before) }

// What is read is what was written, whatever the pieces in which it is read; an array that is read piece by piece is written alike, in order; and what follows
// it is left to the next reader.
func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		array, size := arrays(t)
		var b bytes.Buffer
		if err := Write(&b, array, size, nil); err != nil {
			t.Fatal(err)
		}
		var known bytes.Buffer
		zeros := func(from, to int) bool { return bytes.Count(array[from:to], []byte{0}) == to-from }
		if err := Write(&known, array, size, zeros); err != nil || !bytes.Equal(known.Bytes(), b.Bytes()) {
			t.Fatalf("with zeros that are known: %d bytes in place of %d, %v", known.Len(), b.Len(), err)
		}
		if n := int64(b.Len()); n > MostBytes(int64(len(array))) {
			t.Fatalf("%d bytes, at most %d are expected", n, MostBytes(int64(len(array))))
		}
		var pieces bytes.Buffer
		if err := WriteFrom(&pieces, &source{memory: array}, int64(len(array)), size); err != nil || !bytes.Equal(pieces.Bytes(), b.Bytes()) {
			t.Fatalf("piece by piece: %d bytes in place of %d, %v", pieces.Len(), b.Len(), err)
		}
		short := bytes.Clone(b.Bytes())
		b.WriteString("next")
		got, err := io.ReadAll(NewReader(&b, size, int64(len(array)/size)))
		if err != nil || !bytes.Equal(got, array) || b.String() != "next" {
			t.Fatalf("%d bytes of %d, %v, and %q behind them", len(got), len(array), err, b.String())
		}
		if got, err = io.ReadAll(iotest.OneByteReader(NewReader(iotest.HalfReader(bytes.NewReader(short)), size, int64(len(array)/size)))); err != nil || !bytes.Equal(got, array) {
			t.Fatalf("byte by byte: %d bytes of %d, %v", len(got), len(array), err)
		}
		cut := rapid.IntRange(0, len(short)-1).Draw(t, "cut")
		if _, err := io.ReadAll(NewReader(bytes.NewReader(short[:cut]), size, int64(len(array)/size))); len(array) > 0 && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("the first %d of %d bytes: %v", cut, len(short), err)
		}
	})
}

// A table with few rows in use takes a few bytes, also where what is not in use is not zero.
func TestFewElementsTakeFewBytes(t *testing.T) {
	array := bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, 1<<20)
	for i := range 1000 {
		array[4*i], array[2<<20+4*i] = 7, 9
	}
	var b, pieces bytes.Buffer
	if err := Write(&b, array, 4, nil); err != nil || b.Len() > 8100 {
		t.Errorf("%d bytes for 2000 elements of 4 bytes, %v", b.Len(), err)
	}
	if err := WriteFrom(&pieces, &source{memory: array}, int64(len(array)), 4); err != nil || !bytes.Equal(pieces.Bytes(), b.Bytes()) {
		t.Errorf("piece by piece: %d bytes in place of %d, %v", pieces.Len(), b.Len(), err)
	}
	gone := &source{memory: array, done: int64(len(array))}
	if err := WriteFrom(io.Discard, gone, int64(len(array)), 4); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a source that cannot be read: %v", err)
	}
}

func TestWhatIsNoShortFormIsRefused(t *testing.T) {
	for name, b := range map[string][]byte{
		"a run beyond the end":       {7, 1, 4, 1, 1, 1, 1},
		"a gap beyond the end":       {7, 5, 0},
		"a run without elements":     {7, 1, 0, 1, 2, 7, 7},
		"a length without an end":    append([]byte{7}, bytes.Repeat([]byte{0xff}, 11)...),
		"a length of all numbers":    {7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0},
		"elements in no run at all":  {7, 0, 0},
		"a run that is cut":          {7, 0, 4, 1},
		"nothing behind the element": {7},
	} {
		got, err := io.ReadAll(NewReader(bytes.NewReader(b), 1, 4))
		if err == nil || len(got) > 4 || !errors.Is(err, fault.Corrupt) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{7, 1, 2, 3, 4, 1, 0}, 1, int64(4))
	f.Add([]byte{0, 0, 0, 0, 9, 1, 1, 2, 3, 4, 200, 1, 0}, 4, int64(210))
	f.Fuzz(func(t *testing.T, b []byte, size int, n int64) {
		if size != 1 && size != 2 && size != 4 && size != 8 || n < 0 || n > 1<<16 {
			return
		}
		array, err := io.ReadAll(NewReader(bytes.NewReader(b), size, n))
		if int64(len(array)) > n*int64(size) || err == nil && int64(len(array)) != n*int64(size) {
			t.Fatalf("%d bytes of %d elements of %d, %v", len(array), n, size, err)
		}
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := Write(&again, array, size, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(NewReader(&again, size, n)); err != nil || !bytes.Equal(got, array) {
			t.Fatalf("what was read reads as something else when it is written again: %v", err)
		}
	})
}
