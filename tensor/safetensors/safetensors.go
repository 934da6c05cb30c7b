// Package safetensors writes and reads files of named tensors in the format of that name, which many programs know.
//
// It owns the format:
//
//	8 bytes    length of the header, little-endian
//	header     a JSON object, filled up with blanks so that the data begins at a multiple of 8
//	           {"__metadata__":{...}, "fc_0.w_0":{"dtype":"F32","shape":[13,1],"data_offsets":[0,52]}, ...}
//	data       the elements of the tensors, row-major and little-endian, one tensor after the other without a gap
//
// Files in reading order: safetensors.go (types and limits), write.go, read.go. A file is written in one pass; tensors with wide elements come first, so
// each one begins at a multiple of its element size, and tensors of one width are sorted by name. So the same tensors give the same bytes.
package safetensors

import (
	"github.com/edl-go/edl/tensor"
)

// Extension is what names of such files end with.
const Extension = ".safetensors"

// metadataKey is the one name in a header that is no tensor.
const metadataKey = "__metadata__"

// names are the element types of the format.
var names = map[tensor.DType]string{
	tensor.Bool: "BOOL", tensor.Int16: "I16", tensor.Int32: "I32", tensor.Int64: "I64", tensor.Float16: "F16", tensor.Float32: "F32",
	tensor.Float64: "F64", tensor.UInt8: "U8", tensor.Int8: "I8", tensor.BFloat16: "BF16",
}

// A Tensor is one of a file.
type Tensor struct {
	Name  string
	DType tensor.DType
	Dims  []int64
}

// Limits bounds what Read accepts. It is checked before memory is allocated. A zero field means its default.
type Limits struct {
	Header  int64 // bytes of the header; default 64 MiB
	Tensors int   // of one file; default 1 Mi
	Bytes   int64 // elements of one tensor; default 4 GiB
}

func (l Limits) withDefaults() Limits {
	if l.Header <= 0 {
		l.Header = 64 << 20
	}
	if l.Tensors <= 0 {
		l.Tensors = 1 << 20
	}
	if l.Bytes <= 0 {
		l.Bytes = 4 << 30
	}
	return l
}
