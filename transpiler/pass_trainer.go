package transpiler

import (
	"slices"

	"github.com/edl-go/edl/program"
)

// buildTrainer writes the program that all trainers run: the user's without its update, with a send after the last producer
// of each contribution, and with one exchange of contributions for new parameters where the last update was.
//
// Fluid renames gradients by trainer and averages with a constant; here trainers have one program and servers weight by
// rows, so neither name nor number of a trainer stands in it.
func buildTrainer(s *state) error {
	t := s.source.Clone()
	t.Startup = program.NewStartup()
	b := t.Global()
	w := newTrainerWriter(s, b)
	originals := b.Ops
	b.Ops = nil
	last := s.exchangeAt()
	for i, n := range s.nodes {
		if s.staysOnTrainer(n) {
			op := b.Append(originals[i])
			if op.Role().Has(program.RoleOptimize) {
				op.SetRole(program.RoleBackward)
			}
		}
		if err := w.sendsAfter(n); err != nil {
			return err
		}
		if n.at == last {
			w.exchange()
		}
	}
	s.dropServerVars(b)
	s.result.Trainer = t
	return nil
}

// staysOnTrainer reports whether a trainer runs the op. A constant that clipping on the trainer reads is made there too.
func (s *state) staysOnTrainer(n *node) bool {
	return n.duty == dutyTrainer || n.duty == dutyConstant && by(s.use(n.writes[0]).readers, dutyTrainer)
}

// exchangeAt returns the position of the op after which trainers exchange contributions for new parameters: the last one that
// updates or contributes anything, -1 when nothing lives on servers.
func (s *state) exchangeAt() int {
	last := -1
	for _, n := range s.nodes {
		if n.duty != dutyTrainer {
			last = n.at
		}
	}
	for _, f := range s.forward {
		last = max(last, s.lastProducer(f.name).at)
	}
	return last
}

// dropServerVars removes what only ops of servers name.
func (s *state) dropServerVars(b *program.Block) {
	for name := range s.uses {
		if !s.isOnTrainer(name) && !slices.ContainsFunc(s.fetched, func(f fetched) bool { return f.declaration.Name == name }) {
			b.RemoveVar(name)
		}
	}
}

// unitsOf returns the units of a group, in order of rows.
func (s *state) unitsOf(g *group) []*unit {
	return slices.DeleteFunc(slices.Clone(s.units), func(u *unit) bool { return u.group != g })
}
