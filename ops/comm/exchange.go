package comm

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:  "exchange_partials",
		Class: ops.Dist,
		Doc: "Gives every pserver the X of all pservers in the current round, such as the exact partial sums behind a global norm. X must have one " +
			"name, type and shape on all of them. It blocks until all have published theirs.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "what this pserver contributes"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the X of each pserver, in the order of their indexes", Duplicable: true}},
		Infer: func(s *ops.Shapes) error {
			x := s.In("X")
			if x.Kind != program.LoDTensor {
				return s.Errorf("X", "a tensor")
			}
			s.Set("Out", x.DType, x.Dims...)
			return nil
		},
		Bind: bindExchange,
	})
}

func bindExchange(b *ops.Binding) (ops.Kernel, error) {
	server, err := server(b)
	if err != nil {
		return nil, err
	}
	name, own, all := b.Op().In("X"), b.In("X"), b.Outs("Out")
	if own == nil || slices.ContainsFunc(all, func(t *tensor.Tensor) bool { return t == nil }) {
		return nil, fault.E(fault.InvalidProgram, fault.Got("a variable without a value"), fault.Want("X and an Out for each pserver"))
	}
	for _, t := range all {
		if t.DType() != own.DType() || !slices.Equal(t.Dims(), own.Dims()) {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("Out %v", t), fault.Wantf("%v as X", own))
		}
	}
	return func(ctx context.Context) error { return server.Exchange(ctx, name, own, all) }, nil
}
