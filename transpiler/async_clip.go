package transpiler

import "slices"

// keepClipping leaves the global part on trainers, where each contribution is clipped by itself, since in async mode servers have no
// round in which to combine norms. What stays: norms, the scalars that follow, ops that read a scalar (they scale gradients), and
// every update op that one of these depends on. What they yield for the rest of the update becomes the contribution.
func keepClipping(s *state) error {
	var kept []*node
	keep := func(n *node) {
		n.duty, n.norm, n.late = dutyTrainer, false, false
		kept = append(kept, n)
	}
	for _, n := range s.nodes {
		if n.duty == dutyScalar || n.norm || n.duty == dutyUpdate && s.readsScalar(n) {
			keep(n)
		}
	}
	for i := 0; i < len(kept); i++ {
		for _, name := range kept[i].reads {
			for _, w := range s.use(name).writers {
				if w.duty == dutyUpdate && w.at < kept[i].at && !s.variable(name).Persistable {
					keep(w)
				}
			}
		}
	}
	for _, n := range s.nodes {
		n.late = false
	}
	s.scalars = map[string]bool{}
	for _, n := range kept {
		if err := s.checkKept(n); err != nil {
			return err
		}
	}
	return nil
}

// checkKept checks that trainers have what a clipping op reads, and that it changes nothing that lives on servers.
func (s *state) checkKept(n *node) error {
	for _, name := range n.writes {
		if s.variable(name).Persistable {
			return unsupported(n, name, "an update that reads the norm of gradients", "clipping that yields gradients",
				"use sync mode, or clip before the optimizer's own op")
		}
	}
	for _, name := range n.reads {
		onServers := slices.ContainsFunc(s.use(name).writers, func(w *node) bool { return w.duty != dutyTrainer && w.duty != dutyConstant })
		if onServers && !s.isParameter(name) {
			return unsupported(n, name, "clipping that reads a variable that lives on servers", "clipping by gradients and parameters", "use sync mode")
		}
	}
	return nil
}

// isParameter reports whether a variable that updates write is a parameter: trainers receive its new value every step. Other
// persistable variables that updates write are accumulators, which only servers know.
func (s *state) isParameter(name string) bool {
	v := s.variable(name)
	return v.Persistable && (v.IsParameter || by(s.use(name).readers, dutyTrainer))
}
