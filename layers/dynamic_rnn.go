package layers

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A DynamicRNN computes a recurrent network of your own over sequences of different lengths, step by step and without padding. Step t computes one row for each
// sequence that has a step t.
//
//	rnn := layers.NewDynamicRNN(m)
//	rnn.Block(func() {
//		word := rnn.StepInput(words)
//		before := rnn.Memory([]int64{128}, 0)
//		now := layers.FCs([]layers.Variable{word, before}, 128, layers.Act("tanh"))
//		rnn.UpdateMemory(before, now)
//		rnn.Output(now)
//	})
//	states := rnn.Result() // the rows and the LoD of words
//
// Within a step the rows are in another order than the sequences of the batch: the longest sequence comes first. StaticInput and InitialMemory put what has a row
// for each sequence into that order.
type DynamicRNN struct {
	l          *layer
	outer      *program.Block // where the network stands
	inner      *program.Block // of a step; nil outside of Block
	used       bool
	sequences  Variable // the first step input
	level      int      // of its LoD, whose sequences are taken apart
	table      Variable
	step, most Variable
	more       Variable
	memories   []memory
	outputs    []Variable // arrays
}

// A memory is what a step leaves to the next one.
type memory struct {
	value Variable // in the step
	array Variable
	next  Variable
}

// NewDynamicRNN begins a network.
//
// Options: Name.
func NewDynamicRNN(m *Model, opts ...Option) *DynamicRNN {
	return &DynamicRNN{l: begin(m, "dynamic_rnn", opts)}
}

// Block runs step, which appends what a step computes. Call it once.
func (r *DynamicRNN) Block(step func()) {
	l := r.l
	if l.failed {
		return
	}
	if r.used {
		l.mistake(fault.E(fault.InvalidArgument, fault.Got("a second block of a step"), fault.Want("one")))
		return
	}
	r.used, r.outer = true, l.model.current()
	r.step = Counter(l.model, 0)
	r.more = l.temporary()
	r.inner = l.model.main.NewBlock(r.outer)
	l.model.Within(r.inner, func() {
		step()
		r.advance()
	})
	block := r.inner
	r.inner = nil
	if r.table.model == nil {
		l.mistake(fault.E(fault.InvalidArgument, fault.Got("a network without StepInput"), fault.Want("one, which tells the steps")))
		return
	}
	runBlock(l, "while", block, In{"Condition": {r.more}}, "X", "StepScopes", Attrs{"is_test": false})
}

// advance appends the end of a step.
func (r *DynamicRNN) advance() {
	l := r.l
	if l.failed || r.table.model == nil {
		return
	}
	Increment(r.step, 1)
	for _, m := range r.memories {
		if m.next.model == nil {
			l.mistake(fault.E(fault.InvalidArgument, fault.Var(m.value.Name()), fault.Got("a memory that no step changes"), fault.Want("UpdateMemory")))
			return
		}
		ArrayWrite(m.next, r.step, m.array)
	}
	l.write("less_than", In{"X": {r.step}, "Y": {r.most}}, nil, In{"Out": {r.more}})
}

// inStep reports whether a method may append to the step, and notes a mistake otherwise.
func (r *DynamicRNN) inStep(method string, inputs ...Variable) bool {
	return inStep(r.l, r.inner, method, inputs)
}

// inStep reports whether a method of a recurrent network may append to the block of a step, and notes a mistake otherwise.
func inStep(l *layer, block *program.Block, method string, inputs []Variable) bool {
	switch {
	case l.failed:
		return false
	case block == nil || l.model.current() != block:
		l.mistake(fault.E(fault.InvalidArgument, fault.Got(method+" outside of a step"), fault.Want("it in the function of Block")))
		return false
	}
	for _, x := range inputs {
		if !x.OK() {
			l.fail()
			return false
		}
	}
	alsoOn(l, inputs...)
	return !l.failed
}

