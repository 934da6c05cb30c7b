package trainer

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// reportQueue is how many steps a trainer may be ahead of its reports.
const reportQueue = 64

// reporter sends what was fetched to the coordinator, in order, while the training goes on, through all generations.
type reporter struct {
	trainer *Trainer
	queue   chan reported
	done    chan struct{} // closed when the queue is empty and closed, or sending has failed
	err     error         // valid when done is closed
	cancel  context.CancelFunc
}

// reported is a step to report, or a mark that is closed when all before it has been sent.
type reported struct {
	step *rpc.TrainerStep
	mark chan struct{}
}

func newReporter(ctx context.Context, t *Trainer) *reporter {
	ctx, cancel := context.WithCancel(ctx)
	r := &reporter{trainer: t, queue: make(chan reported, reportQueue), done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(r.done)
		for m := range r.queue {
			if m.mark != nil {
				close(m.mark)
			} else if r.err = r.send(ctx, m.step); r.err != nil {
				return
			}
		}
	}()
	return r
}

// report queues one step; it waits while the queue is full.
func (r *reporter) report(m *rpc.TrainerStep) error { return r.put(reported{step: m}) }

func (r *reporter) put(m reported) error {
	select {
	case r.queue <- m:
		return nil
	default:
	}
	w := r.trainer.caller.begin(callTarget{"coordinator", "room for another report of a step"}, 0)
	defer w.end()
	select {
	case r.queue <- m:
		return nil
	case <-r.done:
		return r.err
	}
}

// flush returns when everything that was queued has been sent.
func (r *reporter) flush() error {
	mark := make(chan struct{})
	if err := r.put(reported{mark: mark}); err != nil {
		return err
	}
	select {
	case <-mark:
		return nil
	case <-r.done:
		return r.err
	}
}

// close ends the reporter; what has not been flushed may be lost.
func (r *reporter) close() {
	r.cancel()
	close(r.queue)
	<-r.done
}

func (r *reporter) send(ctx context.Context, m *rpc.TrainerStep) error {
	return r.trainer.caller.call(ctx, callTarget{"coordinator", "taking the report of a step"}, func(ctx context.Context, retry id.Retry) error {
		m.Id.Retry = uint32(retry)
		return wire.ReportStep(ctx, r.trainer.cfg.Coordinator, m, grpc.WaitForReady(false))
	})
}

// encode copies fetched tensors into messages. A step without rows has fetched nothing.
func encode(names []string, values []*tensor.Tensor) []*job.Value {
	out := make([]*job.Value, len(values))
	for i, t := range values {
		out[i] = &job.Value{Name: names[i], Stream: tensor.AppendStream(nil, t)}
	}
	return out
}

// beforeDeclaration leaves out what a trainer program receives after it has declared its contribution.
func beforeDeclaration(p *program.Program, fetched []*job.Value) []*job.Value {
	declared, received := false, map[string]bool{}
	for _, op := range p.Global().Ops {
		declared = declared || op.Type == "send_barrier"
		for _, name := range op.OutputNames() {
			received[name] = declared
		}
	}
	return slices.DeleteFunc(fetched, func(v *job.Value) bool { return received[v.Name] })
}
