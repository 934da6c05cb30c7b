package plan

import (
	"context"
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// chooseChecks decides what must be finite: the loss and everything that is fetched. The loss gets memory of its own, because its value must still
// be there when the check looks at it. A program without an update is not checked. A program may drop gradients that are not finite: its loss overflows until the scale is low enough, and what
// is fetched may follow from the loss. There only what outlives the step is checked.
func (in *inference) chooseChecks() {
	update := slices.IndexFunc(in.nodes, func(n node) bool { return isUpdate(n.op, n.def) })
	if !in.CheckFinite || update < 0 {
		return
	}
	check := func(v *variable) {
		if v.meta.DType.IsFloat() && v.place != fed && !uses(in.checks, v) {
			in.checks = append(in.checks, v)
		}
	}
	drops := ops.DropsGradients(in.Block) || exchanges(in.nodes[update].def) && ops.LossMayOverflow(in.Block)
	for _, n := range in.nodes[:update] {
		if drops {
			break
		}
		if role := n.op.Role(); !role.Has(program.RoleLoss) || role.Has(program.RoleBackward) {
			continue
		}
		for _, name := range n.op.OutputNames() {
			if v := in.variables.named[name]; v.place == temporary && ops.Product(v.meta.Dims) == 1 {
				v.place = own
				check(v)
			}
		}
	}
	for _, name := range in.Fetch {
		if v := in.variables.named[name]; !drops || v.place == scoped {
			check(v)
		}
	}
}

// A finiteCheck looks for NaN and infinity in what a run computed.
type finiteCheck struct {
	variables []*variable // that it looks at; none for a plan that is not checked
	pieces    []*piece    // of the plan
	update    int         // the first piece of the update
	feeds     []feed
	step      *ops.Step // that runs
}

// isUpdate reports whether an op changes parameters, exchanges variables with other machines, or saves. Everything before the first such op can be
// computed again, also by asking others again (ops.Def.Asks).
func isUpdate(op *program.Op, def *ops.Def) bool {
	saves := def.Class == ops.FileIO && len(op.OutputNames()) == 0
	return op.Role().Has(program.RoleOptimize) || exchanges(def) || def.Class == ops.Serve || saves
}

// exchanges reports whether an op gives variables to other machines, or gets them there, for good.
func exchanges(def *ops.Def) bool { return def.Class == ops.Dist && !def.Asks }

// nonFinite returns the index of the first NaN or infinity. It returns -1 if there is none, or if t does not hold floats.
func nonFinite(t *tensor.Tensor) int {
	switch t.DType() {
	case tensor.Float32:
		return kernel.FirstNonFinite(t.Float32s())
	case tensor.Float64:
		return kernel.FirstNonFinite(t.Float64s())
	}
	return -1
}

func element(t *tensor.Tensor, i int) string {
	if t.DType() == tensor.Float32 {
		return fmt.Sprint(t.Float32s()[i])
	}
	return fmt.Sprint(t.Float64s()[i])
}

// beforeUpdate looks at variables that the first segment computes, such as the loss.
func (c *finiteCheck) beforeUpdate(ctx context.Context) error {
	for _, v := range c.variables {
		if v.writer >= 0 && v.writer < c.update && nonFinite(v.tensor) >= 0 {
			return c.diagnose(ctx, v)
		}
	}
	return nil
}

// afterUpdate looks at fetched variables that the update computes, such as parameters.
func (c *finiteCheck) afterUpdate() error {
	for _, v := range c.variables {
		if v.writer >= c.update && nonFinite(v.tensor) >= 0 {
			return c.notFinite(c.pieces[v.writer], v, "the update has happened: load a saved state, and lower the learning rate or clip gradients")
		}
	}
	return nil
}

// diagnose runs the first segment again, piece by piece, to find the piece that made the first number that is not finite. It computes the same
// again, because feeds and parameters are still those of the step, and random ops depend on the number of the step alone. Only what the forward pass
// updates, such as moving averages, advances once more; Run restores it.
func (c *finiteCheck) diagnose(ctx context.Context, found *variable) error {
	for _, f := range c.feeds {
		if at := nonFinite(f.value); at >= 0 {
			return fault.E(fault.NotFinite, fault.Var(f.name), fault.At(c.where()),
				fault.Gotf("%s in element %d of the feed", element(f.value, at), at), fault.Want("finite numbers"))
		}
	}
	for i, s := range c.pieces[:c.update] {
		for _, v := range s.reads {
			if v.place == scoped && (v.writer < 0 || v.writer >= i) && nonFinite(v.tensor) >= 0 {
				return c.notFinite(s, v, hintBeforeUpdate)
			}
		}
		if err := s.run(ctx); err != nil {
			return failed(ctx, s, err)
		}
		for _, v := range s.writes {
			if v.tensor != nil && nonFinite(v.tensor) >= 0 {
				return c.notFinite(s, v, hintBeforeUpdate)
			}
		}
	}
	return c.notFinite(c.pieces[found.writer], found, hintBeforeUpdate)
}

// hintBeforeUpdate says what to do about numbers that are not finite while the parameters still are.
const hintBeforeUpdate = "lower the learning rate, clip gradients or check the data"

func (c *finiteCheck) notFinite(s *piece, v *variable, hint string) error {
	got := "a variable that was not finite"
	if at := nonFinite(v.tensor); at >= 0 {
		got = fmt.Sprintf("%s in element %d of %s", element(v.tensor, at), at, v.tensor)
	}
	return ops.At(s.op, fault.E(fault.NotFinite, fault.Var(v.name), fault.At(c.where()), fault.Got(got), fault.Want("finite numbers"),
		fault.Hint(hint)))
}

func (c *finiteCheck) where() string { return fmt.Sprintf("step %d", c.step.Round) }
