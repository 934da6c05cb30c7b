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
	"slices"
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

// A Plan is a compiled block. One goroutine at a time may feed and run it.
type Plan struct {
	pieces  []*piece // of all steps, in their order
	steps   []step
	update  int // index of the first step that changes parameters or speaks to other machines; len(steps) when there is none
	feeds   []feed
	fetched []*tensor.Tensor
	written []string // variables of the scope, sorted
	memory  Memory
	scope   Scope
	trace   *Trace // nil for none
	settled bool   // the scope knows that what a run writes has values
	trains  bool
	outside bool // a run speaks to other machines
	undo    undo
	finite  finiteCheck

	step ops.Step // what env.Step of all kernels points to
	env  ops.Env

	segments [2]segment // the steps before the update, and the rest
	trial    *trial     // nil unless it is uncertain whether the plan gains from a pool
}

// Memory says what a plan allocated of its own, in bytes.
type Memory struct {
	Arena int64 // shared by temporaries and scratch
	Own   int64 // fetched and checked variables
	Sum   int64 // what temporaries and scratch would take without sharing
}

// Compile makes a plan. Errors are faults that name op, variable and line.
func Compile(request Request) (*Plan, error) {
	inferred, err := infer(&request)
	if err != nil {
		return nil, err
	}
	variables, nodes := inferred.variables, inferred.nodes
	pace, nanos := paceOf(variables, nodes)
	workers := max(1, request.Workers)
	if nanos < smallestPlan*float64(request.Grain) {
		workers = 1
	}

	p := &Plan{scope: request.Scope, env: request.Env}
	p.env.Step, p.env.Workers = &p.step, workers
	var spaces spaces
	b := &binder{scope: request.Scope, env: &p.env, pace: pace, variables: variables, spaces: &spaces, blanks: map[tensor.DType]*tensor.Tensor{}}
	if err := b.bind(nodes); err != nil {
		return nil, err
	}
	f := &fuser{variables, b.pieces}
	f.fuse(request.Without)
	p.steps, p.update = (&scheduler{workers, request.Grain, request.Without}).schedule(f.pieces)
	for _, s := range p.steps {
		p.pieces = append(p.pieces, s.pieces...)
	}
	l := &layout{variables: variables, pieces: p.pieces, steps: p.steps, spaces: &spaces, arenas: map[tensor.DType]*arena{}}
	if err := l.layOut(); err != nil {
		return nil, err
	}
	p.memory = l.memory

	p.connect(variables, request.Fetch)
	p.protect(nodes, inferred.checks)
	p.segments = [2]segment{{steps: p.steps[:p.update]}, {steps: p.steps[p.update:]}}
	if workers > 1 {
		p.trial = newTrial(p, request.Grain)
		predecessors := hazards(p.steps, &spaces)
		p.segments[0].flow = newDataflow(p, request.Grain, predecessors, 0, p.update)
		p.segments[1].flow = newDataflow(p, request.Grain, predecessors, p.update, len(p.steps))
	}
	return p, nil
}

// connect finds out what comes into a run and what comes out of it.
func (p *Plan) connect(variables *variables, fetch []string) {
	for _, v := range variables.order {
		switch {
		case v.place == fed:
			p.feeds = append(p.feeds, newFeed(v, variables))
		case v.place == scoped && v.writer >= 0:
			p.written = append(p.written, v.name)
		}
	}
	slices.Sort(p.written)
	for _, name := range fetch {
		p.fetched = append(p.fetched, variables.named[name].tensor)
	}
}

// protect finds out whether the plan trains, what must be finite before its update, and what a run that fails must undo.
func (p *Plan) protect(nodes []node, checks []*variable) {
	for _, n := range nodes {
		p.outside = p.outside || n.def.Class == ops.Dist || n.def.Class == ops.Serve
		p.trains = p.trains || n.op.Role().Has(program.RoleOptimize)
	}
	p.trains = p.trains || p.outside
	update := len(p.pieces)
	if p.update < len(p.steps) {
		update = p.steps[p.update].first
	}
	p.finite = finiteCheck{variables: checks, pieces: p.pieces, update: update, feeds: p.feeds, step: &p.step}
	if !p.outside {
		p.undo = newUndo(p.scope, p.pieces[:update])
	}
}

// Feed shares the elements of t with the variable name until the next Feed of it. Dtype, dims and the
// number of sequences must be those that the plan was compiled for. A name that the plan does not know is ignored.
func (p *Plan) Feed(name string, t *tensor.Tensor) error {
	for i := range p.feeds {
		if f := &p.feeds[i]; f.name == name {
			return f.set(t)
		}
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

// Keep copies what a run writes before its update, for Restore. A run that trains does so by itself.
func (p *Plan) Keep() { p.undo.keep() }

// Restore gives the variables the values that they had at the last Keep. A second Restore does nothing.
func (p *Plan) Restore() { p.undo.restore() }
