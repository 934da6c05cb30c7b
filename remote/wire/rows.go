package wire

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// An answer of GetRows is one vector of int32, with a part for each table of the request, in order:
//
//	1 word       the type of the elements: float32, or bfloat16 where the table is stored so
//	n elements   row after row, in words of 4 bytes. Half of the last word may be empty

// RowsWords returns how many words a part takes for n elements in all its rows. stored is Float32 or BFloat16.
func RowsWords(stored tensor.DType, n int) int {
	if stored == tensor.BFloat16 {
		return 1 + (n+1)/2
	}
	return 1 + n
}

// BeginRows begins an answer, or the rest of one, with the part of a table. It returns the place of the n elements, which is memory of words, and the words behind the
// part. The caller gives at least RowsWords words.
func BeginRows(words []int32, stored tensor.DType, n int) (elements *tensor.Tensor, left []int32, err error) {
	size := RowsWords(stored, n)
	words[size-1] = 0 // the half that may be empty
	words[0] = int32(stored)
	elements, err = rowsIn(words[1:size], stored, n)
	return elements, words[size:], err
}

// TakeRows reads the first part of an answer, or of the rest of one. The caller has asked for its n elements. The result is memory of words. TakeRows refuses a
// shorter part, and elements that are neither Float32 nor BFloat16.
func TakeRows(words []int32, n int) (elements *tensor.Tensor, left []int32, err error) {
	if len(words) == 0 {
		return nil, nil, fault.E(fault.Corrupt, fault.Got("an answer that ends in front of the rows of a table"))
	}
	stored := tensor.DType(words[0])
	if stored != tensor.Float32 && stored != tensor.BFloat16 {
		return nil, nil, fault.E(fault.Corrupt, fault.Gotf("rows of %v", stored), fault.Want("float32 or bfloat16"))
	}
	size := RowsWords(stored, n)
	if size > len(words) {
		return nil, nil, fault.E(fault.Corrupt, fault.Gotf("%d words of rows", len(words)), fault.Wantf("%d", size))
	}
	elements, err = rowsIn(words[1:size], stored, n)
	return elements, words[size:], err
}

func rowsIn(words []int32, stored tensor.DType, n int) (*tensor.Tensor, error) {
	if stored == tensor.BFloat16 {
		return tensor.FromHalves(stored, elements[uint16](view(words))[:n], int64(n))
	}
	return tensor.FromSlice(elements[float32](view(words)), int64(n))
}
