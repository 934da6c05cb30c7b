package tensor

import (
	"fmt"
	"math"
)

// DType is the type of one element. Its numbers are Fluid's VarType.Type, as in program and parameter files.
type DType int32

// Element types. Kernels compute with Bool, Int32, Int64, Float32 and Float64. Float16 and BFloat16 travel, and tables are stored as BFloat16: a Tensor holds
// their bits, and kernels convert them. The others have a name and a width, so that files with these types can be read and shown.
const (
	Bool     DType = 0
	Int16    DType = 1
	Int32    DType = 2
	Int64    DType = 3
	Float16  DType = 4
	Float32  DType = 5
	Float64  DType = 6
	UInt8    DType = 20
	Int8     DType = 21
	BFloat16 DType = 22
)

// Element lists the Go types that hold the elements of a Tensor.
type Element interface {
	bool | int32 | int64 | float32 | float64
}

// Bits lists the Go types of the memory of a Tensor: those of Element, and uint16 for the bits of a half type.
type Bits interface{ Element | uint16 }

// Float lists the element types that have gradients.
type Float interface{ float32 | float64 }

// dtypes has the types by number. Others have no name.
var dtypes = [...]struct {
	name    string
	size    int
	compute bool
}{
	Bool: {"bool", 1, true}, Int16: {"int16", 2, false}, Int32: {"int32", 4, true}, Int64: {"int64", 8, true},
	Float16: {"float16", 2, false}, Float32: {"float32", 4, true}, Float64: {"float64", 8, true},
	UInt8: {"uint8", 1, false}, Int8: {"int8", 1, false}, BFloat16: {"bfloat16", 2, false},
}

// String returns the name that Fluid's Python API uses, such as "float32".
func (d DType) String() string {
	if d.isKnown() {
		return dtypes[d].name
	}
	switch d { // which Paddle has, and nothing here
	case 23:
		return "complex64"
	case 24:
		return "complex128"
	}
	return fmt.Sprintf("dtype(%d)", int32(d))
}

// ParseDType is the inverse of String.
func ParseDType(name string) (DType, bool) {
	for d, t := range dtypes {
		if t.name == name && name != "" {
			return DType(d), true
		}
	}
	return 0, false
}

// Size returns the bytes of one element, 0 for an unknown type.
func (d DType) Size() int {
	if !d.isKnown() {
		return 0
	}
	return dtypes[d].size
}

func (d DType) isKnown() bool { return d >= 0 && int(d) < len(dtypes) && dtypes[d].size > 0 }

// Computable reports whether kernels compute with elements of this type.
func (d DType) Computable() bool { return d.isKnown() && dtypes[d].compute }

// Storable reports whether variables may have this type: Computable ones, and BFloat16, in which tables may be stored.
func (d DType) Storable() bool { return d.Computable() || d == BFloat16 }

// Widen returns the number that the bits of a BFloat16 element stand for.
func Widen(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }

// IsHalf reports whether the type is Float16 or BFloat16.
func (d DType) IsHalf() bool { return d == Float16 || d == BFloat16 }

// IsFloat reports whether the type is Float32 or Float64.
func (d DType) IsFloat() bool { return d == Float32 || d == Float64 }

// Of returns the DType of a Go element type.
func Of[T Element]() DType {
	var z T
	switch any(z).(type) {
	case bool:
		return Bool
	case int32:
		return Int32
	case int64:
		return Int64
	case float32:
		return Float32
	default:
		return Float64
	}
}
