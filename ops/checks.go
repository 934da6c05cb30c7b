package ops

// A Check is a check that tests make of every op of the registry (ops/gradcheck, internal/lawcheck), so that no op lacks one unnoticed. They also draw hostile slots, dims, types and attributes
// for every op, which need no reason to be left out.
type Check string

// Checks of every op.
const (
	CheckGradient Check = "gradient" // the gradient, where the op has one, equals central differences
	CheckLaw      Check = "law"      // a model with the op has on clusters the bits of the reference executor
)

// RowsOfData exempts ops without gradient of class Control that write as many rows as their data says.
var RowsOfData = map[Check]string{CheckLaw: "it writes as many rows as its data says, and no gradient flows through it: no loss of a cluster can depend on them"}

// known reports whether c is one of the checks above.
func (c Check) known() bool { return c == CheckGradient || c == CheckLaw }
