package layers

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A StaticRNN computes a recurrent network of your own over sequences of one length. The steps are the rows of its step inputs, whose dims are [steps, batch, ...].
//
//	rnn := layers.NewStaticRNN(m)
//	rnn.Block(func() {
//		word := rnn.StepInput(words) // [batch, 64] of words [steps, batch, 64]
//		before := rnn.Memory([]int64{128}, 0)
//		now := layers.FCs([]layers.Variable{word, before}, 128, layers.Act("tanh"))
//		rnn.UpdateMemory(before, now)
//		rnn.Output(now)
//	})
//	states := rnn.Result() // [steps, batch, 128]
//
// A batch has its records along axis 0, so transpose it before, and what the loss needs after the network (Transpose).
type StaticRNN struct {
	l        *layer
	outer    *program.Block // where the network stands
	inner    *program.Block // of a step; nil outside of Block
	used     bool
	reverse  bool
	inputs   []Variable // outside; of the same names inside
	memories []staticMemory
	outputs  []Variable // inside
	results  []Variable // outside; of the names of outputs
}

// A staticMemory is what a step leaves to the next one.
type staticMemory struct {
	initial, value, next Variable
}

// NewStaticRNN begins a network. With Reverse it takes the last step first.
//
// Options: Name, Reverse. Op: recurrent.
func NewStaticRNN(m *Model, opts ...Option) *StaticRNN {
	l := begin(m, "static_rnn", opts, "Reverse")
	return &StaticRNN{l: l, reverse: l.reverse}
}

// Block runs step, which appends what a step computes. Call it once.
func (r *StaticRNN) Block(step func()) {
	l := r.l
	if l.failed {
		return
	}
	if r.used {
		l.mistake(fault.E(fault.InvalidArgument, fault.Got("a second block of a step"), fault.Want("one")))
		return
	}
	r.used, r.outer = true, l.model.current()
	r.inner = l.model.main.NewBlock(r.outer)
	l.model.Within(r.inner, func() {
		step()
		r.leave()
	})
	block := r.inner
	r.inner = nil
	if !l.failed && (len(r.inputs) == 0 || len(r.outputs) == 0) {
		l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("a network of %d step inputs and %d outputs", len(r.inputs), len(r.outputs)),
			fault.Want("StepInput, which tells the steps, and Output")))
	}
	r.append(block)
}

// leave copies at the end of a step what the next one begins with.
func (r *StaticRNN) leave() {
	for i := range r.memories {
		m := &r.memories[i]
		if m.next.model == nil && !r.l.failed {
			r.l.mistake(fault.E(fault.InvalidArgument, fault.Var(m.value.Name()), fault.Got("a memory that no step changes"), fault.Want("UpdateMemory")))
		}
		m.next = r.helper(m.next)
	}
}

func (r *StaticRNN) helper(x Variable) Variable {
	return r.l.op("rnn_memory_helper", In{"X": {x}}, Attrs{"dtype": x.DType()}, "Out")
}

// append appends the op that runs the block.
func (r *StaticRNN) append(block *program.Block) {
	l := r.l
	if l.failed {
		return
	}
	op := &program.Op{Type: "recurrent", Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: map[string]program.Attr{
		"sub_block": program.BlockIndex(block.Index), "reverse": r.reverse, "has_states": len(r.memories) > 0}}
	var before, after []string
	for _, m := range r.memories {
		op.Inputs["initial_states"] = append(op.Inputs["initial_states"], m.initial.Name())
		before, after = append(before, m.value.Name()), append(after, m.next.Name())
	}
	op.Attrs["ex_states"], op.Attrs["states"] = before, after
	read, _ := r.outer.Touches(&program.Op{Attrs: op.Attrs})
	if names := slices.Sorted(maps.Keys(read)); len(names) > 0 {
		op.Inputs["parameters"] = names
	}
	for _, x := range r.inputs {
		op.Inputs["inputs"] = append(op.Inputs["inputs"], x.Name())
	}
	steps := r.inputs[0].Dims()[0]
	for _, x := range r.outputs {
		v, err := r.outer.AddVar(program.Var{Name: x.Name(), Kind: program.LoDTensor, DType: x.DType(), Dims: append([]int64{steps}, x.Dims()...)})
		if err != nil {
			l.mistake(fault.E(fault.Internal, fault.Cause(err)))
			return
		}
		r.results = append(r.results, Variable{l.model, v})
		op.Outputs["outputs"] = append(op.Outputs["outputs"], x.Name())
	}
	scope, err := r.outer.AddVar(program.Var{Name: l.model.UniqueName(l.prefix + ".scope"), Kind: program.StepScopes, StopGradient: true})
	if err != nil {
		l.mistake(fault.E(fault.Internal, fault.Cause(err)))
		return
	}
	op.Outputs["step_scopes"] = []string{scope.Name}
	if !l.model.emit(r.outer, op) {
		l.fail()
	}
}

