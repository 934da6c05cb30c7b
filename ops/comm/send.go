package comm

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

func init() {
	ops.Register(ops.Def{
		Type:  "send",
		Class: ops.Dist,
		Doc: "Starts sending each X to its pserver, as this trainer's contribution to the round. X must stay as it is until the send barrier has " +
			"returned.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "what to send", Duplicable: true}},
		Outputs: []ops.Slot{controlOut},
		Attrs: []ops.Attr{
			{Name: epmapAttr, Kind: []string{}, Doc: "logical address of the pserver of each X, such as pserver:0"},
			{Name: "send_varnames", Default: []string{}, Doc: "name of each X at its pserver; empty for its own name"},
			{Name: "merge", Default: int32(ops.MergeMean),
				Doc: "how the contributions of all trainers become one: 1 mean weighted by rows, 2 sum, 3 the first", Check: checkMerge},
		},
		Infer: func(s *ops.Shapes) error {
			for i, m := range s.Ins("X") {
				if m.Kind != program.LoDTensor {
					return fault.E(fault.Unsupported, fault.Var(s.Op().Inputs["X"][i]), fault.Gotf("X %v", m), fault.Want("a dense tensor"))
				}
			}
			control(s)
			_, err := destinations(s, s.Op().Inputs["X"], "send_varnames")
			return err
		},
		Bind:        bindSend,
		HoldsInputs: true,
	})
}

func bindSend(b *ops.Binding) (ops.Kernel, error) {
	comm, err := wire(b)
	if err != nil {
		return nil, err
	}
	all, err := messages(b, b.Op().Inputs["X"], b.Ins("X"), "send_varnames", ops.Merge(b.Int("merge")))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		for i := range all {
			if err := comm.Send(ctx, all[i]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func checkMerge(op *program.Op) error {
	if v, ok := op.Int("merge"); ok && !mergeable(v) {
		return errors.New("1 for a mean, 2 for a sum or 3 for the first")
	}
	return nil
}

// mergeable reports whether contributions can be merged by the way of this number.
func mergeable(merge int64) bool {
	return merge >= int64(ops.MergeMean) && merge <= int64(ops.MergeFirst)
}
