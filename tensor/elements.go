package tensor

import (
	"fmt"
	"io"

	"github.com/edl-go/edl/fault"
)

// WriteElements writes the elements of t alone, row-major and little-endian, as other formats than Fluid's hold them. It needs 64 KiB of memory in addition
// to the tensor.
func WriteElements(w io.Writer, t *Tensor) error {
	block := make([]byte, 0, blockBytes)
	for from, total := 0, t.Len(); from < total; {
		to := min(total, from+blockBytes/t.dtype.Size())
		if _, err := w.Write(appendElements(block, t, from, to)); err != nil {
			return fault.Wrap(fault.Unavailable, "", err)
		}
		from = to
	}
	return nil
}

// ReadElements reads a tensor of known dtype and dims whose elements WriteElements has written, and no byte after it. Memory grows with the bytes that
// arrive. If they end too early, the error is Corrupt and wraps io.ErrUnexpectedEOF.
func ReadElements(r io.Reader, dtype DType, dims ...int64) (*Tensor, error) {
	if len(dims) > MaxRank {
		return nil, fault.E(fault.TooLarge, fault.Gotf("rank %d", len(dims)), fault.Wantf("at most %d", MaxRank))
	}
	if _, ok := Count(dims); !ok {
		return nil, fault.E(fault.TooLarge, fault.Got("dims "+fmt.Sprint(dims)), fault.Want("dims that are not negative, with a countable number of elements"))
	}
	return readElements(&source{r: r}, dtype, dims)
}