// inStep reports whether a method may append to the step, and notes a mistake otherwise.
func (r *StaticRNN) inStep(method string, inputs ...Variable) bool {
	return inStep(r.l, r.inner, method, inputs)
}

// before runs build where the network stands, before its first step.
func (r *StaticRNN) before(build func()) { r.l.model.Within(r.outer, build) }

// StepInput returns the row of x that a step computes with. All step inputs have as many rows.
func (r *StaticRNN) StepInput(x Variable) Variable {
	if !r.inStep("StepInput", x) {
		return r.l.fail()
	}
	l := r.l
	if len(x.Dims()) < 2 || len(r.inputs) > 0 && !ops.Compatible(x.Dims()[:1], r.inputs[0].Dims()[:1]) {
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()), fault.Want("rank 2 or more, and as many rows as other step inputs")))
	}
	var outside Variable
	r.before(func() { outside = l.op("assign", In{"X": {x}}, nil, "Out") }) // under a name of its own, so that a step may also read all of x
	if l.failed {
		return l.fail()
	}
	inside, err := r.inner.AddVar(program.Var{Name: outside.Name(), Kind: program.LoDTensor, DType: x.DType(), Dims: slices.Clone(x.Dims()[1:])})
	if err != nil {
		return l.mistake(fault.E(fault.Internal, fault.Cause(err)))
	}
	r.inputs = append(r.inputs, outside)
	return Variable{l.model, inside}
}

// Memory returns what the step before has left with UpdateMemory: rows of these dims, as many as the first step input has. In the first step all elements are
// value. Call StepInput before.
//
// Options: DType.
func (r *StaticRNN) Memory(dims []int64, value float64, opts ...Option) Variable {
	l := r.l
	if !r.inStep("Memory") {
		return l.fail()
	}
	o := defaults()
	if f := o.apply(l.kind, opts, []string{"DType"}); f != nil {
		return l.mistake(f)
	}
	if len(r.inputs) == 0 {
		return l.mistake(fault.E(fault.InvalidArgument, fault.Got("Memory before StepInput"), fault.Want("StepInput first, which tells the number of rows")))
	}
	var first Variable
	r.before(func() {
		first = l.op("fill_constant_batch_size_like", In{"Input": {r.inputs[0]}}, Attrs{"shape": append([]int64{program.Unknown}, dims...), "dtype": o.dtype,
			"value": value, "input_dim_idx": 1, "output_dim_idx": 0}, "Out")
	})
	return r.remember(first)
}

// InitialMemory is Memory that begins with init.
func (r *StaticRNN) InitialMemory(init Variable) Variable {
	if !r.inStep("InitialMemory", init) {
		return r.l.fail()
	}
	return r.remember(init)
}

// remember returns the memory of a step, which begins with first.
func (r *StaticRNN) remember(first Variable) Variable {
	l := r.l
	if l.failed || !first.OK() {
		return l.fail()
	}
	v, err := r.inner.AddVar(program.Var{Name: l.model.UniqueName(l.prefix + ".memory"), Kind: program.LoDTensor, DType: first.DType(), Dims: slices.Clone(first.Dims())})
	if err != nil {
		return l.mistake(fault.E(fault.Internal, fault.Cause(err)))
	}
	m := staticMemory{initial: first, value: Variable{l.model, v}}
	r.memories = append(r.memories, m)
	return m.value
}

// UpdateMemory leaves next to the next step as the value of a memory.
func (r *StaticRNN) UpdateMemory(of, next Variable) {
	if !r.inStep("UpdateMemory", of, next) {
		return
	}
	for i := range r.memories {
		if m := &r.memories[i]; m.value == of {
			sameMemory(r.l, of, next)
			m.next = next
			return
		}
	}
	noMemory(r.l, of)
}

// Output makes variables of a step results of the network.
func (r *StaticRNN) Output(variables ...Variable) {
	if !r.inStep("Output", variables...) {
		return
	}
	for _, v := range variables {
		r.outputs = append(r.outputs, r.helper(v))
	}
}

// Result is Results of a network with one output.
func (r *StaticRNN) Result() Variable {
	if results := r.Results(); len(results) > 0 {
		return results[0]
	}
	return r.l.fail()
}

// Results returns the outputs of all steps, in the order of Output: row t of each is what step t has computed.
func (r *StaticRNN) Results() []Variable {
	l := r.l
	if !l.failed && (!r.used || r.inner != nil) {
		l.mistake(fault.E(fault.InvalidArgument, fault.Got("results of a network that has no outputs yet"), fault.Want("Output in the function of Block, and Results after it")))
	}
	if l.failed {
		return nil
	}
	return r.results
}