// sameMemory checks that a memory keeps its type.
func sameMemory(l *layer, of, next Variable) {
	if !ops.Compatible(of.Dims(), next.Dims()) || of.DType() != next.DType() {
		l.mistake(fault.E(fault.ShapeMismatch, fault.Var(next.Name()), fault.Gotf("%v", next), fault.Wantf("as the memory %v", of)))
	}
}

// noMemory notes that a network has no such memory.
func noMemory(l *layer, of Variable) {
	l.mistake(fault.E(fault.InvalidArgument, fault.Var(of.Name()), fault.Got("a variable that is no memory of the network"), fault.Want("what Memory has returned")))
}

// before runs build where the network stands, before its first step.
func (r *DynamicRNN) before(build func()) { r.l.model.Within(r.outer, build) }

// StepInput returns the rows of x that a step computes with: of each sequence one. All step inputs must have sequences of the same lengths.
func (r *DynamicRNN) StepInput(x Variable) Variable {
	return r.take("StepInput", x, max(0, x.LoDLevel()-1))
}

// StepSequences returns the sequences of x that a step computes with: one of each outermost sequence. So a step reads one sentence of each text. x has two LoD levels or more, and
// the result has one less. All step inputs must have outermost sequences of the same lengths. StepInput takes the others of a step: variables with one row for each sentence.
func (r *DynamicRNN) StepSequences(x Variable) Variable {
	if r.l.failed || !x.OK() {
		return r.l.fail()
	}
	if x.LoDLevel() < 2 {
		return r.l.mistake(fault.E(fault.InvalidArgument, fault.Var(x.Name()), fault.Gotf("%d LoD levels", x.LoDLevel()), fault.Want("2 or more, as sentences of texts have"),
			fault.Hint("StepInput takes rows of sequences")))
	}
	return r.take("StepSequences", x, 0)
}

// take takes the sequences of a LoD level apart into steps.
func (r *DynamicRNN) take(method string, x Variable, level int) Variable {
	if !r.inStep(method, x) {
		return r.l.fail()
	}
	l := r.l
	var items Variable
	r.before(func() {
		if r.table.model == nil {
			r.sequences, r.level = x, level
			r.table = l.op("lod_rank_table", In{"X": {x}}, Attrs{"level": level}, "Out")
			r.most = l.op("max_sequence_len", In{"RankTable": {r.table}}, nil, "Out")
			l.write("less_than", In{"X": {r.step}, "Y": {r.most}}, nil, In{"Out": {r.more}})
		}
		items = l.op("lod_tensor_to_array", In{"X": {x}, "RankTable": {r.table}}, nil, "Out")
	})
	return l.op("read_from_array", In{"X": {items}, "I": {r.step}}, nil, "Out")
}

// StaticInput returns the rows of x, or the sequences if x has a LoD, of the sequences that a step computes with. x has one for each sequence of the batch. Call
// StepInput before.
func (r *DynamicRNN) StaticInput(x Variable) Variable {
	if !r.inStep("StaticInput", x) || !r.hasTable("StaticInput") {
		return r.l.fail()
	}
	var ranked Variable
	r.before(func() {
		ranked = r.l.op("reorder_lod_tensor_by_rank", In{"X": {x}, "RankTable": {r.table}}, nil, "Out")
	})
	return r.shrink(ranked)
}

func (r *DynamicRNN) hasTable(method string) bool {
	if r.table.model == nil {
		r.l.mistake(fault.E(fault.InvalidArgument, fault.Got(method+" before StepInput"), fault.Want("StepInput first, which tells the steps")))
	}
	return !r.l.failed
}

func (r *DynamicRNN) shrink(x Variable) Variable {
	return r.l.op("shrink_rnn_memory", In{"X": {x}, "I": {r.step}, "RankTable": {r.table}}, nil, "Out")
}

