// Package plan compiles one block of a program for one set of feed shapes into a flat list of steps over memory that is
// laid out in advance, and runs it.
//
// Compiling goes through the files in this order:
//
//	infer.go     every variable gets its concrete dtype and dims, and a place where its value lives; feeds and their sequences
//	pace.go      a plan that is too small to gain from workers is compiled for one
//	bind.go      each op is bound to its tensors (compiler.go), and falls into pieces: a kernel that runs as a whole, or loops that can be cut
//	fuse.go      pieces that nobody needs are left out; copies share the elements of what they copy; products add biases, apply functions and add
//	             their results to the gradients that these are summed with
//	step.go      loops that hand rows on to each other become one step, and so do the updates of small parameters; each step is divided into as
//	             many parts as it has work for
//	memory.go    every temporary gets the interval of steps that touch it, and dying inputs are written over in place; temporaries are packed:
//	             two may share memory when their intervals do not meet; tensors get that memory
//	dataflow.go  for runs on a pool, the order that steps must keep, of data and of reused memory
//
// Running allocates nothing: run.go runs one step after the other and decides what is left of a step that fails, pool.go runs on several workers,
// and the trial in pace.go chooses between them. describe.go shows people what a plan does, and when each step ran.
//
// # The law
//
// What is fused, how steps are divided and how many workers there are changes no bit of any result. It rests on two things. The ranges of a loop
// give the bits of the whole in whatever order they run (ops.Loop, which gradcheck holds every op to). And every step that touches a piece of
// memory keeps its order to every other step that does, unless both only read; within a step, what one iteration writes no other
// touches.
package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
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

// A Plan is a compiled block. One goroutine at a time may feed and run it.
type Plan struct {
	pieces  []*piece
	steps   []step
	feeds   []feed
	fetched []*tensor.Tensor
	written []string // variables of the scope, sorted
	memory  Memory
	scope   Scope
	trace   *Trace // nil for none
	settled bool   // the scope knows that what a run writes has values
	trains  bool
	outside bool   // a run speaks to other machines
	kept    []kept // what Keep copies

	step ops.Step // what env.Step of all kernels points to
	env  ops.Env

	update   int         // index of the first step that changes parameters or speaks to other machines; len(steps) when there is none
	checks   []*variable // what must be finite
	dataflow []*dataflow // one per segment, nil unless the plan gains from a pool
	trial    *trial      // nil unless that is uncertain
}

// firstPiece returns the place of the first piece of a step.
func (p *Plan) firstPiece(step int) int {
	if step == len(p.steps) {
		return len(p.pieces)
	}
	return p.steps[step].first
}

type feed struct {
	name  string
	value *tensor.Tensor   // what kernels are bound to; it shares the elements of the tensor that was fed last
	views []*tensor.Tensor // copies that share them too

	sequences []int64     // of each LoD level
	followers []sequenced // what has its LoD
}

// Memory says what a plan allocated of its own, in bytes.
type Memory struct {
	Arena int64 // shared by temporaries and scratch
	Own   int64 // fetched and checked variables
	Sum   int64 // what temporaries and scratch would take without sharing
}

// Compile makes a plan. Errors are faults that name op, variable and line.
func Compile(request Request) (*Plan, error) {
	c := &compiler{Request: request, variables: map[string]*variable{}, blanks: map[tensor.DType]*tensor.Tensor{}, plan: &Plan{scope: request.Scope}}
	for _, phase := range []func() error{c.infer, c.chooseWorkers, c.bind, c.fuse, c.layOut, c.attach} {
		if err := phase(); err != nil {
			return nil, err
		}
	}
	p := c.plan
	c.cut()
	c.chooseKept()
	if p.env.Workers > 1 {
		p.trial = c.newTrial()
		predecessors := c.hazards()
		p.dataflow = []*dataflow{c.newDataflow(predecessors, 0, p.update), c.newDataflow(predecessors, p.update, len(p.steps))}
	}
	return p, nil
}

// Feed shares the elements of t with the variable name until the next Feed of it. Dtype, dims and the
// number of sequences must be those that the plan was compiled for. A name that the plan does not know is ignored.
func (p *Plan) Feed(name string, t *tensor.Tensor) error {
	for i := range p.feeds {
		f := &p.feeds[i]
		if f.name != name {
			continue
		}
		if t == nil || t.DType() != f.value.DType() || !slices.Equal(t.Dims(), f.value.Dims()) {
			return fault.E(fault.ShapeMismatch, fault.Var(name), fault.Got(fmt.Sprint(t)), fault.Want(f.value.String()))
		}
		if t.IsSelected() {
			return fault.E(fault.TypeMismatch, fault.Var(name), fault.Got(t.String()), fault.Want("a dense "+f.value.String()))
		}
		if err := f.checkSequences(t); err != nil {
			return err
		}
		for _, v := range f.views {
			if err := v.Share(t); err != nil {
				return err
			}
		}
		if err := f.value.Share(t); err != nil {
			return err
		}
		f.handOn(t)
		return nil
	}
	return nil
}

// Feeds returns the names of the variables that must be fed, sorted.
func (p *Plan) Feeds() []string {
	names := make([]string, len(p.feeds))
	for i, f := range p.feeds {
		names[i] = f.name
	}
	return names
}

// Fetched returns the tensors of the request's Fetch, in its order. They are the plan's or the scope's memory: a run changes them.
func (p *Plan) Fetched() []*tensor.Tensor { return p.fetched }

// Written returns the names of the scope's variables that a run writes, sorted.
func (p *Plan) Written() []string { return p.written }

// Trains reports whether a run changes parameters, or exchanges them with other machines.
func (p *Plan) Trains() bool { return p.trains }

// SetStep says which step the next run is.
func (p *Plan) SetStep(s ops.Step) { p.step = s }

// Memory returns what the plan allocated.
func (p *Plan) Memory() Memory { return p.memory }
