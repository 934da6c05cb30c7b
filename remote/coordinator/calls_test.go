package coordinator_test

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// report tells what a trainer fetched in a step.
func (s running) report(ctx context.Context, m *rpc.TrainerStep) error {
	stream, err := s.client.ReportStep(ctx)
	if err != nil {
		return err
	}
	_ = wire.SendPieces(m, func(b []byte) error { return stream.Send(&rpc.StepReport{Piece: b}) }) // the answer says why it failed
	_, err = stream.CloseAndRecv()
	return wire.FromStatus("coordinator", err)
}

// feed runs one fed step.
func (s running) feed(ctx context.Context, run *rpc.StepRun) (*job.Step, error) {
	stream, err := s.client.Feed(ctx)
	if err != nil {
		return nil, err
	}
	_ = wire.SendPieces(run, func(b []byte) error { return stream.Send(&rpc.StepChunk{Piece: b}) })
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	done := &rpc.StepDone{}
	err = receive(done, stream.Recv)
	return done.Step, err
}

// nextFeed asks for a trainer's share.
func (s running) nextFeed(ctx context.Context, rank uint32, n uint64) (*rpc.FeedShare, error) {
	stream, err := s.client.NextFeed(ctx, &rpc.NextFeedRequest{Id: id(rank, n)})
	if err != nil {
		return nil, err
	}
	share := &rpc.FeedShare{}
	return share, receive(share, stream.Recv)
}

func receive(m proto.Message, recv func() (*rpc.StepChunk, error)) error {
	return wire.ReceivePieces(m, 1<<20, func() ([]byte, error) {
		c, err := recv()
		if err != nil && err != io.EOF {
			err = wire.FromStatus("coordinator", err)
		}
		return c.GetPiece(), err
	})
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
