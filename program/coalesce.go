package program

import "slices"

// splitCoalesce writes coalesce_tensor of parameters that get their first values: FusedOutput gets the elements of all parameters, one after the other, and the parameters stay as they are. In Fluid they share
// their memory with FusedOutput. So the op stays whole if another op reads or changes FusedOutput later, and also if it leaves room between parameters or sets them.
func splitCoalesce(s *splitter) bool {
	ins, outs, all := s.op.Inputs["Input"], s.op.Outputs["Output"], s.out("FusedOutput")
	copies, _ := s.op.Bool("copy_data")
	sets, _ := s.op.Bool("set_constant")
	aligns, given := s.op.Bool("use_align")
	if len(ins) == 0 || len(outs) != len(ins) || !copies || sets || aligns || !given || usedAfter(s, all) {
		return false
	}
	rows := make([]string, len(ins))
	for i, in := range ins {
		rows[i] = s.temporary(all)
		s.unary("reshape", in, rows[i], map[string]Attr{"shape": []int32{-1}})
		if outs[i] != in && outs[i] != Empty {
			s.unary("assign", in, outs[i], nil)
		}
	}
	s.add("concat", map[string][]string{"X": rows}, slots{"Out": all}, map[string]Attr{"axis": int32(0)})
	return true
}

// usedAfter reports whether an op behind the merged one, or in another block, reads or writes a variable.
func usedAfter(s *splitter, name string) bool {
	for _, b := range s.block.Program().Blocks {
		list := b.Ops
		if b == s.block {
			list = list[slices.Index(list, s.op)+1:]
		}
		for _, op := range list {
			if slices.Contains(op.InputNames(), name) || slices.Contains(op.OutputNames(), name) {
				return true
			}
		}
	}
	return false
}
