package serving

import (
	"fmt"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/sparse"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Field is an input or an output of a model.
type Field struct {
	Name     string
	DType    tensor.DType
	Dims     []int64 // program.Unknown where a request decides
	LoDLevel int     // how many levels of sequences its rows form; 0: none
	Keys     bool    // elements are keys of a table that grows: a text stands for convert.Key of it
}

// String describes a field, such as x float32[-1 13].
func (f Field) String() string {
	s := fmt.Sprintf("%s %s%v", f.Name, f.DType, f.Dims)
	if f.LoDLevel > 0 {
		s += fmt.Sprintf(" in %d LoD levels", f.LoDLevel)
	}
	return s
}

// batched reports whether rows of the field are those of a batch.
func (f *Field) batched() bool { return len(f.Dims) > 0 && f.Dims[0] == program.Unknown }

// fixed reports whether nothing but the number of rows is open.
func (f *Field) fixed() bool {
	return f.LoDLevel == 0 && f.batched() && !slices.Contains(f.Dims[1:], program.Unknown)
}

// A Schema says what a model takes and gives.
type Schema struct {
	Inputs, Outputs []Field
	// Rowwise says that each row of an output depends on its own row, or sequence, of the inputs. So requests may share a run, and may run in pieces.
	Rowwise bool
	fixed   bool // Rowwise, and nothing but the number of rows is open
}

// schemaOf returns the schema of an inference program.
func schemaOf(p *program.Program) (s Schema, err error) {
	keys := sparse.KeyFields(p)
	fields := func(names []string) (all []Field) {
		for _, name := range names {
			v, ok := p.Global().Var(name)
			if !ok || v.Kind != program.LoDTensor {
				err = fault.E(fault.Unsupported, fault.Var(name), fault.Got("a model that takes or gives what is no tensor"), fault.Want("tensors"))
				return nil
			}
			all = append(all, Field{v.Name, v.DType, v.Dims, v.LoDLevel, slices.Contains(keys, name)})
		}
		return all
	}
	s.Inputs, s.Outputs = fields(p.Feeds()), fields(p.Targets())
	if err != nil {
		return s, err
	}
	every := func(fields []Field, is func(*Field) bool) bool {
		return !slices.ContainsFunc(fields, func(f Field) bool { return !is(&f) })
	}
	d := ops.DependenceOf(p)
	s.Rowwise = len(s.Inputs) > 0 && !d.LoD && len(d.Values) == 0 && every(s.Inputs, (*Field).batched) && every(s.Outputs, (*Field).batched) && ops.RowsApart(p, p.Targets()...)
	s.fixed = s.Rowwise && every(s.Inputs, (*Field).fixed)
	return s, nil
}

// check checks the inputs of a request, and returns how many records they have: rows, or sequences of the outermost level.
func (s *Schema) check(inputs map[string]*tensor.Tensor, maxBatch int) (records int64, err error) {
	first := ""
	for i := range s.Inputs {
		f := &s.Inputs[i]
		t := inputs[f.Name]
		if t == nil {
			return 0, fault.E(fault.InvalidArgument, fault.Var(f.Name), fault.Got("no value"), fault.Want(f.String()))
		}
		if err := f.check(t); err != nil {
			return 0, err
		}
		if !f.batched() {
			continue
		}
		n := tensor.Records(t)
		if first != "" && n != records {
			return 0, fault.E(fault.ShapeMismatch, fault.Var(f.Name), fault.Gotf("%d records", n), fault.Wantf("%d, as %s has", records, first))
		}
		first, records = f.Name, n
	}
	if len(inputs) > len(s.Inputs) {
		for name := range inputs {
			if !slices.ContainsFunc(s.Inputs, func(f Field) bool { return f.Name == name }) {
				return 0, fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("an input that the model does not take"), fault.Want(names(s.Inputs)),
					fault.DidYouMean(name, fieldNames(s.Inputs)))
			}
		}
	}
	if first == "" {
		return 1, nil
	}
	if records == 0 {
		return 0, fault.E(fault.InvalidArgument, fault.Var(first), fault.Got("no rows"), fault.Want("at least one"))
	}
	if !s.Rowwise && records > int64(maxBatch) {
		return 0, fault.E(fault.TooLarge, fault.Var(first), fault.Gotf("%d rows", records), fault.Wantf("at most %d, the bound on one run", maxBatch),
			fault.Hint("the model mixes rows, so it cannot run in pieces"))
	}
	return records, nil
}

func (f *Field) check(t *tensor.Tensor) error {
	switch {
	case t.DType() != f.DType || t.IsSelected():
		return fault.E(fault.TypeMismatch, fault.Var(f.Name), fault.Got(t.String()), fault.Want(f.String()))
	case !ops.Compatible(t.Dims(), f.Dims):
		return fault.E(fault.ShapeMismatch, fault.Var(f.Name), fault.Got(t.String()), fault.Want(f.String()))
	case len(t.LoD()) != f.LoDLevel:
		return fault.E(fault.ShapeMismatch, fault.Var(f.Name), fault.Gotf("%d LoD levels", len(t.LoD())), fault.Want(f.String()))
	}
	if err := tensor.CheckLoD(t); err != nil {
		return fault.E(fault.KindOf(err), fault.Var(f.Name), fault.Cause(err))
	}
	return nil
}

func fieldNames(fields []Field) (names []string) {
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return names
}

func names(fields []Field) string { return "one of " + strings.Join(fieldNames(fields), ", ") }
