package remote_test

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// The op test_pause copies. In a child of a rig its gradient stops until the rig lets it go on: what was computed behind it has been sent by then,
// and what lies before it has not.
func init() {
	ops.Register(ops.Def{
		Type:    "test_pause",
		Doc:     "Copies float32, and waits for a test in the backward pass.",
		Inputs:  []ops.Slot{{Name: "X"}},
		Outputs: []ops.Slot{{Name: "Out"}},
		Attrs:   []ops.Attr{{Name: "waits", Default: int32(0)}},
		Infer:   func(s *ops.Shapes) error { s.Like("Out", "X"); return nil },
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("test_pause")
			op.Inputs["X"], op.Outputs["Out"] = g.OutGrad("Out"), g.InGrad("X")
			op.SetAttr("waits", int32(1))
			return []*program.Op{op}, nil
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			x, out, waits := b.In("X"), b.Out("Out"), b.Int("waits") == 1
			return func(ctx context.Context) error {
				copy(out.Float32s(), x.Float32s())
				if address := os.Getenv(pauseEnv); waits && address != "" {
					return pause(ctx, address)
				}
				return nil
			}, nil
		},
	})
}

// pauses appends test_pause to a model.
func pauses(x layers.Variable) layers.Variable {
	return layers.Op(x.Model(), "test_pause", layers.In{"X": {x}}, nil).One("Out")
}

// pause tells a rig that this process has stopped, and waits for its answer.
func pause(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	fmt.Fprintln(conn, "paused", os.Getpid())
	_, err = conn.Read(make([]byte, 1))
	return err
}
