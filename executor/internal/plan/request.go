package plan

import (
	"time"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Request says what to compile.
type Request struct {
	Block *program.Block
	Feeds map[string]ops.Meta // variables that get their values from outside before each run; dtype and concrete dims
	Fetch []string            // variables that are read after each run
	Scope Scope               // where persistable variables and variables of enclosing blocks live
	Env   ops.Env             // what kernels reach; its Step is replaced by the plan's own

	Workers     int           // of the Pool that will run the plan; 0 or 1 for none
	Grain       time.Duration // estimated time of a range that is worth a worker of its own; 0 divides whatever can be divided
	CheckFinite bool          // end a training step with NotFinite before its update when the loss or a fetched variable is not finite
	Without     []Fusion      // fusions to leave out
}

// A Scope holds the values that outlive a run.
type Scope interface {
	// Find returns a variable that has a value.
	Find(name string) (*tensor.Tensor, bool)
	// Var returns the memory of a variable, allocating it when there is none. It fails when there is some of another dtype or other dims.
	Var(name string, dtype tensor.DType, dims []int64) (*tensor.Tensor, error)
	// MarkReady records that variables have values from now on.
	MarkReady(names ...string)
}
