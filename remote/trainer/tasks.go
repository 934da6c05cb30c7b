package trainer

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// A source is where a trainer's batches come from in one generation.
type source interface {
	executor.BatchSource
	// HandIn reports the tasks that are finished with the step of the last batch, which has ended well. No batch is asked for after it.
	HandIn(ctx context.Context) error
	// Close ends what reads ahead.
	Close()
}

// tasks are a trainer's calls about the tasks of a dataset, in one generation.
type tasks struct {
	coordinator rpc.CoordinatorClient
	ask         asking
	rank        uint32
	of          *generation
	dataset     string
}

// get reports finished tasks and asks for another, unless m is a mere report. number is the round of its identity. A request that is to wait does so
// at the coordinator, which knows for whom and tells it: one that sends the trainer back is refused, for there would be no end of asking.
func (t *tasks) get(ctx context.Context, number uint64, m *rpc.GetTaskRequest) (r *rpc.GetTaskResponse, err error) {
	m.Dataset = t.dataset
	err = t.ask.call(ctx, question{"coordinator", fmt.Sprintf("a task of pass %d", m.Pass)}, func(ctx context.Context, attempt uint32) (err error) {
		m.Id = t.of.identity.Of(t.rank, number, attempt)
		r, err = t.coordinator.GetTask(ctx, m, grpc.WaitForReady(false))
		return err
	})
	if err == nil && m.Wait && endingOf(r) == pending {
		return nil, fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("no task of pass %d, and not its end", m.Pass),
			fault.Want("one of them, as the request waits"))
	}
	return r, err
}

// failed tells that a task has records that cannot be read.
func (t *tasks) failed(ctx context.Context, task *rpc.Task, reason error) error {
	return t.ask.call(ctx, question{"coordinator", fmt.Sprintf("taking task %d back", task.Id)}, func(ctx context.Context, attempt uint32) error {
		_, err := t.coordinator.TaskFailed(ctx, &rpc.TaskFailedRequest{Id: t.of.identity.Of(t.rank, 0, attempt), Task: task, Reason: reason.Error()},
			grpc.WaitForReady(false))
		return err
	})
}

// report tells which files the dataset has.
func (t *tasks) report(ctx context.Context, data *dataset.Dataset) error {
	m := &rpc.Dataset{Name: t.dataset}
	for _, f := range data.Files() {
		m.Files = append(m.Files, &rpc.DataFile{Path: f.Path, FirstRecord: f.FirstRecord, Records: f.Records, Bytes: f.Bytes, Fingerprint: f.Fingerprint})
	}
	return t.ask.call(ctx, question{"coordinator", "taking the dataset"}, func(ctx context.Context, attempt uint32) error {
		id := t.of.identity.Of(t.rank, 0, attempt)
		return wire.ReportDataset(ctx, t.coordinator, &rpc.ReportDatasetRequest{Id: id, Dataset: m}, grpc.WaitForReady(false))
	})
}

// ending says what follows a stream of records.
type ending int

const (
	more    ending = iota // the rest of it: it has not ended
	pending               // async: tasks of the pass may come back from others; never the answer to a request that waits
	passEnd
	dataEnd
)

func endingOf(r *rpc.GetTaskResponse) ending {
	switch {
	case r.EndOfData:
		return dataEnd
	case r.EndOfPass:
		return passEnd
	case r.Task == nil:
		return pending
	}
	return more
}

// batches is a stream of batches that is read from, with what ends its reading ahead.
type batches struct {
	next   func() (*dataset.Batch, error, bool)
	stop   func()
	cancel context.CancelFunc
}

// close ends the stream. The calls that read ahead are cancelled first: nobody waits for their answers.
func (b *batches) close() {
	if b != nil {
		b.cancel()
		b.stop()
	}
}
