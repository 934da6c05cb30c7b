package layers

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Layers of control flow take functions that append layers. What such a function appends becomes a block of the program, which runs when the program does: not
// at all, once, or many times. It reads variables from outside, and changes those that it names in AssignTo, Increment or ArrayWrite. A variable that it makes means
// nothing outside.

// block runs build with a new block, and returns it. The block of the model is the same before and after.
func (m *Model) block(build func()) *program.Block {
	outer := m.current()
	inner := m.main.NewBlock(outer)
	m.inner = inner
	defer func() { m.inner = outer }()
	build()
	return inner
}

// Within runs build. Every op that build appends, and every variable that it declares, goes to the given block of the program that is being built. It is for
// passes that build gradients of blocks.
func (m *Model) Within(block *program.Block, build func()) {
	before := m.inner
	m.inner = block
	defer func() { m.inner = before }()
	build()
}

// current returns the block to which layers append.
func (m *Model) current() *program.Block {
	if m.inner == nil {
		return m.main.Global()
	}
	return m.inner
}

// runBlock appends an op that runs a block. in lists the inputs besides those that the block reads, which go to slot reads.
func runBlock(l *layer, opType string, block *program.Block, in In, reads, scopes string, attrs Attrs) {
	if l.failed {
		return
	}
	op := &program.Op{Type: opType, Inputs: names(in), Outputs: map[string][]string{}, Attrs: map[string]program.Attr{"sub_block": program.BlockIndex(block.Index)}}
	for name, value := range attrs {
		op.Attrs[name] = value
	}
	outer := l.model.current()
	r, w := outer.Touches(&program.Op{Attrs: op.Attrs})
	if read := slices.Sorted(maps.Keys(r)); len(read) > 0 {
		op.Inputs[reads] = read
	}
	if written := slices.Sorted(maps.Keys(w)); len(written) > 0 {
		op.Outputs["Out"] = written
	}
	scope, err := outer.AddVar(program.Var{Name: l.model.UniqueName(l.prefix + ".scope"), Kind: program.StepScopes, StopGradient: true})
	if err != nil {
		l.mistake(fault.E(fault.Internal, fault.Cause(err)))
		return
	}
	op.Outputs[scopes] = []string{scope.Name}
	if !l.model.emit(outer, op) {
		l.fail()
	}
}

// branch appends a block that runs if condition, one bool, is true.
func branch(l *layer, condition Variable, build func()) {
	if l.failed {
		return
	}
	block := l.model.block(build)
	runBlock(l, "conditional_block", block, In{"Cond": {condition}}, "Input", "Scope", Attrs{"is_scalar_condition": true})
}

// A SwitchCase is one case of Switch.
type SwitchCase struct {
	If   Variable // one bool; the zero Variable always holds, which makes the case a default
	Then func()   // appends what the case does
}

// Switch does the first case that holds, if any. Cases change variables with AssignTo: one that a case gives its first value is 0 where another case, or none,
// was done. A learning rate that depends on the step is an example.
func Switch(m *Model, cases ...SwitchCase) {
	var before Variable // no case before this one holds
	for _, c := range cases {
		if c.If.model == nil {
			l := begin(m, "switch", nil)
			if before.model == nil {
				l.mistake(fault.E(fault.InvalidArgument, fault.Got("a default that is the first case"), fault.Want("a case with a condition before it")))
				return
			}
			branch(l, before, c.Then)
			return
		}
		l := start("switch", nil, nil, c.If)
		if m != nil && l.model != m {
			l.mistake(ofTwoModels(c.If))
		}
		condition := c.If
		not := l.op("logical_not", In{"X": {c.If}}, nil, "Out")
		if before.model != nil {
			condition = l.op("logical_and", In{"X": {before}, "Y": {c.If}}, nil, "Out")
			not = l.op("logical_and", In{"X": {before}, "Y": {not}}, nil, "Out")
		}
		branch(l, condition, c.Then)
		before = not
	}
}

// While runs what body appends again and again, as long as condition, one bool, is true. body changes condition with AssignTo. A loop that does not end by itself
// ends with an error (see the op while). If the model trains, the loop keeps what the gradients of its runs need, run by run.
func While(condition Variable, body func()) {
	l := start("while", nil, nil, condition)
	if l.failed {
		return
	}
	block := l.model.block(body)
	runBlock(l, "while", block, In{"Condition": {condition}}, "X", "StepScopes", Attrs{"is_test": false})
}

// CreateArray declares an array of tensors, which is empty when a step begins, or when its block begins to run.
//
// Options: DType, Name.
func CreateArray(m *Model, opts ...Option) Variable {
	l := begin(m, "array", opts, "DType")
	if l.failed {
		return l.fail()
	}
	name := l.prefix
	v, err := l.model.current().AddVar(program.Var{Name: name, Kind: program.LoDTensorArray, DType: l.dtype})
	if err != nil {
		return l.mistake(taken(name))
	}
	return Variable{l.model, v}
}

// ArrayWrite copies x into item i of an array, and returns the array. i is one int64. The array grows if it is shorter.
func ArrayWrite(x, i, array Variable) Variable {
	l := start("array_write", nil, nil, x, i, array)
	l.write("write_to_array", In{"X": {x}, "I": {i}}, nil, In{"Out": {array}})
	if l.failed {
		return l.fail()
	}
	return array
}

// ArrayRead copies item i of an array to a new variable. i is one int64. The layers that follow see the dims of the items that were written before.
func ArrayRead(array, i Variable, opts ...Option) Variable {
	l := start("array_read", opts, nil, array, i)
	if l.failed {
		return l.fail()
	}
	if len(array.v.Dims) == 0 {
		return l.mistake(fault.E(fault.InvalidArgument, fault.Var(array.Name()), fault.Got("an array that nothing was written to"), fault.Want("ArrayWrite before ArrayRead")))
	}
	return l.result(l.op("read_from_array", In{"X": {array}, "I": {i}}, nil, "Out"))
}

// ArrayLength counts the items of an array: one int64.
func ArrayLength(array Variable, opts ...Option) Variable {
	l := start("array_length", opts, nil, array)
	return l.result(l.op("lod_array_length", In{"X": {array}}, nil, "Out"))
}

// TensorArrayToTensor joins the items of an array along an axis, or stacks them along a new one. sizes has the extent of each item along the axis, int32 [items].
//
// Options: Name (of joined). Op: tensor_array_to_tensor.
func TensorArrayToTensor(array Variable, axis int, stack bool, opts ...Option) (joined, sizes Variable) {
	l := start("tensor_array_to_tensor", opts, nil, array)
	out := l.multi("tensor_array_to_tensor", In{"X": {array}}, Attrs{"axis": axis, "use_stack": stack}, "Out", "OutIndex")
	return l.result(out[0]), out[1]
}

// IsEmpty tells whether x has no elements: one bool.
func IsEmpty(x Variable, opts ...Option) Variable {
	l := start("is_empty", opts, nil, x)
	return l.result(l.op("is_empty", In{"X": {x}}, nil, "Out"))
}

// Counter is a new variable of one int64, for the counters of loops.
func Counter(m *Model, value int64) Variable {
	return FillConstant(m, float64(value), []int64{1}, DType(tensor.Int64))
}
