package reader

import (
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

func init() {
	ops.Register(ops.Def{
		Type:    "feed",
		Class:   ops.Feed,
		Doc:     "Names a variable that the caller feeds. It has the shape that the program declares.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "the list of fed values"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the variable"}},
		Attrs:   []ops.Attr{column},
		Infer: func(s *ops.Shapes) error {
			// Out keeps its zero Meta: nothing is inferred, and the declaration counts.
			return kindIn(s, program.FeedMinibatch, "a list of fed values")
		},
	})
	ops.Register(ops.Def{
		Type:    "fetch",
		Class:   ops.Feed,
		Doc:     "Names a variable whose value the caller fetches.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "the variable"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the list of fetched values"}},
		Attrs:   []ops.Attr{column},
		Infer: func(s *ops.Shapes) error {
			s.SetAt("Out", 0, ops.Meta{Kind: program.FetchList})
			return kindIn(s, program.LoDTensor, "a tensor")
		},
	})
}

// column is an attribute of feed and fetch.
var column = ops.Attr{Name: "col", Kind: int32(0), Doc: "position in the list, from 0", Check: func(op *program.Op) error {
	if v, ok := op.Int("col"); ok && v < 0 {
		return errors.New("a position from 0")
	}
	return nil
}}

func kindIn(s *ops.Shapes, kind program.VarKind, want string) error {
	if m := s.In("X"); m.Kind != kind {
		return fault.E(fault.TypeMismatch, fault.Var(s.Op().In("X")), fault.Gotf("X %v", m), fault.Want(want))
	}
	return nil
}
