package trainer

import (
	"context"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// reportQueue is how many steps a trainer may be ahead of its reports.
const reportQueue = 64

// reporter sends what was fetched to the coordinator, in order, beside the training.
type reporter struct {
	queue  chan *rpc.TrainerStep
	done   chan struct{} // closed when the queue is empty and closed, or sending has failed
	err    error
	cancel context.CancelFunc
}

func newReporter(ctx context.Context, cfg Config) *reporter {
	ctx, cancel := context.WithCancel(ctx)
	r := &reporter{queue: make(chan *rpc.TrainerStep, reportQueue), done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(r.done)
		for m := range r.queue {
			if r.err = sendReport(ctx, cfg, m); r.err != nil {
				return
			}
		}
	}()
	return r
}

// report queues one step; it waits while the queue is full.
func (r *reporter) report(m *rpc.TrainerStep) error {
	select {
	case r.queue <- m:
		return nil
	case <-r.done:
		return r.err
	}
}

// close sends what is queued and returns the first error.
func (r *reporter) close() error {
	close(r.queue)
	<-r.done
	r.cancel()
	return r.err
}

func sendReport(ctx context.Context, cfg Config, m *rpc.TrainerStep) error {
	ctx, cancel := context.WithTimeout(ctx, cfg.RoundDeadline)
	defer cancel()
	return wire.Retry(ctx, func(attempt uint32) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		m.Id.Attempt = attempt
		stream, err := cfg.Coordinator.ReportStep(ctx)
		if err != nil {
			return wire.FromStatus("coordinator", err)
		}
		// A failed Send means that the other end has closed the stream; its answer says why.
		sendErr := wire.SendPieces(m, func(piece []byte) error { return stream.Send(&rpc.StepReport{Piece: piece}) })
		if _, err = stream.CloseAndRecv(); err == nil {
			err = sendErr
		}
		return wire.FromStatus("coordinator", err)
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
