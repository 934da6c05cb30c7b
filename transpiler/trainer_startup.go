package transpiler

import "github.com/edl-go/edl/program"

// buildTrainerStartup writes the program that initializes a trainer. It receives parameters and forward state, so that all trainers begin with the
// values of the servers. Other variables are computed as in the user's startup program. Values that would be overwritten are not computed.
func buildTrainerStartup(s *state) error {
	var own []string
	if s.source.Startup != nil {
		for _, v := range s.source.Startup.Global().Vars() {
			mine, ok := s.result.Trainer.Global().Var(v.Name)
			if ok && !s.isReceived(v.Name) && (mine.Persistable || mine.Kind != program.LoDTensor) && isOnTrainer(s, v.Name) {
				own = append(own, v.Name)
			}
		}
	}
	startup, err := startupOf(s, own)
	if err != nil {
		return err
	}
	g := &gather{controls: &controls{block: startup.Global(), names: s.names}, role: program.RoleDist}
	for _, group := range s.groups {
		for _, param := range group.params {
			g.variable(s.variable(param), s.serverVars.of(param), group.ops[0].op.Line(), nil, nil)
		}
	}
	for _, f := range s.forward {
		g.variable(s.variable(f.name), s.serverVars.of(f.name), lastProducer(s, f.name).op.Line(), nil, nil)
	}
	b := startup.Global()
	b.Ops = append(b.Ops, g.ops()...)
	s.result.Trainer.Startup = startup
	return nil
}

// isReceived reports whether trainers receive the variable in every step because it changes.
func (s *state) isReceived(name string) bool {
	return forwardStateOf(s, name) != nil || by(s.use(name).writers, dutyUpdate) && s.isParameter(name)
}

// startupOf returns the part of the user's startup program that computes the given variables.
func startupOf(s *state, names []string) (*program.Program, error) {
	if s.source.Startup == nil || len(names) == 0 {
		return program.NewStartup(), nil
	}
	return s.source.Startup.Prune(names...)
}

// buildSave writes the program with which a trainer saves the model. It receives every persistable variable of the servers, joins slices, and
// writes each variable to a file named after it, as a local run does. If several servers have a copy, it receives one. Variables of trainers are
// saved from the trainer.
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
		if parts := s.serverVars.of(v.Name); parts != nil && (s.isReceived(v.Name) || !isOnTrainer(s, v.Name)) {
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
