package coordinator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/rig"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config is a job with deadlines that no test reaches. Its program declares x, label and y, which are batched, and rate, which is not; what
// trainers fetch merges to the concatenation of their bytes.
func config(trainers int) coordinator.Config {
	p := program.New()
	p.Global().EnsureVar(program.Var{Name: "x", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 2}})
	for _, name := range []string{"label", "y"} {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 2}})
	}
	p.Global().EnsureVar(program.Var{Name: "rate", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}})
	return coordinator.Config{Identity: rig.Identity, Program: p, Trainers: trainers, Sync: true, Passes: 1, RecordsPerTask: 10, MaxFailures: 1,
		StartDeadline: time.Hour, TaskTimeout: [2]time.Duration{time.Minute, time.Hour},
		Merge: func(reports []*rpc.TrainerStep) ([]*job.Value, error) {
			out := &job.Value{Name: "y"}
			for _, r := range reports {
				for _, v := range r.Fetched {
					out.Stream = append(out.Stream, v.Stream...)
				}
			}
			if bytes.Contains(out.Stream, []byte("broken")) {
				return nil, errors.New("cannot be merged")
			}
			return []*job.Value{out}, nil
		}}
}

// running is a coordinator that runs over loopback until the test ends.
type running struct {
	*coordinator.Server
	client rpc.CoordinatorClient
	ended  chan error
}

func start(t *testing.T, cfg coordinator.Config) running {
	s := running{Server: coordinator.New(cfg), ended: make(chan error, 1)}
	service := wire.NewServer()
	rpc.RegisterCoordinatorServer(service, s.Server)
	s.client = rpc.NewCoordinatorClient(rig.Serve(t, service))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ended <- s.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

func id(rank uint32, round uint64) *rpc.Identity { return rig.Identity.Of(rank, round, 0) }

func (s running) reportDataset(t *testing.T, records ...int64) {
	t.Helper()
	if _, err := s.client.ReportDataset(t.Context(), &rpc.ReportDatasetRequest{Id: id(0, 0), Dataset: &rpc.Dataset{Name: "d", Chunks: chunksOf(records...)}}); err != nil {
		t.Fatal(err)
	}
}

// leave is the last message of a trainer.
func (s running) leave(ctx context.Context, rank uint32) error {
	_, err := s.client.Leave(ctx, &rpc.LeaveRequest{Id: id(rank, 0)})
	return err
}

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
		var e *job.Event
		if e, err = stream.Recv(); err == nil {
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
