package reference

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A sparse gradient crosses to the update as it travels on a cluster: the forward half ends with the op that sums the places of each row, and the update half
// begins with the op that makes a sparse gradient of the merge. The slices of servers do not matter, because a row is in one of them.

// crossByRows returns the variable in which the rows of a sparse gradient cross, and adds the op to the update half that reads it.
func (s *split) crossByRows(reader *program.Op, v *program.Var) (string, error) {
	if form, ok := s.byRows[v.Name]; ok {
		return form, nil
	}
	if v.DType != tensor.Float32 || len(v.Dims) != 2 {
		return "", ops.At(reader, fault.E(fault.Unsupported, fault.Var(v.Name), fault.Got(ops.MetaOf(v).String()),
			fault.Want("sparse gradients of float32 tables of rank 2, in what trainers share")))
	}
	form := v.Name + ".rows"
	for _, taken := s.program.Global().Find(form); taken; _, taken = s.program.Global().Find(form) {
		form += "_"
	}
	s.byRows[v.Name] = form
	for _, half := range []*program.Program{s.forward, s.update} {
		half.Global().EnsureVar(program.Var{Name: form, Kind: program.LoDTensor, DType: tensor.Int32, Dims: compress.RowsDims(v.Dims[0], v.Dims[1])})
	}
	op := s.update.Global().Append(&program.Op{Type: "get_selected_rows", Inputs: map[string][]string{"X": {form}}, Outputs: map[string][]string{"Out": {v.Name}}})
	op.SetRole(program.RoleOptimize)
	return form, nil
}

// splitRows ends the forward half with the ops that make what crosses.
func (s *split) splitRows() error {
	for _, op := range s.update.Global().Ops {
		gradient := op.Out("Out")
		if op.Type != "get_selected_rows" || s.byRows[gradient] != op.In("X") {
			continue
		}
		v, _ := s.program.Global().Find(gradient)
		if v.Dims[0] != int64(int32(v.Dims[0])) || v.Dims[0] > compress.MaxRows {
			return fault.E(fault.TooLarge, fault.Var(gradient), fault.Gotf("%d rows", v.Dims[0]), fault.Wantf("at most %d", compress.MaxRows))
		}
		split := s.forward.Global().Append(&program.Op{Type: "split_selected_rows", Inputs: map[string][]string{"X": {gradient}},
			Outputs: map[string][]string{"Out": op.Inputs["X"]}})
		split.SetRole(program.RoleBackward)
		split.SetAttr("sections", []int32{int32(v.Dims[0])})
		split.SetAttr("room_for_all", true) // the first trainer's becomes the merge
	}
	return nil
}
