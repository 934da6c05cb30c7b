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
