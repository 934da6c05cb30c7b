package transpiler

import "github.com/edl-go/edl/program"

// buildSave writes the program with which a trainer saves the model: it receives everything persistable that servers hold,
// joins slices, and writes each variable to a file of its own name, as a local run does. Of what each server or slice
// has a copy, one is taken. Variables that live on trainers are saved from there.
func buildSave(s *state) error {
	p := program.New()
	p.Startup = nil
	b := p.Global()
	g := &gather{controls: &controls{block: b, names: s.names}, role: program.RoleDist}
	var saves []*program.Op
	for _, v := range s.global().Vars() {
		if !v.Persistable || v.Kind != program.LoDTensor {
			continue
		}
		if parts := s.held.of(v.Name); parts != nil && (s.isReceived(v.Name) || !s.isOnTrainer(v.Name)) {
			local := v.Copy("")
			local.Persistable, local.IsParameter = false, false
			g.variable(&local, parts, "", nil, nil)
		} else {
			b.EnsureVar(v.Copy(""))
		}
		op := newOp("save", program.RoleForward, "", slots{"X": {v.Name}}, nil)
		op.SetAttr("file_path", v.Name)
		saves = append(saves, op)
	}
	b.Ops = append(g.ops(), saves...)
	s.result.Save = p
	return nil
}
