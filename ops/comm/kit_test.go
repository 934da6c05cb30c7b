package comm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

type (
	attrs = map[string]program.Attr
	args  = map[string][]string
)

var errWire = errors.New("the wire is cut")

// recorder is an ops.Comm that writes down what it is asked to do and fails from call number failAt on, if that is not 0.
type recorder struct {
	calls    []string
	messages []ops.Message
	failAt   int
}

func (r *recorder) call(what string, m ...ops.Message) error {
	r.messages = append(r.messages, m...)
	for _, m := range m {
		what += fmt.Sprintf(" %s %d %d %s", m.Name, m.Server, m.Merge, m.Value)
	}
	r.calls = append(r.calls, what)
	if r.failAt > 0 && len(r.calls) >= r.failAt {
		return errWire
	}
	return nil
}

func (r *recorder) Send(_ context.Context, m ops.Message) error { return r.call("send", m) }
func (r *recorder) Recv(_ context.Context, m ops.Message) error { return r.call("recv", m) }
func (r *recorder) SendBarrier(context.Context) error           { return r.call("send barrier") }
func (r *recorder) FetchBarrier(context.Context) error          { return r.call("fetch barrier") }

// fakeServer is an ops.Server that keeps what it is called with; the value of server i in an exchange is own times 10 to the i.
type fakeServer struct {
	op     *program.Op
	blocks ops.BlockRunner
	name   string
}

func (f *fakeServer) Serve(_ context.Context, op *program.Op, blocks ops.BlockRunner) error {
	f.op, f.blocks = op, blocks
	return errWire
}

func (f *fakeServer) Exchange(_ context.Context, name string, own *tensor.Tensor, all []*tensor.Tensor) error {
	f.name = name
	factor := int64(1)
	for _, t := range all {
		for i, v := range own.Int64s() {
			t.Int64s()[i] = v * factor
		}
		factor *= 10
	}
	return nil
}

// noBlocks is a BlockRunner that has none.
type noBlocks struct{}

func (noBlocks) RunBlock(context.Context, program.BlockIndex, ops.Step) error { return errWire }
func (noBlocks) Variable(string) (*tensor.Tensor, bool)                       { return nil, false }

func vector(t testing.TB, values ...float32) *tensor.Tensor {
	t.Helper()
	v, err := tensor.FromSlice(values)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// infer runs the inference of op; every input is a tensor of these dims.
func infer(op *program.Op, dims ...int64) (*ops.Shapes, error) {
	return ops.Infer(op, func(string) (ops.Meta, bool) {
		return ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: dims}, true
	})
}

func bind(op *program.Op, env *ops.Env, in, out map[string][]*tensor.Tensor) (ops.Kernel, error) {
	def, _ := ops.Lookup(op.Type)
	return def.Bind(ops.NewBinding(op, def, env, in, out, nil))
}
