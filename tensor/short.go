package tensor

import (
	"bytes"
	"io"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/shortform"
)

// A file may hold a tensor in short form (package shortform) in place of a LoDTensor stream: "EDL" and the byte 1, the tensor's version and description as in a
// LoDTensor stream without LoD, and the elements in short form. It is for tensors that only EDL reads, those of tables that grow: they have room for all rows, and the
// file has the rows in use. Streams of records and of messages have no such form.

var shortMagic = []byte{'E', 'D', 'L', 1}

// IsShort reports whether a file that begins so begins with a tensor in short form.
func IsShort(head []byte) bool { return bytes.HasPrefix(head, shortMagic) }

// WriteShort writes t in short form. A tensor with LoD, or of a type that variables cannot have, has none: it is written as a stream.
func WriteShort(w io.Writer, t *Tensor) error {
	if len(t.lod) > 0 || !t.dtype.Storable() {
		_, err := t.WriteTo(w)
		return err
	}
	if _, err := w.Write(appendTensorHead(slices.Clone(shortMagic), t)); err != nil {
		return fault.Wrap(fault.Unavailable, "", err)
	}
	if err := shortform.Write(w, memoryOf(t), t.dtype.Size(), UsageOf(memoryOf(t)).Unused); err != nil {
		return fault.Wrap(fault.Unavailable, "", err)
	}
	return nil
}

// DecodeFile decodes a whole file of one tensor: a LoDTensor stream, or a tensor in short form.
func DecodeFile(b []byte, limits Limits) (*Tensor, error) {
	var t *Tensor
	var rest []byte
	var err error
	if IsShort(b) {
		r := bytes.NewReader(b)
		t, err = Read(r, limits)
		rest = b[len(b)-r.Len():]
	} else {
		t, rest, err = DecodeStream(b, limits)
	}
	if err == nil && len(rest) > 0 {
		err = fault.E(fault.Corrupt, fault.Gotf("%d bytes after the tensor", len(rest)), fault.Want("one tensor"))
	}
	return t, err
}

