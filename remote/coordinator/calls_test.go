package coordinator_test

import (
	"context"
	"fmt"
	"io"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// report tells what a trainer fetched in a step.
func (s running) report(ctx context.Context, m *rpc.TrainerStep) error {
	return wire.ReportStep(ctx, s.client, m)
}

// feed runs one fed step.
func (s running) feed(ctx context.Context, run *rpc.StepRun) (*job.Step, error) {
	step, err := wire.RunStep(ctx, "coordinator", s.client.Feed, id(0, 0), run)
	return step, wire.FromStatus("coordinator", err)
}

// nextFeed asks for a trainer's share.
func (s running) nextFeed(ctx context.Context, rank uint32, n uint64) (*rpc.FeedShare, error) {
	stream, err := s.client.NextFeed(ctx, &rpc.NextFeedRequest{Id: id(rank, n)})
	if err != nil {
		return nil, err
	}
	share := &rpc.FeedShare{}
	return share, wire.FromStatus("coordinator", wire.Receive("coordinator", stream, share, 1<<20))
}

// watch returns every step that is reported until the job has ended, and its last status.
func (s running) watch(ctx context.Context) (steps []*job.Step, last *job.JobStatus, err error) {
	stream, err := s.client.Watch(ctx, &rpc.WatchRequest{Job: rig.Identity.Job})
	for err == nil {
		var m *rpc.WatchResponse
		if m, err = stream.Recv(); err == nil {
			e := m.Event
			if e.GetStep() != nil {
				steps = append(steps, e.GetStep())
			}
			last = e.GetStatus()
		}
	}
	if err == io.EOF {
		err = nil
	}
	return steps, last, wire.FromStatus("coordinator", err)
}

// batch is x with rows of two elements, the first of which is the number of the row.
func batch(rows int64) *job.Value {
	x := rig.Vector(2 * rows)
	for i := range rows {
		x.Float32s()[2*i] = float32(i)
	}
	x, err := tensor.FromSlice(x.Float32s(), rows, 2)
	if err != nil {
		panic(err)
	}
	return &job.Value{Name: "x", Stream: tensor.AppendStream(nil, x)}
}

// rowsOf lists the numbers of the rows of x in a share.
func rowsOf(share *rpc.FeedShare) (string, error) {
	text := ""
	for _, v := range share.Feed {
		x, _, err := tensor.DecodeStream(v.Stream, tensor.Limits{})
		if err != nil {
			return "", err
		}
		for i := 0; v.Name == "x" && i < x.Len(); i += 2 {
			text += fmt.Sprintf("%v ", x.Float32s()[i])
		}
	}
	return text, nil
}
