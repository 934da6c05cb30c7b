package layers

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// outsideOf declares a variable where the network of a block stands, and copies x, which the block has computed, to it.
func outsideOf(l *layer, outer *program.Block, x Variable) Variable {
	if l.failed || !x.OK() {
		return l.fail()
	}
	alsoOn(l, x)
	if l.failed {
		return l.fail()
	}
	v, err := outer.AddVar(program.Var{Name: l.model.UniqueName(l.prefix + ".out"), Kind: program.LoDTensor, DType: x.DType(), Dims: x.Dims(), LoDLevel: x.LoDLevel()})
	if err != nil {
		return l.mistake(fault.E(fault.Internal, fault.Cause(err)))
	}
	out := Variable{l.model, v}
	l.write("assign", In{"X": {x}}, nil, In{"Out": {out}})
	return out
}

// Cond does then if condition, one bool, is true, and otherwise if not. It returns what was done returns. Both return as many variables, of the same types; they
// may return none, and otherwise may be nil then.
//
// Options: Name. Ops: conditional_block, select_input.
func Cond(condition Variable, then, otherwise func() []Variable, opts ...Option) []Variable {
	l := start("cond", opts, nil, condition)
	if l.failed {
		return nil
	}
	results := func(do func() []Variable, when Variable) (outs []Variable) {
		outer := l.model.current()
		branch(l, when, func() {
			for _, x := range do() {
				outs = append(outs, outsideOf(l, outer, x))
			}
		})
		return outs
	}
	yes := results(then, condition)
	var no []Variable
	if otherwise != nil {
		no = results(otherwise, l.op("logical_not", In{"X": {condition}}, nil, "Out"))
	}
	if !l.failed && len(yes) != len(no) {
		l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("%d results if the condition holds, and %d if not", len(yes), len(no)), fault.Want("as many")))
	}
	if l.failed || len(yes) == 0 {
		return nil
	}
	mask := Cast(condition, tensor.Int32)
	outs := make([]Variable, len(yes))
	for i := range yes {
		outs[i] = SelectInput([]Variable{no[i], yes[i]}, mask)
	}
	if len(outs) == 1 {
		outs[0] = l.result(outs[0])
	}
	return outs
}

// SelectInput returns the variable of xs that mask, one int32, numbers. All have one type and one rank.
//
// Options: Name. Op: select_input.
func SelectInput(xs []Variable, mask Variable, opts ...Option) Variable {
	l := start("select_input", opts, nil, append([]Variable{mask}, xs...)...)
	return l.result(l.op("select_input", In{"X": xs, "Mask": {mask}}, nil, "Out"))
}

// SelectOutput returns n variables: the one that mask, one int32, numbers is x, and the others are 0.
//
// Op: select_output.
func SelectOutput(x, mask Variable, n int) []Variable {
	l := start("select_output", nil, nil, x, mask)
	if n < 1 || n > mostBranches {
		l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("%d variables", n), fault.Wantf("1 to %d", mostBranches)))
		return nil
	}
	return l.multi("select_output", In{"X": {x}, "Mask": {mask}}, nil, slices.Repeat([]string{"Out"}, n)...)
}

// mostBranches bounds the variables of SelectOutput.
const mostBranches = 1 << 10

// A CondCase is one case of Case.
type CondCase struct {
	If   Variable // one bool
	Then func() []Variable
}

// Case does the first case that holds, and otherwise if none does; if otherwise is nil, the last case. It returns what was done returns: all return as many
// variables, of the same types.
//
// Ops: conditional_block, select_input.
func Case(cases []CondCase, otherwise func() []Variable) []Variable {
	switch {
	case len(cases) == 0 && otherwise == nil:
		return nil
	case len(cases) == 0:
		return otherwise()
	case len(cases) == 1 && otherwise == nil:
		return cases[0].Then()
	}
	return Cond(cases[0].If, cases[0].Then, func() []Variable { return Case(cases[1:], otherwise) })
}

// An IndexCase is one case of SelectCase.
type IndexCase struct {
	Index int64
	Then  func() []Variable
}

// SelectCase does the case whose Index is the value of index, one int32 or int64, and otherwise if there is none; if otherwise is nil, the last case. It is
// switch_case of Fluid.
//
// Ops: equal, conditional_block, select_input.
func SelectCase(index Variable, cases []IndexCase, otherwise func() []Variable) []Variable {
	l := start("select_case", nil, nil, index)
	if l.failed {
		return nil
	}
	list := make([]CondCase, len(cases))
	for i, c := range cases {
		list[i].Then = c.Then
		list[i].If = Equal(index, FillConstant(l.model, float64(c.Index), []int64{1}, DType(index.DType())))
	}
	return Case(list, otherwise)
}

// WhileLoop runs body again and again, as long as condition, one bool, is true. Both get variables, at first copies of begin, and then what body has returned.
// It returns the variables of the end. Their types do not change.
//
// Ops: while.
func WhileLoop(condition func(variables []Variable) Variable, body func(variables []Variable) []Variable, begin []Variable) []Variable {
	l := start("while_loop", nil, nil, begin...)
	if l.failed {
		return nil
	}
	variables := make([]Variable, len(begin))
	for i, x := range begin {
		variables[i] = Assign(x)
	}
	more := condition(variables)
	While(more, func() {
		next := body(variables)
		if len(next) != len(variables) {
			l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("%d variables after a run", len(next)), fault.Wantf("%d, as before it", len(variables))))
			return
		}
		for i, x := range next { // a variable that takes the value of another one, which may change before
			for k, v := range variables {
				if x == v && k != i {
					next[i] = Assign(x)
				}
			}
		}
		for i, v := range variables {
			if next[i] != v {
				AssignTo(v, next[i])
			}
		}
		AssignTo(more, condition(variables))
	})
	return variables
}

