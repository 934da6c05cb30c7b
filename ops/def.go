// Package ops is the contract that every operator fulfils, the registry of all of them, and the rules of the IR that follow.
//
// An op is registered whole, in one place: its slots and attributes, how shapes follow, how its gradient is built, what it
// costs, how its state merges when several trainers compute it, its kernel, and its documentation. The families live in
// sub-packages (math, nn, random, optim, reader, comm); importing package ops/all registers all of them. Numeric loops
// live in ops/kernel and know only slices.
//
// The life of an op: the DSL appends it and Infer gives its outputs their shapes; Verify checks it, also when the bytes came
// from outside; Gradient writes the ops that propagate gradients; the executor calls Bind once per plan, when every shape and buffer is
// known, and then runs the Kernel that Bind returned once per step. Running allocates nothing.
package ops

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/program"
)

// A Def is the whole of one op.
type Def struct {
	Type    string // name in programs, Fluid's where Fluid has the op
	Class   Class
	Doc     string // what it computes, with the formula; the first sentence is the summary
	Inputs  []Slot
	Outputs []Slot
	Attrs   []Attr

	// Infer sets dtype and dims of every output from the inputs and attributes. Slots and attributes have been checked
	// against the lists above when it is called. Dims of program.Unknown stand for any extent.
	Infer func(*Shapes) error

	// Gradient returns the ops that compute the gradients of the inputs, in order. Nil means that none flows through.
	Gradient func(*Grad) ([]*program.Op, error)

	// Cost estimates the work of one run; nil means that only the bytes of inputs and outputs count.
	Cost func(*Shapes) Cost

	// Bind prepares the kernel for the shapes and buffers at hand. Nil is allowed for an op that an executor handles itself
	// (Class Feed and Class Read).
	Bind func(*Binding) (Kernel, error)

	// RowSliced says that computing rows [a, b) of axis 0 of every parameter-shaped argument gives exactly the bits of
	// those rows of the whole. The transpiler slices a parameter over servers only when its update consists of such ops.
	RowSliced bool

	// InPlace names output slots that may share the buffer of an input slot: output -> input.
	InPlace map[string]string

	// State lists the outputs that a forward pass writes into persistable variables, and how those of several trainers become one.
	State map[string]Merge

	// HoldsInputs says that the inputs are still read after the kernel returned, until the barrier that follows.
	HoldsInputs bool
}

// A Kernel runs the op once on the buffers that it was bound to. It is called by one goroutine at a time, returns promptly when ctx ends
// where it can block, and allocates nothing.
type Kernel func(ctx context.Context) error

// A Class says what sort of thing an op is; the stage table (stage.go) says which classes are legal where.
type Class int

// Classes of ops.
const (
	Compute  Class = iota // pure function of its inputs
	Backward              // gradient of a Compute op
	Random                // depends on seed and position too
	Optimize              // updates a parameter in place
	Feed                  // feed and fetch: the border of the program
	Read                  // readers and their decorators
	Dist                  // send, recv and barriers
	Serve                 // listen_and_serv
	FileIO                // save and load
)

// A Slot is a named list of variables.
type Slot struct {
	Name        string
	Doc         string
	Duplicable  bool // takes any number of variables
	Dispensable bool // may be absent
	// Intermediate marks an output that only the gradient needs; it may be absent in a program for inference.
	Intermediate bool
	// Rows says that a variable here may hold a sparse gradient too (program.SelectedRows). Elsewhere it is refused, so that no kernel takes
	// a few rows for the whole.
	Rows bool
}

// An Attr is an attribute with its default and check.
type Attr struct {
	Name    string
	Doc     string
	Default program.Attr               // its Go type is the attribute's type; see Kind for a required one
	Kind    program.Attr               // for a required attribute: a zero value of its type; then Default is nil
	Check   func(op *program.Op) error // nil: any value of the type
}

// Merge says how the values that several trainers computed for one variable become one.
type Merge int

// Ways to merge.
const (
	MergeNone  Merge = iota
	MergeMean        // mean weighted by rows: gradients of a mean loss, moving statistics
	MergeSum         // sum of contributions: gradients of a summed loss; for state, the sum of the changes
	MergeFirst       // that of the first trainer that has rows: state that does not depend on them
)

// Cost estimates one run of an op.
type Cost struct {
	Flops int64 // floating-point operations
	Bytes int64 // bytes read and written
}

// String names the class as it stands in this package.
func (c Class) String() string {
	names := [...]string{"Compute", "Backward", "Random", "Optimize", "Feed", "Read", "Dist", "Serve", "FileIO"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("class %d", int(c))
	}
	return names[c]
}

var registry = map[string]*Def{}

// Register adds an op. It is called from init functions and panics on a duplicate or on a missing part, because a build
// with a broken registry must not start.
func Register(d Def) {
	if d.Type == "" || d.Doc == "" {
		panic("ops: an op without type or documentation: " + d.Type)
	}
	if _, ok := registry[d.Type]; ok {
		panic("ops: registered twice: " + d.Type)
	}
	if d.Infer == nil {
		panic("ops: no shape inference: " + d.Type)
	}
	if d.Bind == nil && d.Class != Feed && d.Class != Read {
		panic("ops: no kernel: " + d.Type)
	}
	seen := map[string]bool{}
	for _, s := range slices.Concat(d.Inputs, d.Outputs) {
		if s.Name == "" {
			panic("ops: a slot without name: " + d.Type)
		}
	}
	for _, a := range d.Attrs {
		if a.Name == "" || seen[a.Name] || (a.Default == nil) == (a.Kind == nil) {
			panic(fmt.Sprintf("ops: attribute %q of %s: a unique name and either a default or a kind", a.Name, d.Type))
		}
		seen[a.Name] = true
	}
	registry[d.Type] = &d
}

// Lookup returns the op of a type.
func Lookup(opType string) (*Def, bool) {
	d, ok := registry[opType]
	return d, ok
}

// All returns every registered op, sorted by type.
func All() []*Def {
	defs := make([]*Def, 0, len(registry))
	for _, t := range slices.Sorted(maps.Keys(registry)) {
		defs = append(defs, registry[t])
	}
	return defs
}

// Fingerprint identifies the set of registered ops with their slots and attributes. Both ends of a connection compare it: programs
// travel only between equal registries.
func Fingerprint() string {
	h := sha256.New()
	for _, d := range All() {
		fmt.Fprintf(h, "%s %d\n", d.Type, d.Class)
		for _, s := range d.Inputs {
			fmt.Fprintf(h, " <%s %t %t\n", s.Name, s.Duplicable, s.Dispensable)
		}
		for _, s := range d.Outputs {
			fmt.Fprintf(h, " >%s %t %t\n", s.Name, s.Duplicable, s.Dispensable)
		}
		for _, a := range d.Attrs {
			fmt.Fprintf(h, " =%s %T %v\n", a.Name, a.zero(), a.Default)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// zero returns a value of the attribute's type.
func (a Attr) zero() any {
	if a.Default != nil {
		return a.Default
	}
	return a.Kind
}
