package dataset

import (
	"context"
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A Field is one tensor that every sample holds.
type Field struct {
	Name  string // for errors, usually of the program's variable; may be empty
	DType tensor.DType
	Dims  []int64 // of one sample, without the batch
}

// String names type and dims, such as "float32[784]".
func (f Field) String() string { return fmt.Sprintf("%v%v", f.DType, f.Dims) }

// check holds a parsed tensor of a sample to the field.
func (f Field) check(s *tensor.Stream) *fault.Fault {
	got := Field{DType: s.DType, Dims: s.Dims}
	switch {
	case s.DType != f.DType:
		return fault.E(fault.TypeMismatch, fault.Got(got.String()), fault.Want(f.String()))
	case !slices.Equal(s.Dims, f.Dims):
		return fault.E(fault.ShapeMismatch, fault.Got(got.String()), fault.Want(f.String()))
	case len(s.LoD) > 0:
		return fault.E(fault.Unsupported, fault.Gotf("%d LoD levels", len(s.LoD)), fault.Want("samples of one shape, which batches are made of"))
	}
	return nil
}

// Fields describes the tensors of the first record, without names. A dataset without records has none.
func (d *Dataset) Fields(ctx context.Context) ([]Field, error) {
	for record, err := range d.Records(ctx, 0, min(1, d.NumRecords())) {
		if err != nil {
			return nil, err
		}
		streams, err := ParseRecord(record.Bytes, nil)
		if err != nil {
			return nil, fault.Wrap(fault.KindOf(err), record.place(), err)
		}
		fields := make([]Field, len(streams))
		for i, s := range streams {
			fields[i] = Field{DType: s.DType, Dims: s.Dims}
		}
		return fields, nil
	}
	return nil, nil
}

// label names field i in errors.
func (f Field) label(i int) string {
	if f.Name != "" {
		return f.Name
	}
	return fmt.Sprintf("field %d", i)
}
