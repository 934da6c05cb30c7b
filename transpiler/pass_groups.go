package transpiler

import "slices"

// formGroups joins update ops that share a variable, with union-find, and sorts the variables of each group by what they
// are. Ops that have nothing to do with any parameter, such as a step counter, join the learning-rate block.
func formGroups(s *state) error {
	updates := s.updates()
	parent := make([]int, len(updates))
	for i := range parent {
		parent[i] = i
	}
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	owner := map[string]int{}
	for i, n := range updates {
		for _, name := range slices.Concat(n.reads, n.writes) {
			if s.isShared(name) {
				continue
			}
			if first, ok := owner[name]; ok {
				a, b := root(first), root(i)
				parent[max(a, b)] = min(a, b)
			} else {
				owner[name] = i
			}
		}
	}
	byRoot := map[int]*group{}
	for i, n := range updates {
		r := root(i)
		if byRoot[r] == nil {
			byRoot[r] = &group{}
			s.groups = append(s.groups, byRoot[r])
		}
		n.group = byRoot[r]
		n.group.ops = append(n.group.ops, n)
	}
	s.moveCounters()
	order := map[string]int{}
	for i, v := range s.global().Vars() {
		order[v.Name] = i
	}
	for _, g := range s.groups {
		s.sortVariables(g, order)
	}
	return nil
}

// moveCounters gives groups that neither trainers feed nor norms reach to the learning-rate block, which runs once per round too.
func (s *state) moveCounters() {
	s.groups = slices.DeleteFunc(s.groups, func(g *group) bool {
		for _, n := range g.ops {
			if n.norm || n.late {
				return false
			}
			for _, name := range slices.Concat(n.reads, n.writes) {
				if use := s.use(name); s.isParameter(name) || by(use.writers, dutyTrainer) {
					return false
				}
			}
		}
		for _, n := range g.ops {
			n.duty, n.group = dutyRate, nil
		}
		return true
	})
}

// sortVariables fills the lists of variables of a group. order gives the position of each declaration.
func (s *state) sortVariables(g *group, order map[string]int) {
	seen := map[string]bool{}
	for _, n := range g.ops {
		for _, name := range slices.Concat(n.reads, n.writes) {
			if seen[name] {
				continue
			}
			seen[name] = true
			v, use := s.variable(name), s.use(name)
			switch {
			case by(use.writers, dutyTrainer):
				g.contributions = append(g.contributions, name)
			case s.scalars[name] || s.constants[name] || s.isRate(name):
			case s.isFixed(name):
				g.fixed = append(g.fixed, name)
			case s.isParameter(name):
				g.params = append(g.params, name)
			case v.Persistable:
				g.accumulators = append(g.accumulators, name)
			default:
				g.temporaries = append(g.temporaries, name)
			}
		}
	}
	for _, names := range [][]string{g.params, g.accumulators, g.fixed} {
		slices.SortFunc(names, func(a, b string) int { return order[a] - order[b] })
	}
	slices.SortFunc(g.contributions, func(a, b string) int { return s.lastProducer(a).at - s.lastProducer(b).at })
	g.paramOf = map[string]string{}
	for _, c := range g.contributions {
		g.paramOf[c] = g.parameter(c, s.lastProducer(c))
	}
}

// lastProducer returns the last trainer op that writes a variable.
func (s *state) lastProducer(name string) *node {
	writers := s.use(name).writers
	for i := len(writers) - 1; i >= 0; i-- {
		if writers[i].duty == dutyTrainer {
			return writers[i]
		}
	}
	return nil
}
