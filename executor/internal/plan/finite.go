package plan

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// nonFinite returns the index of the first NaN or infinity, -1 when there is none or t is no float.
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

// checkBeforeUpdate looks at what the first segment computed.
func (p *Plan) checkBeforeUpdate(ctx context.Context) error {
	update := p.firstPiece(p.update)
	for _, v := range p.checks {
		if v.writer >= 0 && v.writer < update && nonFinite(v.tensor) >= 0 {
			return p.diagnose(ctx, v)
		}
	}
	return nil
}

// checkAfterUpdate looks at fetched variables that the update computes, such as parameters.
func (p *Plan) checkAfterUpdate() error {
	update := p.firstPiece(p.update)
	for _, v := range p.checks {
		if v.writer >= update && nonFinite(v.tensor) >= 0 {
			return p.notFinite(p.pieces[v.writer], v)
		}
	}
	return nil
}

// diagnose runs the first segment again, piece by piece, to find the one that made the first number that is not finite. The feeds and parameters
// are those of the step, and chance is counted, so it computes the same again; only statistics that the forward pass itself
// updates, such as moving averages, advance once more.
func (p *Plan) diagnose(ctx context.Context, found *variable) error {
	for _, f := range p.feeds {
		if at := nonFinite(f.value); at >= 0 {
			return fault.E(fault.NotFinite, fault.Var(f.name), fault.At(p.where()),
				fault.Gotf("%s in element %d of the feed", element(f.value, at), at), fault.Want("finite numbers"))
		}
	}
	for i, s := range p.pieces[:p.firstPiece(p.update)] {
		for _, v := range s.reads {
			if v.place == scoped && (v.writer < 0 || v.writer >= i) && nonFinite(v.tensor) >= 0 {
				return p.notFinite(s, v)
			}
		}
		if err := s.run(ctx); err != nil {
			return failed(ctx, s, err)
		}
		for _, v := range s.writes {
			if v.tensor != nil && nonFinite(v.tensor) >= 0 {
				return p.notFinite(s, v)
			}
		}
	}
	return p.notFinite(p.pieces[found.writer], found)
}

func (p *Plan) notFinite(s *piece, v *variable) error {
	got := "a variable that was not finite"
	if at := nonFinite(v.tensor); at >= 0 {
		got = fmt.Sprintf("%s in element %d of %v", element(v.tensor, at), at, v.tensor)
	}
	return ops.At(s.op, fault.E(fault.NotFinite, fault.Var(v.name), fault.At(p.where()), fault.Got(got), fault.Want("finite numbers"),
		fault.Hint("lower the learning rate, clip gradients or check the data")))
}

func (p *Plan) where() string { return fmt.Sprintf("step %d", p.step.Round) }
