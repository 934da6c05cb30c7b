package ops

import (
	"fmt"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Meta is what is known of a variable without its value.
type Meta struct {
	Kind     program.VarKind
	DType    tensor.DType
	Dims     []int64       // program.Unknown where open
	LoDLevel int           // levels of sequences that the rows are cut into
	Fields   []program.Var // of a reader: what one read yields

	Sequences []int64 // how many sequences each LoD level has, from the outermost; nil where open
	LoDOf     string  // the variable with which the LoD came in, itself or another; "" where nothing is known of it

	// Rows is how many rows a program.SelectedRows holds, program.Unknown where open. Dims are those of the whole, as if it held every row
	// once.
	Rows int64
}

// String names dtype and dims, such as "float32[-1 784]"; of what has none, the kind.
func (m Meta) String() string {
	switch m.Kind {
	case program.LoDTensor:
		return fmt.Sprintf("%v%v", m.DType, m.Dims)
	case program.SelectedRows:
		return fmt.Sprintf("rows of %v%v", m.DType, m.Dims)
	}
	return m.Kind.String()
}

// Stored returns the dims of the elements that a value of known dims holds: Dims, for program.SelectedRows with Rows in place of the
// first.
func (m Meta) Stored() []int64 {
	if m.Kind != program.SelectedRows || len(m.Dims) == 0 {
		return m.Dims
	}
	return append([]int64{m.Rows}, m.Dims[1:]...)
}

// MetaOf returns what a declaration says.
func MetaOf(v *program.Var) Meta {
	m := Meta{Kind: v.Kind, DType: v.DType, Dims: v.Dims, LoDLevel: v.LoDLevel, Fields: v.Fields}
	if m.Kind == program.SelectedRows {
		m.Rows = program.Unknown
	}
	return m
}

// MetaOfValue returns what a value says of itself.
func MetaOfValue(t *tensor.Tensor) Meta {
	if !t.IsSelected() {
		return Meta{Kind: program.LoDTensor, DType: t.DType(), Dims: t.Dims(), LoDLevel: len(t.LoD()), Sequences: countSequences(t.LoD())}
	}
	_, height := t.Selected()
	return Meta{Kind: program.SelectedRows, DType: t.DType(), Dims: append([]int64{height}, t.Dims()[1:]...), Rows: t.Dims()[0]}
}

// Compatible reports whether two dims lists can describe one value: equal rank, and equal extents where both are known.
func Compatible(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && a[i] != program.Unknown && b[i] != program.Unknown {
			return false
		}
	}
	return true
}

// Product multiplies extents; it is program.Unknown when one of them is, and when the product overflows.
func Product(dims []int64) int64 {
	for _, d := range dims {
		if d < 0 {
			return program.Unknown
		}
	}
	n, ok := tensor.Count(dims)
	if !ok {
		return program.Unknown
	}
	return int64(n)
}
