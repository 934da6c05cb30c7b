// Package plan compiles one block of a program for one set of feed shapes, and runs it. The result is a flat list of steps over memory that is
// laid out in advance.
//
// Compile calls the stages in this order. Each stage is a type that has what the stage needs and what it hands on (variable.go has the variables,
// which all stages share):
//
//	inference  infer.go     request -> variables, nodes: gives every variable its concrete dtype and dims, and a place where its value lives
//	paceOf     pace.go      variables, nodes -> pace: a plan that is too small to gain from workers is compiled for one
//	                        outline.go does so for the blocks that ops run. late.go makes blocks of ops whose dims are known only when they run
//	binder     bind.go      nodes -> pieces: binds each op to its tensors. An op becomes one kernel, or loops that can be divided.
//	                        A block that an op runs becomes a body (body.go), whose parts are compiled when they run with dims that are new.
//	                        The gradient of such a block runs on what its runs have left (reverse.go)
//	fuser      fuse.go      pieces -> fewer pieces: leaves out pieces that nobody needs. Copies share the elements of what they copy (views.go).
//	                        Products add biases, apply functions, and add their results to gradients that are summed
//	scheduler  step.go      pieces -> steps: joins loops that hand rows on to each other, and the updates of small parameters. Divides each
//	                        step into as many parts as it has work for
//	layout     memory.go    steps -> memory: finds which steps touch a temporary, writes outputs over inputs that nobody needs any more, and
//	                        packs the rest. Two temporaries may share memory if their lifetimes do not overlap
//	dataflow   dataflow.go  steps -> order: for runs on a pool, which steps must wait for which
//
// Resize gives a plan to feeds of other dims and lengths: again.go infers the types that change, and resize.go does again what follows from them.
//
// A run allocates nothing. feed.go sets the inputs. run.go runs one step after the other, and undoes a step that fails; finite.go looks for NaN and
// infinity before the update. pool.go runs on several workers; the trial in pace.go chooses between both ways. describe.go shows people what a plan
// does, and when each step ran.
//
// # Invariant
//
// Fusions, the division of steps and the number of workers change no bit of any result. Two rules ensure this:
//
//   - The ranges of a loop give the same bits in every order (ops.Loop; package gradcheck tests every op for it).
//   - Two steps that touch the same memory keep their order, unless both only read. Within a step, no iteration touches what another one writes.
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
	Feeds map[string]ops.Meta // variables that get their values from outside before each run, with dtype and concrete dims
	Fetch []string            // variables that are read after each run
	Keep  []string            // more of them, which need not be finite
	Scope Scope               // where persistable variables and variables of enclosing blocks live
	Env   ops.Env             // what kernels can reach; the plan replaces its Step by its own

	Workers     int           // of the Pool that will run the plan; 0 or 1 for none
	Grain       time.Duration // estimated time of a range that is worth a worker of its own; 0 divides everything that can be divided
	Weight      ops.Weight    // what a run weighs, for Step.Weight; the zero Weight for none
	CheckFinite bool          // end a training step with NotFinite before its update when the loss or a fetched variable is not finite
	Without     []Fusion      // fusions to leave out
	Store       *Store        // of the temporaries; nil for memory of the plan's own
	Memory      int64         // bytes that the plan may need; it is refused before if it needs more, also by Resize. 0 is no bound

	// Budget is that of the plan with the op that runs the block; Memory then counts for nothing. Nil: the plan gets one of Memory bytes.
	Budget *tensor.Budget

	Ops   []*program.Op                               // of the block, that are compiled; nil for all
	Given []ops.Missing                               // variables of the scope whose values, as they are now, the plan may depend on, or on the largest of them alone
	Waits func(op *program.Op, missing []ops.Missing) // is told of the op that the plan cannot be compiled for, because it lacks values; with Ops only

	LoD  bool                   // the plan may depend on the offsets of variables of the scope, as they are now
	Stay func(name string) bool // variables of the block that live in the scope, as do those that it does not declare; nil for none
}

// A Scope holds the values that outlive a run.
type Scope interface {
	// Find returns a variable that has a value.
	Find(name string) (*tensor.Tensor, bool)
	// Var returns the memory of a variable, and allocates it if there is none. It fails if the variable has another dtype or other dims.
	Var(name string, dtype tensor.DType, dims []int64) (*tensor.Tensor, error)
	// MarkReady records that variables have values from now on.
	MarkReady(names ...string)
}

// A Plan is a compiled block. One goroutine at a time may feed and run it.
type Plan struct {
	pieces  []*piece // of all steps, in their order
	steps   []step
	update  int // index of the first step that changes parameters or exchanges variables with other machines; len(steps) if there is none
	feeds   []feed
	fetched []*tensor.Tensor
	kept    []*tensor.Tensor
	written []string             // variables of the scope, sorted
	made    map[string][][]int64 // of them: the offsets that ops have made
	memory  Memory
	scope   Scope
	trace   *Trace // nil for none
	settled bool   // the scope knows that what a run writes has values
	trains  bool
	outside bool   // a run exchanges variables with other machines
	sources []feed // variables of the scope whose LoD others have
	values  []any  // of variables that are no tensors, which each run begins without
	undo    undo
	finite  finiteCheck

	step   ops.Step  // what env.Step of all kernels points to
	caller *ops.Step // the step of SetStep, which gets the weight, too
	weight weight
	env    ops.Env

	segments [2]segment // the steps before the update, and the rest
	trial    *trial     // nil unless it is uncertain whether the plan gains from a pool
	making   *making    // for Resize
}

