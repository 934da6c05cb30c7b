package feedfile

import (
	"fmt"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// source lists the element types of files that convert into numbers of tensors.
type source interface {
	int8 | uint8 | int32 | int64 | float32 | float64
}

// number lists the element types of tensors that are numbers.
type number interface {
	int32 | int64 | float32 | float64
}

// appendNumbers appends data to dst. Floats are rounded to narrower floats, and keep what is not finite; otherwise each value must stay, also one that is
// beyond the range of D.
func appendNumbers[S source, D number](dst []D, data []S) ([]D, error) {
	rounds := S(1)/2 != 0 && D(1)/2 != 0
	for _, v := range data {
		d := D(v)
		fits := float64(d) == float64(v) && S(d) == v && !reaches63(v, d)
		if rounds {
			fits = !math.IsInf(float64(d), 0) || math.IsInf(float64(v), 0)
		}
		if !fits {
			return nil, mismatch(fmt.Sprintf("%v of %s at element %d", v, name[S](), len(dst)), tensor.Of[D]())
		}
		dst = append(dst, d)
	}
	return dst, nil
}

// reaches63 reports whether a number is 2^63, as float or rounded to it, of which int64 has no value: machines differ in what they convert it to.
func reaches63[S source, D number](v S, d D) bool {
	return (S(1)/2 != 0 || D(1)/2 != 0) && (float64(v) >= 1<<63 || float64(d) >= 1<<63)
}

// name is how messages name an element type of a file.
func name[S source]() string {
	var v S
	return fmt.Sprintf("%T", v)
}

func mismatch(got string, want tensor.DType) error {
	return fault.E(fault.TypeMismatch, fault.Got(got), fault.Want(want.String()))
}
