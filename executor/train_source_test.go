package executor_test

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// batches is a BatchSource of what a test gives.
type batches []*executor.Batch

func (b *batches) Next(context.Context) (*executor.Batch, error) {
	if len(*b) == 0 {
		return nil, io.EOF
	}
	next := (*b)[0]
	*b = (*b)[1:]
	return next, nil
}

func TestTrainFromTellsKernelsWhichRowsTheyHave(t *testing.T) {
	m := testkit.ReadingLine(t, optimizer.SGD(0.05))
	l := executor.New()
	defer l.Close()
	feed := line(1, 3)
	step := ops.Step{Round: 40, Lane: 2, RowOffset: 5, Rows: 3}
	source := &batches{{Tensors: []*tensor.Tensor{feed["x"], feed["y"]}, Step: step, GlobalRows: 8, Pass: 1}}
	summary, err := l.TrainFrom(t.Context(), m.Program, source, executor.TrainOptions{}, func(r executor.StepResult) error {
		if r.Step != 40 || r.Rows != 8 || r.Pass != 1 {
			t.Errorf("result %+v", r)
		}
		if *l.Step() != step {
			t.Errorf("kernels see %+v", *l.Step())
		}
		return nil
	})
	if err != nil || summary.Steps != 1 || summary.Records != 8 {
		t.Errorf("summary %+v, %v", summary, err)
	}
}

func TestBatchesOfTheWrongShapeAreRefused(t *testing.T) {
	m := testkit.ReadingLine(t, optimizer.SGD(0.05))
	feed := line(1, 3)
	for name, b := range map[string]*executor.Batch{
		"too few tensors":            {Tensors: []*tensor.Tensor{feed["x"]}, Step: ops.Step{Rows: 3}},
		"tensors in the wrong order": {Tensors: []*tensor.Tensor{feed["y"], feed["x"]}, Step: ops.Step{Rows: 3}},
		"no rows, and no servers":    {},
	} {
		t.Run(name, func(t *testing.T) {
			l := executor.New()
			defer l.Close()
			if _, err := l.TrainFrom(t.Context(), m.Program, &batches{b}, executor.TrainOptions{}, nil); err == nil {
				t.Error("no error")
			}
		})
	}
}

// A program without a reader trains batches that name their variables; each may have other dims, and says what its step reports.
func TestTrainFromTakesFeeds(t *testing.T) {
	m := fixture.FitALine(t, optimizer.SGD(0.05))
	l := executor.New()
	defer l.Close()
	source := &batches{{Feed: line(1, 3), Step: ops.Step{Rows: 3}, GlobalRows: 3, Fetch: []string{m.Loss}},
		{Feed: line(1, 5), Step: ops.Step{Round: 1, Rows: 5}, GlobalRows: 5}}
	var fetched []int
	summary, err := l.TrainFrom(t.Context(), m.Program, source, executor.TrainOptions{}, func(r executor.StepResult) error {
		fetched = append(fetched, len(r.Fetched))
		return nil
	})
	if err != nil || summary.Steps != 2 || summary.Records != 8 || !slices.Equal(fetched, []int{1, 0}) {
		t.Errorf("summary %+v, fetched %v, %v", summary, fetched, err)
	}
}
