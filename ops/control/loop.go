package control

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// MostIterations bounds the runs of the block of one while op, so that a loop whose condition never fails ends with an error.
const MostIterations = 1_000_000

func init() {
	ops.Register(ops.Def{
		Type:  "while",
		Class: ops.Control,
		Doc: "Runs a block again and again while Condition is true. The block writes Condition. It is an error if the block has run 1000000 times and Condition is " +
			"still true. A variable that has no value before the op and gets none from it is 0.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "what the block reads", Duplicable: true, Dispensable: true},
			{Name: "Condition", Doc: "one bool, which the block writes"},
		},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "what the block writes", Duplicable: true, Dispensable: true},
			{Name: "StepScopes", Doc: "what the runs leave to their gradients", Dispensable: true},
		},
		Attrs: []ops.Attr{blockAttr("the block that runs"), {Name: "is_test", Doc: "keep nothing for gradients", Default: false}},
		Infer: func(s *ops.Shapes) error {
			if err := checkBlock(s); err != nil {
				return err
			}
			return oneOf(s, "Condition", tensor.Bool)
		},
		Gradient:  gradientOf("X", "StepScopes"),
		Bind:      bindWhile,
		MixesRows: opkit.Mixes,
	})
}

func bindWhile(b *ops.Binding) (ops.Kernel, error) {
	body, err := b.Body("sub_block")
	if err != nil {
		return nil, err
	}
	condition := b.In("Condition")
	return func(ctx context.Context) error {
		for n := int64(0); ; n++ {
			ok, err := truth(b.Op(), "Condition", condition)
			switch {
			case err != nil:
				return err
			case !ok && n == 0:
				body.Skip()
				return nil
			case !ok:
				return nil
			case n == MostIterations:
				return fault.E(fault.TooLarge, fault.Var(b.Op().In("Condition")), fault.Gotf("true after %d runs of the block", n),
					fault.Want("a loop that ends before"), fault.Hint("let the block write the condition, such as less_than of a counter and a limit"))
			}
			if err := body.Run(ctx, n); err != nil {
				return err
			}
		}
	}, nil
}