// An IfElse computes with the rows of a batch in two ways: those for which a condition holds in one way, and the others in another. If the rows form sequences,
// it divides the sequences.
//
//	ie := layers.NewIfElse(large) // bool [rows, 1]
//	ie.True(func() { ie.Output(layers.Scale(ie.Input(x), 0.5, 0)) })
//	ie.False(func() { ie.Output(ie.Input(x)) })
//	y := ie.Result() // [rows, ...], in the order of x
type IfElse struct {
	l         *layer
	condition Variable
	outer     *program.Block // where the network stands
	inner     *program.Block // of the half that is built; nil outside of True and False
	side      int            // of inner
	halves    map[string][2]Variable
	outputs   [2][]Variable
	built     [2]bool
}

// NewIfElse begins a network. condition is bool [rows, 1].
//
// Options: Name. Ops: split_lod_tensor, conditional_block, merge_lod_tensor.
func NewIfElse(condition Variable, opts ...Option) *IfElse {
	l := start("if_else", opts, nil, condition)
	if !l.failed && condition.DType() != tensor.Bool {
		l.mistake(fault.E(fault.TypeMismatch, fault.Var(condition.Name()), fault.Got(condition.String()), fault.Want("bool [rows, 1]")))
	}
	return &IfElse{l: l, condition: condition, halves: map[string][2]Variable{}}
}

// True runs compute, which appends what is computed of the rows for which the condition holds. Call it once.
func (ie *IfElse) True(compute func()) { ie.half(1, compute) }

// False is True for the other rows.
func (ie *IfElse) False(compute func()) { ie.half(0, compute) }

func (ie *IfElse) half(side int, compute func()) {
	l := ie.l
	if l.failed {
		return
	}
	if ie.built[side] || ie.inner != nil {
		l.mistake(fault.E(fault.InvalidArgument, fault.Got("a second block for one half, or one within the other"), fault.Want("True and False once each, one after the other")))
		return
	}
	ie.built[side], ie.side, ie.outer = true, side, l.model.current()
	ie.inner = l.model.main.NewBlock(ie.outer)
	l.model.Within(ie.inner, compute)
	block := ie.inner
	ie.inner = nil
	runBlock(l, "conditional_block", block, In{"Cond": {ie.condition}}, "Input", "Scope", Attrs{"is_scalar_condition": false})
}

// Input returns the rows of x, or the sequences if x has a LoD, that belong to the half.
func (ie *IfElse) Input(x Variable) Variable {
	l := ie.l
	if !inStep(l, ie.inner, "Input", []Variable{x}) {
		return l.fail()
	}
	if _, ok := ie.halves[x.Name()]; !ok {
		l.model.Within(ie.outer, func() {
			out := l.multi("split_lod_tensor", In{"X": {x}, "Mask": {ie.condition}}, Attrs{"level": 0}, "OutFalse", "OutTrue")
			ie.halves[x.Name()] = [2]Variable{out[0], out[1]}
		})
	}
	return ie.halves[x.Name()][ie.side]
}

// Output makes variables of a half results: each has the rows of the half. Both halves have as many outputs, of the same types.
func (ie *IfElse) Output(variables ...Variable) {
	if !inStep(ie.l, ie.inner, "Output", variables) {
		return
	}
	for _, x := range variables {
		ie.outputs[ie.side] = append(ie.outputs[ie.side], outsideOf(ie.l, ie.outer, x))
	}
}

// Result is Results of a network with one output.
func (ie *IfElse) Result() Variable {
	if results := ie.Results(); len(results) > 0 {
		return results[0]
	}
	return ie.l.fail()
}

// Results returns the outputs of both halves, in the order of the rows of the batch.
func (ie *IfElse) Results() []Variable {
	l := ie.l
	no, yes := ie.outputs[0], ie.outputs[1]
	if !l.failed && (ie.inner != nil || len(yes) == 0 || len(yes) != len(no)) {
		l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("%d outputs where the condition holds, and %d where not", len(yes), len(no)), fault.Want("as many, at least one")))
	}
	if l.failed {
		return nil
	}
	results := make([]Variable, len(yes))
	for i := range yes {
		if yes[i].DType() != no[i].DType() || !ops.Compatible(yes[i].Dims(), no[i].Dims()) {
			l.mistake(fault.E(fault.ShapeMismatch, fault.Var(yes[i].Name()), fault.Got(yes[i].String()), fault.Wantf("%v, as the other half has", no[i])))
			return nil
		}
		results[i] = l.op("merge_lod_tensor", In{"X": {ie.condition}, "Mask": {ie.condition}, "InTrue": {yes[i]}, "InFalse": {no[i]}}, Attrs{"level": 0}, "Out")
	}
	if len(results) == 1 {
		results[0] = l.result(results[0])
	}
	return results
}