// Memory says how much memory a plan uses, in bytes.
type Memory struct {
	Arena int64 // shared by temporaries and scratch, and with other plans of a Store
	Own   int64 // fetched and checked variables
	Sum   int64 // that temporaries and scratch would need without sharing
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

	if request.Store == nil {
		request.Store = NewStore()
	}
	room, err := newRoom(&request, variables, nodes)
	if err != nil {
		return nil, err
	}
	p := &Plan{scope: request.Scope, env: request.Env}
	p.env.Step, p.env.Workers = &p.step, workers
	var spaces spaces
	b := &binder{scope: request.Scope, env: &p.env, pace: pace, variables: variables, spaces: &spaces, store: request.Store,
		blanks: map[tensor.DType]*tensor.Tensor{}, block: request.Block, room: room, grain: request.Grain, tapes: &tapes{}}
	if err := b.bind(nodes); err != nil {
		return nil, err
	}
	f := &fuser{variables: variables, pieces: b.pieces, held: b.held, moving: request.Stay != nil}
	f.fuse(request.Without)
	sc := &scheduler{workers, request.Grain, request.Without}
	p.steps, p.update = sc.schedule(f.pieces)
	for _, s := range p.steps {
		p.pieces = append(p.pieces, s.pieces...)
	}
	l := &layout{variables: variables, pieces: p.pieces, steps: p.steps, held: b.held, spaces: &spaces, arenas: map[tensor.DType]*arena{},
		store: request.Store, room: room}
	if err := l.layOut(); err != nil {
		return nil, err
	}
	p.memory = l.memory
	clear(b.blanks) // which hold memory that the arenas do without

	p.values = *b.tapes
	p.connect(variables, &request)
	p.weight = newWeight(variables.named[request.Weight.Variable], request.Weight.Value)
	p.protect(nodes, inferred.checks)
	p.segments = [2]segment{{steps: p.steps[:p.update]}, {steps: p.steps[p.update:]}}
	p.making = &making{plan: p, in: inferred, binder: b, copies: f.copies, scheduler: sc, layout: l}
	if workers > 1 {
		p.trial = newTrial(p, request.Grain)
		p.order()
	}
	return p, nil
}

// order finds which steps must wait for which, for runs on a pool.
func (p *Plan) order() {
	m := p.making
	predecessors := hazards(p.steps, m.layout.spaces)
	p.segments[0].flow = newDataflow(p, m.scheduler.grain, predecessors, 0, p.update)
	p.segments[1].flow = newDataflow(p, m.scheduler.grain, predecessors, p.update, len(p.steps))
}

// connect lists the feeds, the fetched tensors and the variables of the scope that a run writes.
func (p *Plan) connect(variables *variables, request *Request) {
	for _, v := range variables.order {
		switch {
		case v.place == fed:
			p.feeds = append(p.feeds, newFeed(v, variables))
		case v.place == scoped && v.writer >= 0:
			p.written = append(p.written, v.name)
			if request.LoD && v.meta.LoD != nil {
				if p.made == nil {
					p.made = map[string][][]int64{}
				}
				p.made[v.name] = v.meta.LoD
			}
		}
		if v.place == scoped && v.meta.LoDLevel > 0 && v.meta.LoDOf == v.name {
			p.sources = append(p.sources, feed{value: v.tensor, followers: variables.followers(v)})
		}
		if v.value != nil {
			p.values = append(p.values, v.value)
		}
	}
	slices.Sort(p.written)
	for _, name := range request.Fetch {
		p.fetched = append(p.fetched, variables.named[name].tensor)
	}
	for _, name := range request.Keep {
		p.kept = append(p.kept, variables.named[name].tensor)
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

// Fetched returns the tensors of the request's Fetch, in its order. They are memory of the plan or of the scope, so the next run changes them.
func (p *Plan) Fetched() []*tensor.Tensor { return p.fetched }

// Kept is Fetched for what the request keeps.
func Kept(p *Plan) []*tensor.Tensor { return p.kept }

// Written returns the names of the scope's variables that a run writes, sorted.
func (p *Plan) Written() []string { return p.written }

// Trains reports whether a run changes parameters, or exchanges them with other machines.
func (p *Plan) Trains() bool { return p.trains }

// SetStep says which step the next run is. The run writes its weight to s.
func (p *Plan) SetStep(s *ops.Step) {
	s.Weight, s.Void = p.weight.rows, false
	p.step, p.caller = *s, s
}

// Memory returns what the plan uses.
func (p *Plan) Memory() Memory { return p.memory }

// Keep copies what a run writes before its update, for Restore. A run that trains does so by itself.
func (p *Plan) Keep() { p.undo.keep() }

// Restore gives the variables the values that they had at the last Keep. A second Restore does nothing.
func (p *Plan) Restore() { p.undo.restore() }

// Swap exchanges the values of the variables with those that Keep has copied, or that the last Swap has put aside. Several runs that begin with what the
// run before has written, while nobody else may see that, are Keep, run, Swap; then Swap, run, Swap; and so on.
func (p *Plan) Swap() { p.undo.swap() }

// Aside returns where Swap has put the value of t, if t is a variable that Keep has copied, and else t. Any plan of the same scope may have fetched t.
func (p *Plan) Aside(t *tensor.Tensor) *tensor.Tensor { return p.undo.aside(t) }
