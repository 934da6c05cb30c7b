package main

import (
	"math"
	"strconv"
	"strings"

	"github.com/edl-go/edl/tensor"
)

// A jsonNumber is a number that stays legal JSON when it is not finite: then it is "NaN", "Infinity" or "-Infinity".
type jsonNumber float64

// MarshalJSON implements json.Marshaler.
func (n jsonNumber) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(n)), nil }

// appendNumber appends the shortest form that reads back as v. A float32 is written as the float64 that it equals.
func appendNumber(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(b, `"-Infinity"`...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// jsonElements is the elements of a tensor in row-major order, as one JSON array.
type jsonElements struct{ *tensor.Tensor }

// MarshalJSON implements json.Marshaler.
func (e jsonElements) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i := range e.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendElement(b, e.Tensor, i)
	}
	return append(b, ']'), nil
}

func appendElement(b []byte, t *tensor.Tensor, i int) []byte {
	switch t.DType() {
	case tensor.Bool:
		return strconv.AppendBool(b, t.Bools()[i])
	case tensor.Int32:
		return strconv.AppendInt(b, int64(t.Int32s()[i]), 10)
	case tensor.Int64:
		return strconv.AppendInt(b, t.Int64s()[i], 10)
	}
	return appendNumber(b, float(t, i))
}

// A jsonTensor is a tensor with its type.
type jsonTensor struct {
	DType string       `json:"dtype"`
	Dims  []int64      `json:"dims"`
	Data  jsonElements `json:"data"`
}

func newJSONTensor(t *tensor.Tensor) jsonTensor {
	dims := t.Dims()
	if dims == nil {
		dims = []int64{}
	}
	return jsonTensor{t.DType().String(), dims, jsonElements{t}}
}

// float returns an element as a number, 0 and 1 for truth values.
func float(t *tensor.Tensor, i int) float64 {
	switch t.DType() {
	case tensor.Bool:
		if t.Bools()[i] {
			return 1
		}
		return 0
	case tensor.Int32:
		return float64(t.Int32s()[i])
	case tensor.Int64:
		return float64(t.Int64s()[i])
	case tensor.Float32:
		return float64(t.Float32s()[i])
	}
	return t.Float64s()[i]
}

// maxShown is how many elements of one axis people are shown; of longer axes the middle is left out.
const maxShown = 12

// textTensor returns the elements of a tensor for people: nested brackets, one line per row, float32 with its own precision.
func textTensor(t *tensor.Tensor) string {
	if len(t.Dims()) == 0 {
		return textElement(t, 0)
	}
	var b strings.Builder
	writeAxis(&b, t, t.Dims(), 0, "")
	return b.String()
}

func writeAxis(b *strings.Builder, t *tensor.Tensor, dims []int64, from int, indent string) {
	b.WriteByte('[')
	defer b.WriteByte(']')
	n, stride := int(dims[0]), 1
	for _, d := range dims[1:] {
		stride *= int(d)
	}
	separator := " "
	if len(dims) > 1 {
		separator = "\n" + indent + " "
	}
	for i := 0; i < n; i++ {
		if i > 0 {
			b.WriteString(separator)
		}
		if i == maxShown/2 && n > maxShown {
			b.WriteString("..." + separator)
			i = n - maxShown/2
		}
		if len(dims) > 1 {
			writeAxis(b, t, dims[1:], from+i*stride, indent+" ")
		} else {
			b.WriteString(textElement(t, from+i))
		}
	}
}

func textElement(t *tensor.Tensor, i int) string {
	if t.DType() == tensor.Float32 && !math.IsInf(float(t, i), 0) {
		return strconv.FormatFloat(float64(t.Float32s()[i]), 'g', -1, 32)
	}
	return strings.Trim(string(appendElement(nil, t, i)), `"`)
}
