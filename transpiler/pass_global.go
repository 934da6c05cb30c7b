package transpiler

import (
	"slices"

	"github.com/edl-go/edl/ops"
)

// normOp is the op whose result servers compute together: an exact sum of squares, whose parts may be merged in any order.
const normOp = "squared_l2_norm"

// findGlobalPart finds the scalars through which updates of different parameters meet. They start at norms and go on through
// ops on single numbers; global-norm clipping is the usual case. Such ops do not tie parameters together: servers exchange partial
// norms and each computes the scalars for itself. Ops that read a scalar, and what follows from these, are late.
//
// The learning-rate block runs after the global part, so what reads a rate counts as late too.
//
// A norm that is itself late would need a second exchange in the round. It is left an ordinary op of an update, which ties together, on
// one server, everything that it depends on.
func findGlobalPart(s *state) error {
	s.scalars, s.constants = map[string]bool{}, map[string]bool{}
	late, readLate := map[string]bool{}, map[string]bool{}
	isLate := func(name string) bool { return late[name] }
	for _, n := range s.updates() {
		switch {
		case s.makesConstant(n):
			n.duty = dutyConstant
			s.constants[n.writes[0]] = true
		case s.isScalarOp(n):
			n.duty = dutyScalar
			for _, name := range n.writes {
				s.scalars[name] = true
			}
		case n.op.Type == normOp && s.isTemporaryNumber(n) && !slices.ContainsFunc(n.reads, isLate) && !s.readsScalar(n):
			n.norm = true
			s.scalars[n.writes[0]] = true
		case s.readsScalar(n) || slices.ContainsFunc(n.reads, s.isRate) || slices.ContainsFunc(n.reads, isLate) || slices.ContainsFunc(n.writes, isLate) ||
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

// makesConstant reports whether n computes one number from nothing.
func (s *state) makesConstant(n *node) bool {
	return n.def.Class == ops.Compute && len(n.reads) == 0 && s.isTemporaryNumber(n)
}

// isScalarOp reports whether n computes numbers from norms and other numbers that every server can know.
func (s *state) isScalarOp(n *node) bool {
	return n.def.Class == ops.Compute && s.readsScalar(n) && s.isTemporaryNumber(n) &&
		!slices.ContainsFunc(n.reads, func(name string) bool { return !s.isShared(name) || s.isRate(name) || !s.isOne(name) })
}

func (s *state) readsScalar(n *node) bool {
	return slices.ContainsFunc(n.reads, func(name string) bool { return s.scalars[name] })
}

// isTemporaryNumber reports whether n writes one variable of one element, which no other op writes and which does not outlive
// the step.
func (s *state) isTemporaryNumber(n *node) bool {
	if len(n.writes) != 1 {
		return false
	}
	name := n.writes[0]
	return s.isOne(name) && !s.variable(name).Persistable && len(s.use(name).writers) == 1
}
