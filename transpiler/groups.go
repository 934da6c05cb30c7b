package transpiler

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// formGroups joins update ops that share a variable, by union-find, and sorts the variables of each group by kind. Ops that have nothing to do with
// a parameter, such as a step counter, go to the learning-rate block.
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
	moveCounters(s)
	order := map[string]int{}
	for i, v := range s.global().Vars() {
		order[v.Name] = i
	}
	for _, g := range s.groups {
		sortVariables(s, g, order)
	}
	return nil
}

// moveCounters moves groups without contributions and norms to the learning-rate block, which also runs once per round.
func moveCounters(s *state) {
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
func sortVariables(s *state, g *group, order map[string]int) {
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
	slices.SortFunc(g.contributions, func(a, b string) int { return lastProducer(s, a).at - lastProducer(s, b).at })
	g.paramOf = map[string]string{}
	for _, c := range g.contributions {
		g.paramOf[c] = g.parameter(c, lastProducer(s, c))
	}
}

// lastProducer returns the last trainer op that writes a variable.
func lastProducer(s *state, name string) *node {
	writers := s.use(name).writers
	for i := len(writers) - 1; i >= 0; i-- {
		if writers[i].duty == dutyTrainer {
			return writers[i]
		}
	}
	return nil
}

// A group is the smallest set of update ops that must run on one server: ops that share a variable which servers cannot each have a copy of.
// Usually it holds the clipping, regularization and optimizer ops of one parameter.
type group struct {
	ops           []*node  // in order
	params        []string // parameters that it updates, in the order of the program's declarations
	accumulators  []string // other persistable variables that it writes, in the same order
	fixed         []string // persistable variables that it only reads, in the same order
	contributions []string // the gradients that trainers send, in the order of their last producers
	temporaries   []string // its other variables, in order of first use

	paramOf map[string]string // contribution -> the parameter whose gradient it is
}

// parameter returns the parameter whose gradient a contribution is, "" if the program does not say. producer is the op that computes the
// contribution.
func (g *group) parameter(contribution string, producer *node) string {
	for _, n := range g.ops {
		for _, pair := range n.op.RoleVars() {
			if pair[1] == contribution && slices.Contains(g.params, pair[0]) {
				return pair[0]
			}
		}
	}
	if len(g.params) == 1 {
		return g.params[0]
	}
	for _, name := range g.params {
		if program.GradName(name) == contribution {
			return name
		}
	}
	if pairs := producer.op.RoleVars(); len(pairs) == 1 && slices.Contains(g.params, pairs[0][0]) {
		return pairs[0][0]
	}
	return ""
}

// gradientOf returns the contribution of a parameter, or "".
func (g *group) gradientOf(param string) string {
	for _, c := range g.contributions {
		if g.paramOf[c] == param {
			return c
		}
	}
	return ""
}

// norms returns the ops of the group whose results all servers combine.
func (g *group) norms() []*node {
	var norms []*node
	for _, n := range g.ops {
		if n.norm {
			norms = append(norms, n)
		}
	}
	return norms
}

// prepare splits the ops of a group in two: the ops before the exchange of norms, and the update. Both keep their order. An op that is not late commutes with
// late ops, so the split does not change results. What makes a sparse gradient is in both, because rows outlive no block.
func (g *group) prepare(s *state) (before, update []*node) {
	last := -1
	for i, n := range g.ops {
		if n.norm {
			last = i
		}
	}
	for i, n := range g.ops {
		early := i <= last && !n.late
		if early {
			before = append(before, n)
		}
		if !early || isRows(s, n) {
			update = append(update, n)
		}
	}
	return before, update
}

// normOp is the op whose result servers compute together: an exact sum of squares. Servers may merge its parts in any order.
const normOp = "squared_l2_norm"

// findGlobalPart finds the scalars that connect updates of different parameters, as in global-norm clipping. They start at norms and continue
// through ops on single numbers. Such ops do not force parameters onto one server: servers exchange partial norms, and each computes the scalars
// itself. Ops that read such a scalar, and all that depend on them, are late.
//
// The learning-rate block runs after the global part, so ops that read a rate are late, too.
//
// A norm that is itself late would need a second exchange in the round. It stays an ordinary op of an update and forces everything that it depends
// on onto one server.
func findGlobalPart(s *state) error {
	s.scalars, s.constants = map[string]bool{}, map[string]bool{}
	late, readLate := map[string]bool{}, map[string]bool{}
	isLate := func(name string) bool { return late[name] }
	for _, n := range s.updates() {
		switch {
		case makesConstant(s, n):
			n.duty = dutyConstant
			s.constants[n.writes[0]] = true
		case isScalarOp(s, n):
			n.duty = dutyScalar
			for _, name := range n.writes {
				s.scalars[name] = true
			}
		case n.op.Type == normOp && isTemporaryNumber(s, n) && !slices.ContainsFunc(n.reads, isLate) && !readsScalar(s, n):
			n.norm = true
			s.scalars[n.writes[0]] = true
		case readsScalar(s, n) || slices.ContainsFunc(n.reads, s.isRate) || slices.ContainsFunc(n.reads, isLate) || slices.ContainsFunc(n.writes, isLate) ||
			slices.ContainsFunc(n.writes, func(name string) bool { return readLate[name] }):
			n.late = true
			for _, name := range n.writes {
				late[name] = true
			}
			for _, name := range n.reads {
				readLate[name] = true
			}
		}
	}
	if s.cfg.Mode == Async {
		return keepClipping(s)
	}
	return nil
}

// makesConstant reports whether n computes one number without inputs.
func makesConstant(s *state, n *node) bool {
	return n.def.Class == ops.Compute && len(n.reads) == 0 && isTemporaryNumber(s, n)
}

// isScalarOp reports whether n computes numbers only from norms and from numbers that every server can compute.
func isScalarOp(s *state, n *node) bool {
	return n.def.Class == ops.Compute && readsScalar(s, n) && isTemporaryNumber(s, n) &&
		!slices.ContainsFunc(n.reads, func(name string) bool { return !s.isShared(name) || s.isRate(name) || !s.isOne(name) })
}

func readsScalar(s *state, n *node) bool {
	return slices.ContainsFunc(n.reads, func(name string) bool { return s.scalars[name] })
}

// isTemporaryNumber reports whether n writes one variable of one element, which no other op writes and which is not persistable.
func isTemporaryNumber(s *state, n *node) bool {
	if len(n.writes) != 1 {
		return false
	}
	name := n.writes[0]
	return s.isOne(name) && !s.variable(name).Persistable && len(s.use(name).writers) == 1
}
