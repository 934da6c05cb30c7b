package comm

import "github.com/edl-go/edl/ops"

func init() {
	barrier("send_barrier", "Waits until every send is acknowledged, then declares this trainer's contribution complete at every pserver.",
		func(c ops.Comm) ops.Kernel { return c.SendBarrier })
	barrier("fetch_barrier", "Waits until every recv is complete.",
		func(c ops.Comm) ops.Kernel { return c.FetchBarrier })
}

func barrier(opType, doc string, wait func(ops.Comm) ops.Kernel) {
	ops.Register(ops.Def{
		Type:    opType,
		Class:   ops.Dist,
		Doc:     doc,
		Inputs:  []ops.Slot{controlIn},
		Outputs: []ops.Slot{controlOut},
		Infer: func(s *ops.Shapes) error {
			control(s)
			return nil
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			comm, err := wire(b)
			if err != nil {
				return nil, err
			}
			return wait(comm), nil
		},
	})
}