// readShort reads a tensor in short form behind its first word. Elements that are left out and zero take no memory, where there are many.
func readShort(src *source, limits Limits, place Place) (*Tensor, error) {
	var s Stream
	limits.Bytes = limits.Short
	if err := s.parseTensorHead(src, limits); err != nil {
		return nil, err
	}
	if !s.DType.Storable() {
		return nil, unsupportedElements(s.DType)
	}
	t, err := place.take(s.DType, s.Dims)
	if t == nil && err == nil {
		if t, err = New(s.DType, slices.Clone(s.Dims)...); err == nil {
			SmallPages(t)
		}
	}
	if err != nil {
		return nil, err
	}
	elements := shortform.NewReader(src.r, s.DType.Size(), int64(t.Len()))
	if _, err := elements.Read(nil); err != nil { // also of a tensor without elements
		return nil, src.failed(err, 0, int64(s.DType.Size()), "the element that is left out")
	}
	block, usage := make([]byte, min(usedBytes, t.Bytes())), UsageOf(memoryOf(t))
	for at, each := 0, usedBytes/s.DType.Size(); at < t.Len(); at += each {
		n := min(each, t.Len()-at)
		got, err := io.ReadFull(elements, block[:n*s.DType.Size()])
		if err != nil {
			return nil, src.failed(err, int64(got), int64(n*s.DType.Size()), "elements in short form")
		}
		if src.offset += int64(got); ZeroBytes(block[:got]) {
			usage.Clear(at*s.DType.Size(), at*s.DType.Size()+got)
			continue
		}
		if err := decodeBlock(t, at, n, block[:got]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Rows of a table as two tensors are for formats that other programs read, which have no short form.

// RowsInUse returns the numbers of the rows of t that are not zeros, as an int64 vector, and these rows.
func RowsInUse(t *Tensor) (numbers, rows *Tensor, err error) {
	if len(t.dims) == 0 {
		return nil, nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v", t), fault.Want("a tensor with rows"))
	}
	memory, used := memoryOf(t), []int64{}
	usage, each := UsageOf(memory), 0
	if t.dims[0] > 0 {
		each = len(memory) / int(t.dims[0])
	}
	for row := int64(0); row < t.dims[0] && each > 0; row++ {
		if at := int(row) * each; at%usedBytes < each && len(memory)-at >= usedBytes && usage.Zeros(at, at+usedBytes) {
			row += int64(max(usedBytes/each, 1)) - 1
		} else if !usage.Zeros(at, at+each) {
			used = append(used, row)
		}
	}
	dims := slices.Clone(t.dims)
	dims[0] = int64(len(used))
	if rows, err = New(t.dtype, dims...); err != nil {
		return nil, nil, err
	}
	to := memoryOf(rows)
	for i, row := range used {
		copy(to[i*each:][:each], memory[int(row)*each:])
	}
	numbers, err = FromSlice(used)
	return numbers, rows, err
}

// FromRows returns a tensor of height rows that has the given ones, and zeros. numbers are what RowsInUse returns: ascending, each below height.
func FromRows(numbers, rows *Tensor, height int64) (*Tensor, error) {
	if numbers.dtype != Int64 || len(numbers.dims) != 1 || len(rows.dims) == 0 || rows.dims[0] != numbers.dims[0] || height < 0 {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("the numbers %v of the rows %v", numbers, rows), fault.Want("an int64 for each row"))
	}
	dims := slices.Clone(rows.dims)
	dims[0] = height
	t, err := New(rows.dtype, dims...)
	if err != nil || len(numbers.Int64s()) == 0 {
		return t, err
	}
	SmallPages(t)
	from, to, least := memoryOf(rows), memoryOf(t), int64(0)
	each := len(from) / int(rows.dims[0])
	for i, row := range numbers.Int64s() {
		if row < least || row >= height {
			return nil, notAscending(row, least-1, height)
		}
		copy(to[int(row)*each:][:each], from[i*each:])
		least = row + 1
	}
	return t, nil
}

// ReadRowsInto is FromRows for rows that r has, as WriteElements has written them: it reads them into t, and makes zeros of all other rows. Memory grows by a row at most.
func ReadRowsInto(r io.Reader, t, numbers *Tensor) error {
	if numbers.dtype != Int64 || len(numbers.dims) != 1 || len(t.dims) == 0 {
		return fault.E(fault.ShapeMismatch, fault.Gotf("the numbers %v of rows of %v", numbers, t), fault.Want("an int64 for each row"))
	}
	src, to, size, height := source{r: r}, memoryOf(t), t.dtype.Size(), t.dims[0]
	each := t.Len() / int(max(height, 1)) // elements of a row
	buffer := make([]byte, min(blockBytes, each*size))
	next, usage := int64(0), UsageOf(to)
	for _, row := range numbers.Int64s() {
		if row < next || row >= height {
			return notAscending(row, next-1, height)
		}
		usage.Clear(int(next)*each*size, int(row)*each*size)
		for at := 0; at < each; {
			n := min(each-at, len(buffer)/size)
			if got, err := io.ReadFull(r, buffer[:n*size]); err != nil {
				return src.failed(err, int64(got), int64(n*size), "rows")
			}
			if err := decodeBlock(t, int(row)*each+at, n, buffer[:n*size]); err != nil {
				return err
			}
			at, src.offset = at+n, src.offset+int64(n*size)
		}
		next = row + 1
	}
	usage.Clear(int(next)*each*size, len(to))
	return nil
}

func notAscending(row, last, height int64) error {
	return fault.E(fault.Corrupt, fault.Gotf("row %d behind row %d of %d", row, last, height), fault.Want("ascending numbers of rows"))
}

// beginsShort reads the first word of a file's next tensor, and reports whether it is in short form. Else the word is the version of a stream.
func beginsShort(src *source) (bool, error) {
	const what = "stream version"
	word, err := src.next(int64(len(shortMagic)), what)
	if err != nil || IsShort(word) {
		return err == nil, err
	}
	return false, checkVersion(word, 0, what)
}

// Head reads what comes before the elements of a tensor in a file, which begins with these bytes: a LoDTensor stream, or a tensor in short form.
func Head(b []byte) (DType, []int64, error) {
	var s Stream
	src, limits := source{b: b}, Limits{Bytes: math.MaxInt64}.withDefaults()
	short, err := beginsShort(&src)
	switch {
	case err != nil:
	case short:
		err = s.parseTensorHead(&src, limits)
	default:
		_, err = s.parseBody(&src, limits)
	}
	return s.DType, slices.Clone(s.Dims), err
}
