package comm

import (
	"context"

	"github.com/edl-go/edl/ops"
)

func init() {
	ops.Register(ops.Def{
		Type:    "recv",
		Class:   ops.Dist,
		Doc:     "Starts receiving each Out from its pserver. Out is complete when the fetch barrier has returned.",
		Inputs:  []ops.Slot{controlIn},
		Outputs: []ops.Slot{{Name: "Out", Doc: "what to receive", Duplicable: true}},
		Attrs: []ops.Attr{
			{Name: epmapAttr, Kind: []string{}, Doc: "logical address of the pserver of each Out, such as pserver:0"},
			{Name: "recv_varnames", Default: []string{}, Doc: "name of each Out at its pserver; empty for its own name"},
		},
		Infer: func(s *ops.Shapes) error {
			// The outputs keep their zero Meta: their shapes are what the program declares.
			_, err := destinations(s, s.Op().Outputs["Out"], "recv_varnames")
			return err
		},
		Bind: bindRecv,
	})
}

func bindRecv(b *ops.Binding) (ops.Kernel, error) {
	comm, err := wire(b)
	if err != nil {
		return nil, err
	}
	all, err := messages(b, b.Op().Outputs["Out"], b.Outs("Out"), "recv_varnames", ops.MergeNone)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		for i := range all {
			if err := comm.Recv(ctx, all[i]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
