package control

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// blockAttr is the attribute of the block that an op runs.
func blockAttr(doc string) ops.Attr {
	return ops.Attr{Name: "sub_block", Doc: doc, Default: program.BlockIndex(0)}
}

// checkBlock refuses an op without a block.
func checkBlock(s *ops.Shapes) error {
	if index, ok := s.Op().SubBlock("sub_block"); ok && index > 0 {
		return nil
	}
	return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Got("no block"), fault.Want("a block in sub_block"))
}

func init() {
	ops.Register(ops.Def{
		Type:  "conditional_block",
		Class: ops.Control,
		Doc: "Runs a block if a condition holds. With is_scalar_condition the condition is one bool. Without it the block runs if no variable of the condition is " +
			"empty. A variable that has no value before the op and gets none from it is 0.",
		Inputs: []ops.Slot{
			{Name: "Cond", Doc: "the condition", Duplicable: true, Dispensable: true},
			{Name: "X", Doc: "the condition in programs of early 2018", Duplicable: true, Dispensable: true},
			{Name: "Input", Doc: "what the block reads", Duplicable: true, Dispensable: true},
			{Name: "Params", Doc: "what the block reads, in programs of early 2018", Duplicable: true, Dispensable: true},
		},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "what the block writes", Duplicable: true, Dispensable: true},
			{Name: "Scope", Doc: "what the block leaves to its gradient", Duplicable: true, Dispensable: true},
		},
		Attrs: []ops.Attr{blockAttr("the block that runs"),
			{Name: "is_scalar_condition", Doc: "the condition is one bool", Default: false}},
		Infer: func(s *ops.Shapes) error {
			if err := checkBlock(s); err != nil {
				return err
			}
			slot := conditionSlot(s.Op())
			switch {
			case len(s.Ins(slot)) == 0:
				return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Got("no condition"), fault.Want("a variable in slot Cond"))
			case !s.Bool("is_scalar_condition"):
				for i, m := range s.Ins(slot) {
					if m.Kind != program.LoDTensor {
						return fault.E(fault.TypeMismatch, fault.On(s.Op()), fault.Var(s.Op().Inputs[slot][i]), fault.Got(m.String()), fault.Want("a dense tensor as a condition"))
					}
				}
				return nil
			case len(s.Ins(slot)) != 1:
				return s.Errorf(slot, "one variable")
			}
			return oneOf(s, slot, tensor.Bool)
		},
		Gradient:  gradientOf("Input", "Scope", "Cond"),
		Bind:      bindConditionalBlock,
		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type:    "run_block",
		Class:   ops.Control,
		Doc:     "Runs a block once. Executors put ops into such a block that read tensors whose dims are known only when other ops have run.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "what the block reads", Duplicable: true, Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "what the block writes", Duplicable: true, Dispensable: true}},
		Attrs:   []ops.Attr{blockAttr("the block that runs")},
		Infer:   checkBlock,
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			body, err := b.Body("sub_block")
			return func(ctx context.Context) error { return body.Run(ctx, 0) }, err
		},
		MixesRows: opkit.Mixes,
		Exempt:    map[ops.Check]string{ops.CheckLaw: "no program has it: each executor writes it when it compiles ops behind those whose dims a run decides"},
	})
}

// conditionSlot returns the slot that holds the condition.
func conditionSlot(op *program.Op) string {
	if len(op.Inputs["Cond"]) == 0 {
		return "X"
	}
	return "Cond"
}

// oneOf checks that a slot holds one element of a type.
func oneOf(s *ops.Shapes, slot string, dtype tensor.DType) error {
	m := s.In(slot)
	if err := opkit.CheckType(s, slot, m.Kind == program.LoDTensor && m.DType == dtype, dtype.String()); err != nil {
		return err
	}
	if !opkit.Agree(ops.Product(m.Dims), 1) {
		return s.Errorf(slot, "one element")
	}
	return nil
}

func bindConditionalBlock(b *ops.Binding) (ops.Kernel, error) {
	body, err := b.Body("sub_block")
	if err != nil {
		return nil, err
	}
	slot := conditionSlot(b.Op())
	conditions := b.Ins(slot)
	holds := func() (bool, error) {
		for _, c := range conditions {
			if c.Len() == 0 {
				return false, nil
			}
		}
		return true, nil
	}
	if b.Bool("is_scalar_condition") {
		holds = func() (bool, error) { return truth(b.Op(), slot, conditions[0]) }
	}
	return func(ctx context.Context) error {
		ok, err := holds()
		switch {
		case err != nil:
			return err
		case ok:
			return body.Run(ctx, 0)
		}
		body.Skip()
		return nil
	}, nil
}

// truth returns the value of a condition.
func truth(op *program.Op, slot string, t *tensor.Tensor) (bool, error) {
	if t.DType() != tensor.Bool || t.Len() != 1 {
		return false, fault.E(fault.ShapeMismatch, fault.Var(op.In(slot)), fault.Gotf("%v%v", t.DType(), t.Dims()), fault.Want("one bool"))
	}
	return t.Bools()[0], nil
}
