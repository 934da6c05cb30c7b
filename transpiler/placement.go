package transpiler

// Placement says which server holds what.
type Placement struct {
	Slices []Slice // parameters in the order of the program, their slices in order of rows; then forward state
	Loads  []Load  // one per server, in order
}

// Whole is the Block of a variable that is not sliced.
const Whole = -1

// A Slice is a run of rows of a parameter, or of state that the forward pass updates, that one server holds. A parameter, its gradient
// and its accumulators are cut alike.
type Slice struct {
	Param    string // variable of the user's program
	Grad     string // its contribution: the gradient, or the variable itself for forward state; empty where none reaches the server
	Block    int    // number of the slice, Whole when the variable is not sliced
	Name     string // of the slice at the server
	GradName string // of the contribution at the server
	FirstRow int64
	Rows     int64 // 1 for a variable of rank 0
	Server   int
	Bytes    int64 // of the slice and of the accumulators that go with it
}

// A Load is what one server holds.
type Load struct {
	Server int
	Bytes  int64 // sum over Slices
	Slices int
}

// Of returns the slices of one variable, in order of rows.
func (p Placement) Of(variable string) []Slice {
	var slices []Slice
	for _, s := range p.Slices {
		if s.Param == variable {
			slices = append(slices, s)
		}
	}
	return slices
}
