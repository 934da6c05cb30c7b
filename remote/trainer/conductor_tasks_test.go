package trainer

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

func (c *conductor) ReportDataset(stream grpc.ClientStreamingServer[rpc.Piece, rpc.ReportDatasetResponse]) error {
	m := &rpc.ReportDatasetRequest{}
	if err := wire.Receive("conductor", stream, m, wire.MaxDataset); err != nil {
		return err
	}
	var err error
	c.change(func() {
		if c.queue == nil {
			c.data = m.Dataset
			c.queue, _, err = queue.New(c.policy, queue.Dataset{Name: m.Dataset.Name, Files: m.Dataset.Files})
		}
	})
	if err != nil {
		return err
	}
	return stream.SendAndClose(&rpc.ReportDatasetResponse{})
}

func (c *conductor) GetTask(ctx context.Context, m *rpc.GetTaskRequest) (*rpc.GetTaskResponse, error) {
	r := &rpc.GetTaskResponse{}
	first := true
	err := c.await(ctx, func() (bool, error) {
		if err := c.admit(m.Id); err != nil {
			return false, err
		}
		for _, task := range m.Finished {
			if !first {
				break
			}
			if _, err := c.queue.Step(time.Since(c.policy.Epoch), queue.TaskFinished{Rank: id.Rank(m.Id.Rank), Since: id.Generation(m.Id.Generation), Task: task}); err != nil {
				return false, err
			}
			close(c.changed)
			c.changed = make(chan struct{})
		}
		if first && !m.ReportOnly {
			c.gets++
		}
		first = false
		if m.ReportOnly {
			return true, nil
		}
		effects, err := c.queue.Step(time.Since(c.policy.Epoch), queue.TaskWanted{Rank: id.Rank(m.Id.Rank), Since: id.Generation(m.Id.Generation), Request: m.Id.Round,
			Pass: m.Pass, Position: m.Position, Records: m.Records, Round: id.Round(m.Id.Round)})
		if err != nil {
			return false, err
		}
		g := effects.Grant
		r = &rpc.GetTaskResponse{Task: g.Task, Next: g.Next, EndOfPass: g.EndOfPass, EndOfData: g.EndOfData, Pending: g.Wait}
		return !g.Wait || !m.Wait, nil
	})
	return r, err
}

func (c *conductor) TaskFailed(_ context.Context, m *rpc.TaskFailedRequest) (r *rpc.TaskFailedResponse, err error) {
	var ended uint64
	c.change(func() {
		if err = c.admit(m.Id); err != nil {
			return
		}
		c.failed = append(c.failed, m)
		_, err = c.queue.Step(time.Since(c.policy.Epoch), queue.TaskFailed{Rank: id.Rank(m.Id.Rank), Since: id.Generation(m.Id.Generation), Task: m.Task, Reason: m.Reason})
		if err == nil && c.policy.Sync {
			c.ended, ended = c.current.Number, c.current.Number
		}
	})
	if ended > 0 {
		c.failing(ended)
	}
	return &rpc.TaskFailedResponse{}, err
}

func (c *conductor) RequestSaveModel(ctx context.Context, m *rpc.SaveModelRequest) (*rpc.SaveModelResponse, error) {
	granted := false
	err := c.await(ctx, func() (bool, error) {
		if err := c.admit(m.Id); err != nil {
			return false, err
		}
		if c.saver == nil {
			c.saver = &m.Id.Rank
		}
		granted = *c.saver == m.Id.Rank
		return !granted || len(c.left) == len(c.current.Members)-1, nil
	})
	return &rpc.SaveModelResponse{Granted: granted}, err
}

func (c *conductor) ReportStep(stream grpc.ClientStreamingServer[rpc.Piece, rpc.ReportStepResponse]) error {
	m := &rpc.TrainerStep{}
	if err := wire.Receive("trainer", stream, m, 1<<20); err != nil {
		return wire.FromStatus("trainer", err)
	}
	if c.hold != nil {
		<-c.hold
	}
	c.change(func() {
		if c.reports = append(c.reports, m); m.Id.Generation <= c.asked[m.Id.Rank] {
			c.late = append(c.late, m)
		}
	})
	return stream.SendAndClose(&rpc.ReportStepResponse{})
}
