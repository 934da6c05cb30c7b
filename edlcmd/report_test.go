package edlcmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/tensor"
)

func vector[T tensor.Element](t *testing.T, values []T, dims ...int64) *tensor.Tensor {
	t.Helper()
	v, err := tensor.FromSlice(values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestValuesForPeople(t *testing.T) {
	long := make([]int32, 20)
	for i := range long {
		long[i] = int32(i)
	}
	for _, test := range []struct {
		value *tensor.Tensor
		want  string
	}{
		{vector(t, []float32{0.1, float32(math.NaN())}, 2), "[0.1 NaN]"},
		{vector(t, []float64{0.1, math.Inf(-1)}, 1, 2), "[[0.1 -Infinity]]"},
		{vector(t, []int64{1, 2, 3, 4}, 2, 2), "[[1 2]\n [3 4]]"},
		{vector(t, []bool{true, false}, 2, 1, 1), "[[[true]]\n [[false]]]"},
		{vector(t, long, 20), "[0 1 2 3 4 5 ... 14 15 16 17 18 19]"},
		{vector(t, []float32{}, 0, 3), "[]"},
	} {
		if got := textTensor(test.value); got != test.want {
			t.Errorf("%v is shown as %s, want %s", test.value, got, test.want)
		}
	}
}

// Integers keep every bit where a step or a file is reported, for people and in JSON.
func TestIntegersAreReportedExactly(t *testing.T) {
	const key = -2897116770142947272
	what := watch{names: []string{"key", "rate"}, every: 1}
	s := executor.StepResult{Rows: 1, Fetched: []*tensor.Tensor{vector(t, []int64{key}, 1), vector(t, []float32{0.5}, 1)}}
	for name, test := range map[string]struct {
		reporter func(io.Writer) reporter
		want     string
	}{
		"text": {func(w io.Writer) reporter { return newTextReporter(w, what) }, "key -2897116770142947272  rate 0.5"},
		"json": {func(w io.Writer) reporter { return newJSONReporter(w, what) }, `"fetch":{"key":-2897116770142947272,"rate":0.5}`},
	} {
		var out bytes.Buffer
		if err := test.reporter(&out).step(s); err != nil || !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: got %q, %v, want %q", name, out.String(), err, test.want)
		}
	}
	r := describeTensor(vector(t, []int64{1 << 60, 1<<60 + 1, key, key + 1}, 4))
	if low, high := r.Min.String(), r.Max.String(); low != "-2897116770142947272" || high != "1152921504606846977" {
		t.Errorf("from %s to %s", low, high)
	}
	r = describeTensor(vector(t, []float32{float32(math.NaN()), 2.5, -1, float32(math.Inf(1))}, 4))
	if got := r.row(); got != "float32[4]\t-1\t0.75\t2.5\t2" {
		t.Errorf("floats: %q", got)
	}
}

// steps reports three steps of falling loss and the end of the run.
func steps(t *testing.T, r reporter) {
	t.Helper()
	var m means
	for i := range uint64(3) {
		s := executor.StepResult{Step: i, Rows: 4, Fetched: []*tensor.Tensor{vector(t, []float32{1 / float32(i+1)}, 1)}}
		m.add([]string{"loss"}, s)
		if err := r.step(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.done(executor.Summary{Passes: 1, Steps: 3, Records: 12, Elapsed: 2 * time.Second}, &m, outcome{}); err != nil {
		t.Fatal(err)
	}
	r.close()
}

func TestLastStepIsAlwaysReported(t *testing.T) {
	var out bytes.Buffer
	steps(t, newTextReporter(&out, watch{names: []string{"loss"}, loss: "loss", every: 100, mean: true}))
	want := "pass 0  step 0  loss 1\npass 0  step 2  loss 0.333333\n" +
		"done  passes 1  steps 3  records 12  seconds 2.00  records/s 6\nmean  loss 0.611111\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestBarEndsWithTheSummary(t *testing.T) {
	var screen, out bytes.Buffer
	steps(t, newBarReporter(&screen, &out, watch{names: []string{"loss"}, loss: "loss", every: 1}, extent{12, 1}))
	if want := "done  passes 1  steps 3  records 12  seconds 2.00  records/s 6\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// A bar says where the run is, and in which pass it ends if that is known.
func TestBarSaysWhereTheRunIs(t *testing.T) {
	for of, want := range map[extent]string{{12, 4}: "pass 2 (to 3)  step 7  ", {}: "pass 2  step 7  "} {
		r := newBarReporter(io.Discard, io.Discard, watch{names: []string{"loss"}, loss: "loss", every: 1}, of)
		if err := r.step(executor.StepResult{Pass: 2, Step: 7, Rows: 4, Fetched: []*tensor.Tensor{vector(t, []float32{0.5}, 1)}}); err != nil {
			t.Fatal(err)
		}
		if *r.place.Load() != want || *r.line.Load() != "  loss 0.5" {
			t.Errorf("%q and %q, want %q", *r.place.Load(), *r.line.Load(), want)
		}
		r.close()
	}
}

// How much a run reads follows from where it begins: to the last record of its last batch.
func TestExtent(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "table.csv")
	if err := os.WriteFile(table, []byte("a,b,y\n1,0,3\n0,1,1\n1,1,4\n2,1,7\n2,2,8\n0,0,0\n3,0,9\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if code := run(t.Context(), []string{"data", "csv", table, "-o", data, "--label-type", "float32"}, strings.NewReader(""), io.Discard, io.Discard); code != 0 {
		t.Fatal(code)
	}
	p := chanced(t, 1, 2, 4, 0.5)
	options := executor.TrainOptions{Data: map[string][]string{"train": {filepath.Join(data, "train-*")}}, Passes: 3}
	begun := executor.Progress{Steps: 3, Pass: 1, Batch: 1, Reader: executor.ReaderHash(p)}
	for _, c := range []struct {
		spec   *job.JobSpec
		begins executor.Progress
		want   extent
	}{
		{&job.JobSpec{}, executor.Progress{}, extent{21, 3}},
		{&job.JobSpec{}, begun, extent{17, 4}},
		{&job.JobSpec{Resume: "ckpt"}, executor.Progress{}, extent{}},
		{&job.JobSpec{Data: []*job.DataBinding{{Dataset: "train", Follow: true}}}, executor.Progress{}, extent{}},
	} {
		if got := extentOf(t.Context(), c.spec, p, options, c.begins); got != c.want {
			t.Errorf("from %+v: %+v, want %+v", c.begins, got, c.want)
		}
	}
}

// A step that some trainer did not live to report says for how many rows its loss stands; the mean weighs it with those.
func TestUnreportedRows(t *testing.T) {
	s := executor.StepResult{Step: 7, Rows: 64, Unreported: 16, Fetched: []*tensor.Tensor{vector(t, []float32{0.5}, 1)}}
	what := watch{names: []string{"loss"}, loss: "loss", every: 1}
	var text, lines bytes.Buffer
	if err := errors.Join(newTextReporter(&text, what).step(s), newJSONReporter(&lines, what).step(s)); err != nil {
		t.Fatal(err)
	}
	if want := "pass 0  step 7  loss 0.5  (of 48 of 64 rows)\n"; text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
	if want := `{"event":"step","pass":0,"step":7,"loss":0.5,"rows":64,"unreported":16,"fetch":{"loss":0.5}}` + "\n"; lines.String() != want {
		t.Errorf("%s, want %s", lines.String(), want)
	}
	text.Reset()
	lines.Reset()
	again := executor.StepResult{Step: 7, Rows: 64, Attempt: 1, Repeated: true, Fetched: s.Fetched}
	if err := errors.Join(newTextReporter(&text, what).step(again), newJSONReporter(&lines, what).step(again)); err != nil {
		t.Fatal(err)
	}
	if want := "pass 0  step 7  loss 0.5  (again, attempt 2)\n"; text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
	if want := `{"event":"step","pass":0,"step":7,"attempt":1,"repeated":true,"loss":0.5,"fetch":{"loss":0.5}}` + "\n"; lines.String() != want {
		t.Errorf("%s, want %s", lines.String(), want)
	}
	text.Reset()
	lines.Reset()
	again.Resumed, what.every = true, 10 // is shown, whatever its number
	if err := errors.Join(newTextReporter(&text, what).step(again), newJSONReporter(&lines, what).step(again)); err != nil {
		t.Fatal(err)
	}
	if want := "pass 0  step 7  loss 0.5  (goes on from here, attempt 2)\n"; text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
	if want := `{"event":"step","pass":0,"step":7,"attempt":1,"resumed":true,"repeated":true,"loss":0.5,"fetch":{"loss":0.5}}` + "\n"; lines.String() != want {
		t.Errorf("%s, want %s", lines.String(), want)
	}
	var m means
	m.add(what.names, s)
	s.Unreported, s.Fetched = 0, []*tensor.Tensor{vector(t, []float32{2}, 1)}
	m.add(what.names, s)
	if mean, ok := m.of("loss"); !ok || mean != (0.5*48+2*64)/112 {
		t.Errorf("the mean is %v", mean)
	}
}

// A run that fails takes its bar away without waiting for the rest.
func TestBarOfFailedRunIsClosed(t *testing.T) {
	r := newBarReporter(io.Discard, io.Discard, watch{every: 1}, extent{1000, 1})
	r.close()
}

func TestEveryFaultHasItsLineAndCode(t *testing.T) {
	list := fault.List{{Kind: fault.InvalidProgram, Op: "mul", Got: "one"}, {Kind: fault.InvalidProgram, Op: "sum", Got: "two"}}
	for _, test := range []struct {
		err   error
		code  int
		lines int
	}{
		{nil, 0, 0},
		{list, 2, 3},
		{fault.New(fault.VerifyFailed, "different"), 3, 1},
		{fault.New(fault.Fenced, "lost"), 138, 1},
		{errors.New("a bug"), 1, 1},
		{fault.New(fault.NotFinite, "NaN"), 1, 1},
	} {
		var said strings.Builder
		c := &console{err: &said, parsed: true}
		if code := c.report(context.Background(), test.err); code != test.code {
			t.Errorf("%v: exit code %d, want %d", test.err, code, test.code)
		}
		if n := strings.Count(said.String(), "edl: "); n != test.lines || strings.Count(said.String(), "\n") != n {
			t.Errorf("%v: said %q", test.err, said.String())
		}
	}
}
