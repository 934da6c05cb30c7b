package npz

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// Limits bounds what Read accepts. It is checked before memory is allocated. A zero field means its default.
type Limits struct {
	Arrays int   // of one archive; default 64 Ki
	Bytes  int64 // elements of all arrays, unpacked; default 4 GiB
}

// headerForm is the header of plain arrays as NumPy writes it: type, order and shape.
var headerForm = regexp.MustCompile(`^\{'descr': '([<>|=]?[a-z][0-9]+)', 'fortran_order': (True|False), ` +
	`'shape': \(((?:[0-9]{1,18}, ?)*(?:[0-9]{1,18})?)\), \} *\n$`)

// Read reads the arrays of an archive of size bytes whose names are wanted, packed or not. Types that no kernel knows become their tensor.Wider. Memory grows with the bytes that arrive.
func Read(r io.ReaderAt, size int64, limits Limits, wanted func(name string) bool) (map[string]*tensor.Tensor, error) {
	if limits.Arrays <= 0 {
		limits.Arrays = 64 << 10
	}
	if limits.Bytes <= 0 {
		limits.Bytes = 4 << 30
	}
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fault.E(fault.Corrupt, fault.Got("no archive of arrays"), fault.Want("a .npz file, as numpy.savez writes it"), fault.Cause(err))
	}
	if len(archive.File) > limits.Arrays {
		return nil, fault.E(fault.TooLarge, fault.Gotf("%d arrays", len(archive.File)), fault.Wantf("at most %d", limits.Arrays))
	}
	all, room := map[string]*tensor.Tensor{}, limits.Bytes
	for _, entry := range archive.File {
		name, isArray := strings.CutSuffix(entry.Name, ".npy")
		if !isArray || all[name] != nil {
			return nil, fault.E(fault.Corrupt, fault.Got("the entry "+fault.Quote(entry.Name)), fault.Want("arrays NAME.npy, each once"))
		}
		if !wanted(name) {
			continue
		}
		if entry.UncompressedSize64 > uint64(room) {
			return nil, fault.E(fault.TooLarge, fault.Var(name), fault.Gotf("arrays of more than %d bytes", limits.Bytes), fault.Want("smaller ones"))
		}
		room -= int64(entry.UncompressedSize64)
		if all[name], err = readEntry(entry); err != nil {
			return nil, ofArray(name, err)
		}
	}
	return all, nil
}

func ofArray(name string, err error) error {
	var known *fault.Fault
	if !errors.As(err, &known) {
		return fault.E(fault.Corrupt, fault.Var(name), fault.Got("bytes that cannot be unpacked"), fault.Want("a whole .npz file"), fault.Cause(err))
	}
	c := *known
	c.Variable = name
	return &c
}

func readEntry(entry *zip.File) (*tensor.Tensor, error) {
	f, err := entry.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dtype, dims, bytes, err := readHeader(f, int64(entry.UncompressedSize64))
	if err != nil {
		return nil, err
	}
	if n, ok := tensor.Count(dims); !ok || len(dims) > tensor.MaxRank || int64(n) > bytes/int64(dtype.Size()) || int64(n)*int64(dtype.Size()) != bytes {
		return nil, fault.E(fault.Corrupt, fault.Gotf("%d bytes of elements", bytes), fault.Wantf("those of %s of shape %v", dtype, dims))
	}
	t, err := tensor.ReadElements(f, dtype, dims...)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, f) // nothing is left; compares the checksum
	return t, err
}

// readHeader reads what stands before the elements of an array of size bytes.
func readHeader(r io.Reader, size int64) (dtype tensor.DType, dims []int64, bytes int64, err error) {
	refuse := func(kind fault.Kind, got, want string) (tensor.DType, []int64, int64, error) {
		return 0, nil, 0, fault.E(kind, fault.Got(got), fault.Want(want))
	}
	fixed := make([]byte, 10, 12)
	if _, err := io.ReadFull(r, fixed); err != nil || string(fixed[:6]) != "\x93NUMPY" {
		return refuse(fault.Corrupt, "bytes without NumPy's signature", "an array")
	}
	length := int64(binary.LittleEndian.Uint16(fixed[8:]))
	if fixed[6] > 1 {
		fixed = fixed[:12]
		if _, err := io.ReadFull(r, fixed[10:]); err != nil {
			return refuse(fault.Corrupt, "a header that is cut off", "a whole array")
		}
		length = int64(binary.LittleEndian.Uint32(fixed[8:]))
	}
	const longest = 64 << 10
	bytes = size - int64(len(fixed)) - length
	if length > longest || bytes < 0 {
		return refuse(fault.Corrupt, fmt.Sprintf("a header of %d bytes in an array of %d", length, size), "a whole array")
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return refuse(fault.Corrupt, "a header that is cut off", "a whole array")
	}
	m := headerForm.FindStringSubmatch(string(text))
	if m == nil {
		return refuse(fault.Corrupt, "header "+fault.Quote(string(text)), "type and shape of a plain array")
	}
	for extent := range strings.SplitSeq(m[3], ",") {
		if extent = strings.TrimSpace(extent); extent != "" {
			n, _ := strconv.ParseInt(extent, 10, 64) // the form bounds its digits
			dims = append(dims, n)
		}
	}
	if m[2] == "True" && len(dims) > 1 {
		return refuse(fault.Unsupported, "an array in column-major order", "row-major, as numpy.ascontiguousarray makes it")
	}
	for d, description := range descriptions {
		if description == m[1] {
			return d, dims, bytes, nil
		}
	}
	return refuse(fault.Unsupported, "an array of "+m[1], "bool, int8, uint8, int16, int32, int64, float16, float32 or float64, little-endian")
}
