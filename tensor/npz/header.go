package npz

import (
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
)

// maxHeader bounds the header of a .npy file, which names a type and a few extents.
const maxHeader = 64 << 10

// headerForm is the header of plain arrays as NumPy writes it: type, order and shape.
var headerForm = regexp.MustCompile(`^\{'descr': '([<>|=]?[a-z][0-9]+)', 'fortran_order': (True|False), ` +
	`'shape': \(((?:[0-9]{1,18}, ?)*(?:[0-9]{1,18})?)\), \} *\n$`)

// otherForm is the type of an array whose elements are no numbers, or structures of several fields.
var otherForm = regexp.MustCompile(`^\{'descr': (?:\[|'[<>|=]?([A-Za-z])[^']{0,40}')`)

// otherElements is why an array of NumPy that has no numbers is refused; nil: the header is not of one.
func otherElements(header []byte) error {
	m := otherForm.FindSubmatch(header)
	if m == nil {
		return nil
	}
	got, hint := "structures of several fields", "save each field as an array of its own"
	switch string(m[1]) {
	case "":
	case "U", "S", "a":
		got, hint = "texts", "save the numbers that stand for them; a table that looks up texts takes .csv and .jsonl"
	case "O":
		got, hint = "objects of Python", "convert it before it is saved, as with x.astype('float32'); rows of different lengths are one array of all elements, with their offsets in an array NAME.lod0"
	case "M", "m":
		got, hint = "times", "convert it before it is saved, as with x.astype('int64')"
	default:
		return nil
	}
	return fault.E(fault.Unsupported, fault.Got("an array of "+got), fault.Want("an array of numbers"), fault.Hint(hint))
}

// ReadHeader reads what stands before the elements of a .npy file of size bytes. It returns the element type as NumPy names it, such as <f4, the dims, and the number of bytes of elements, which need not
// be what type and dims ask for. It refuses arrays in column-major order.
func ReadHeader(r io.Reader, size int64) (description string, dims []int64, bytes int64, err error) {
	corrupt := func(got, want string) error { return fault.E(fault.Corrupt, fault.Got(got), fault.Want(want)) }
	fixed := make([]byte, 10, 12)
	if n, err := io.ReadFull(r, fixed); err != nil {
		return "", nil, 0, corrupt(fmt.Sprintf("an array of %d bytes", n), "a .npy file")
	}
	if string(fixed[:6]) != "\x93NUMPY" {
		return "", nil, 0, corrupt("bytes without NumPy's signature", "a .npy file")
	}
	length := int64(binary.LittleEndian.Uint16(fixed[8:]))
	switch fixed[6] {
	case 1:
	case 2:
		fixed = fixed[:12]
		if _, err := io.ReadFull(r, fixed[10:]); err != nil {
			return "", nil, 0, corrupt("a header that is cut off", "a whole .npy file")
		}
		length = int64(binary.LittleEndian.Uint32(fixed[8:]))
	default:
		return "", nil, 0, fault.E(fault.Unsupported, fault.Gotf("version %d of the .npy format", fixed[6]), fault.Want("1 or 2"))
	}
	bytes = size - int64(len(fixed)) - length
	if length > maxHeader || bytes < 0 {
		return "", nil, 0, corrupt(fmt.Sprintf("a header of %d bytes in an array of %d", length, size), "a whole .npy file")
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return "", nil, 0, corrupt("a header that is cut off", "a whole .npy file")
	}
	m := headerForm.FindStringSubmatch(string(text))
	if m == nil {
		if err := otherElements(text); err != nil {
			return "", nil, 0, err
		}
		return "", nil, 0, corrupt("header "+fault.Quote(string(text)), "type and shape of a plain array")
	}
	if m[2] == "True" {
		return "", nil, 0, fault.E(fault.Unsupported, fault.Got("an array in column-major order"), fault.Want("row-major"),
			fault.Hint("save numpy.ascontiguousarray(x)"))
	}
	for extent := range strings.SplitSeq(m[3], ",") {
		if extent = strings.TrimSpace(extent); extent != "" {
			n, _ := strconv.ParseInt(extent, 10, 64) // the form bounds its digits
			dims = append(dims, n)
		}
	}
	return m[1], dims, bytes, nil
}