// Memory returns what the step before has left with UpdateMemory: a row of these dims for each sequence. In the first step all elements are value. Call StepInput
// before.
//
// Options: DType.
func (r *DynamicRNN) Memory(dims []int64, value float64, opts ...Option) Variable {
	l := r.l
	if !r.inStep("Memory") || !r.hasTable("Memory") {
		return l.fail()
	}
	o := defaults()
	if f := o.apply(l.kind, opts, []string{"DType"}); f != nil {
		return l.mistake(f)
	}
	var first Variable
	r.before(func() {
		rows := r.sequences
		if !rows.DType().IsFloat() {
			rows = Cast(rows, tensor.Float32)
		}
		for rows.LoDLevel() > r.level {
			rows = SequencePool(rows, "first") // one row for each sequence that is taken apart
		}
		first = l.op("fill_constant_batch_size_like", In{"Input": {rows}},
			Attrs{"shape": append([]int64{program.Unknown}, dims...), "dtype": o.dtype, "value": value}, "Out")
	})
	if !first.OK() {
		return l.fail()
	}
	return r.remember(first)
}

// InitialMemory is Memory that begins with init, which has a row for each sequence of the batch.
func (r *DynamicRNN) InitialMemory(init Variable) Variable {
	if !r.inStep("InitialMemory", init) || !r.hasTable("InitialMemory") {
		return r.l.fail()
	}
	var ranked Variable
	r.before(func() {
		ranked = r.l.op("reorder_lod_tensor_by_rank", In{"X": {init}, "RankTable": {r.table}}, nil, "Out")
	})
	return r.remember(ranked)
}

// remember returns the memory of a step, which begins with first.
func (r *DynamicRNN) remember(first Variable) Variable {
	l := r.l
	if l.failed {
		return l.fail()
	}
	m := memory{}
	r.before(func() {
		m.array = CreateArray(l.model, DType(first.DType()))
		ArrayWrite(first, Counter(l.model, 0), m.array)
	})
	m.value = r.shrink(l.op("read_from_array", In{"X": {m.array}, "I": {r.step}}, nil, "Out"))
	r.memories = append(r.memories, m)
	return m.value
}

// UpdateMemory leaves next to the next step as the value of a memory.
func (r *DynamicRNN) UpdateMemory(of, next Variable) {
	if !r.inStep("UpdateMemory", of, next) {
		return
	}
	for i := range r.memories {
		m := &r.memories[i]
		if m.value != of {
			continue
		}
		sameMemory(r.l, of, next)
		m.next = next
		return
	}
	noMemory(r.l, of)
}

// Output makes variables of a step results of the network. Each has a row for each sequence of the step.
func (r *DynamicRNN) Output(variables ...Variable) {
	if !r.inStep("Output", variables...) {
		return
	}
	for _, v := range variables {
		var array Variable
		r.before(func() { array = CreateArray(r.l.model, DType(v.DType())) })
		ArrayWrite(v, r.step, array)
		r.outputs = append(r.outputs, array)
	}
}

// Result is Results of a network with one output.
func (r *DynamicRNN) Result() Variable {
	if results := r.Results(); len(results) > 0 {
		return results[0]
	}
	return r.l.fail()
}

// Results returns the outputs of all steps, in the order of Output: rows, or sequences, that form the sequences of the step inputs.
func (r *DynamicRNN) Results() []Variable {
	l := r.l
	if !l.failed && (!r.used || r.inner != nil || len(r.outputs) == 0) {
		l.mistake(fault.E(fault.InvalidArgument, fault.Got("results of a network that has no outputs yet"), fault.Want("Output in the function of Block, and Results after it")))
	}
	results := make([]Variable, len(r.outputs))
	for i, array := range r.outputs {
		results[i] = l.op("array_to_lod_tensor", In{"X": {array}, "RankTable": {r.table}}, nil, "Out")
	}
	if len(results) == 1 {
		results[0] = l.result(results[0])
	}
	return results
}
