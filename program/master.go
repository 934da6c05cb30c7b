package program

import "slices"

// useMasters takes the parameters of an update with multi_precision apart. Paddle keeps a parameter of float16 twice there: the update changes the master of float32, and the
// parameter is its rounded copy. Here both are float32, so the update is that of the master, and the parameter is a copy.
func useMasters(p *Program) {
	for _, b := range p.Blocks {
		var all []*Op
		for _, op := range b.Ops {
			all = append(all, op)
			param, master := op.Inputs["Param"], op.Inputs["MasterParam"]
			if on, _ := op.Bool("multi_precision"); !on || len(param) != 1 || len(master) != 1 ||
				!slices.Equal(op.Outputs["ParamOut"], param) || !slices.Equal(op.Outputs["MasterParamOut"], master) {
				continue
			}
			op.Inputs["Param"], op.Outputs["ParamOut"] = master, slices.Clone(master)
			delete(op.Inputs, "MasterParam")
			delete(op.Outputs, "MasterParamOut")
			op.SetAttr("multi_precision", false)
			copied := &Op{Type: "assign", Inputs: map[string][]string{"X": slices.Clone(master)}, Outputs: map[string][]string{"Out": param}}
			copied.SetRole(op.Role())
			if stack, ok := op.Attrs[AttrCallstack]; ok {
				copied.SetAttr(AttrCallstack, stack)
			}
			all = append(all, copied)
		}
		b.Ops = all
	}
}
