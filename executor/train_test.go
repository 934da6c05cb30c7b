package executor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

func TestTrainReadsItsFiles(t *testing.T) {
	m := testkit.ReadingLine(t, optimizer.SGD(0.05))
	l := executor.New()
	defer l.Close()
	data := testkit.LineFiles(t, t.TempDir(), 100)
	var rows []int64
	var passes []int
	var losses []float32
	summary, err := l.Train(t.Context(), m.Program, executor.TrainOptions{Data: data, Passes: 30, Fetch: []string{m.Loss}},
		func(r executor.StepResult) error {
			if r.Step != uint64(len(rows)) {
				t.Errorf("step %d, want %d", r.Step, len(rows))
			}
			rows, passes, losses = append(rows, r.Rows), append(passes, r.Pass), append(losses, r.Fetched[0].Float32s()[0])
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if want := slices.Repeat([]int64{8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 4}, 30); !slices.Equal(rows, want) {
		t.Errorf("rows %v", rows)
	}
	if passes[12] != 0 || passes[13] != 1 || summary.Passes != 30 || summary.Steps != 390 || summary.Records != 3000 {
		t.Errorf("summary %+v", summary)
	}
	if last := losses[len(losses)-1]; last > 1e-3 {
		t.Errorf("loss %v at the end, %v at the start", last, losses[0])
	}
	if losses[0] == losses[13] {
		t.Error("the second pass sees the rows in the order of the first")
	}
}

// What cannot be saved is not trained.
func TestTrainLooksWhereItWillSave(t *testing.T) {
	m := testkit.ReadingLine(t, optimizer.SGD(0.05))
	l := executor.New()
	defer l.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run := executor.TrainOptions{Data: testkit.LineFiles(t, t.TempDir(), 100), Save: file}
	summary, err := l.Train(t.Context(), m.Program, run, nil)
	if !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), file+": not a directory") || summary.Steps != 0 {
		t.Errorf("%d steps, %v", summary.Steps, err)
	}
	run.Save = filepath.Join(t.TempDir(), "new")
	if _, err := l.Train(t.Context(), m.Program, run, nil); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadDir(run.Save)
	if err != nil || len(saved) != len(executor.Persistables(m.Program))+1 { // and the progress
		t.Errorf("saved %v, %v", saved, err)
	}
}

func TestTrainBindsExactlyTheDatasetsThatAreRead(t *testing.T) {
	m := testkit.ReadingLine(t, optimizer.SGD(0.05))
	good := testkit.LineFiles(t, t.TempDir(), 8)
	for name, test := range map[string]struct {
		data map[string][]string
		kind fault.Kind
	}{
		"nothing bound":   {nil, fault.NotFound},
		"another bound":   {map[string][]string{"lines": good[testkit.Dataset]}, fault.NotFound},
		"one too many":    {map[string][]string{testkit.Dataset: good[testkit.Dataset], "test": good[testkit.Dataset]}, fault.InvalidArgument},
		"no such files":   {map[string][]string{testkit.Dataset: {"nowhere-*"}}, fault.NotFound},
		"no records":      {testkit.LineFiles(t, t.TempDir(), 0), fault.NotFound},
		"no read op":      {nil, fault.InvalidProgram},
		"all is in place": {good, fault.OK},
	} {
		t.Run(name, func(t *testing.T) {
			l := executor.New()
			defer l.Close()
			p := m.Program
			if test.kind == fault.InvalidProgram {
				p = fixture.FitALine(t, nil).Program
			}
			_, err := l.Train(t.Context(), p, executor.TrainOptions{Data: test.data}, nil)
			if fault.KindOf(err) != test.kind {
				t.Errorf("got %v, want %v", err, test.kind)
			}
		})
	}
}

func TestTrainEndsWhenItIsTold(t *testing.T) {
	m := testkit.ReadingLine(t, optimizer.SGD(0.05))
	data := testkit.LineFiles(t, t.TempDir(), 100)
	enough := errors.New("enough")
	for name, test := range map[string]struct {
		each func(cancel func()) error
		want error
	}{
		"by its callback": {func(func()) error { return enough }, enough},
		"by its context":  {func(cancel func()) error { cancel(); return nil }, fault.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			l := executor.New()
			defer l.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			summary, err := l.Train(ctx, m.Program, executor.TrainOptions{Data: data}, func(executor.StepResult) error { return test.each(cancel) })
			if !errors.Is(err, test.want) || summary.Steps != 1 {
				t.Errorf("got %v after %d steps, want %v after 1", err, summary.Steps, test.want)
			}
		})
	}
}

func TestRunFeedsAProgramThatReads(t *testing.T) {
	m := testkit.ReadingLine(t, optimizer.SGD(0.05))
	l := executor.New()
	defer l.Close()
	if _, err := l.Run(t.Context(), m.Program, line(1, 5), m.Loss); err != nil {
		t.Error(err)
	}
}

func TestTrainContinuesFromSavedParameters(t *testing.T) {
	m := testkit.ReadingLine(t, optimizer.Adam(0.01))
	data := testkit.LineFiles(t, t.TempDir(), 40)
	dir := t.TempDir()
	once, again := executor.New(), executor.New()
	defer once.Close()
	defer again.Close()
	if _, err := once.Train(t.Context(), m.Program, executor.TrainOptions{Data: data, Save: dir}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Train(t.Context(), m.Program, executor.TrainOptions{Data: data, Params: dir}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := once.Train(t.Context(), m.Program, executor.TrainOptions{Data: data}, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range once.Scope().Names() {
		want, _ := once.Scope().Find(name)
		got, ok := again.Scope().Find(name)
		if !ok || !slices.Equal(got.Float32s(), want.Float32s()) {
			t.Errorf("%s differs", name)
		}
	}
}

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
		if step.Hour = l.Step().Hour; *l.Step() != step { // of the clock
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

// A reader of a dataset that grew file by file, and of a dataset that was there from the beginning, give the same batches.
func TestReaderOfADatasetThatGrows(t *testing.T) {
	p := testkit.ReadingLine(t, optimizer.SGD(0.05)).Program
	data := testkit.LineFiles(t, t.TempDir(), 100)
	whole, err := executor.OpenReader(t.Context(), p, data)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	d := new(dataset.Dataset)
	grown, err := executor.NewReader(p, data, d)
	if err != nil {
		t.Fatal(err)
	}
	defer grown.Close()
	_, files := whole.Dataset()
	for _, f := range files.Files() {
		if err := d.Add(t.Context(), f.Path, f); err != nil {
			t.Fatal(err)
		}
	}
	batches := func(r *executor.Reader) (all []string) {
		_, d := r.Dataset()
		open := func(from int64) iter.Seq2[dataset.Record, error] { return d.Records(t.Context(), from, d.NumRecords()) }
		for b, err := range r.Segment(t.Context(), executor.Segment{Pass: 1, First: 5, Open: open}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprint(b.Records, b.Tensors[0].Float32s()))
		}
		return all
	}
	if got, want := batches(grown), batches(whole); len(want) != 8 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("batches %v, want %v", got, want)
	}
	if _, err := executor.NewReader(p, map[string][]string{"other": nil}, d); !errors.Is(err, fault.NotFound) {
		t.Errorf("a dataset that is not bound: %v", err)
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
