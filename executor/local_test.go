package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line returns rows of x and of y = x*w + 0.5, with w = 0.1, 0.2, ...
func line(seed uint64, rows int64) executor.Feed {
	x := fixture.Numbers(seed, rows, 13)
	y, _ := tensor.New(tensor.Float32, rows, 1)
	for r := range y.Float32s() {
		y.Float32s()[r] = 0.5
		for c := range 13 {
			y.Float32s()[r] += x.Float32s()[r*13+c] * float32(c+1) / 10
		}
	}
	return executor.Feed{"x": x, "y": y}
}

func TestFitALineFindsTheLine(t *testing.T) {
	m := fixture.FitALine(t, optimizer.SGD(0.1))
	for _, workers := range []int{1, 3} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			l := executor.New(executor.WithWorkers(workers))
			defer l.Close()
			var loss []*tensor.Tensor
			for step := range 300 {
				var err error
				if loss, err = l.Run(t.Context(), m.Program, line(uint64(step), 20), m.Loss); err != nil {
					t.Fatal(err)
				}
			}
			if got := loss[0].Float32s()[0]; got > 1e-3 {
				t.Errorf("loss %v after 300 steps", got)
			}
			w, _ := l.Scope().Find("fc_0.w_0")
			for i, got := range w.Float32s() {
				if want := float32(i+1) / 10; got < want-0.05 || got > want+0.05 {
					t.Errorf("w[%d] = %v, want about %v", i, got, want)
				}
			}
		})
	}
}

func TestFetchedTensorsBelongToTheCaller(t *testing.T) {
	m := fixture.FitALine(t, optimizer.SGD(0.1))
	l := executor.New()
	defer l.Close()
	first, err := l.Run(t.Context(), m.Program, line(1, 4), m.Loss, "fc_0.w_0")
	if err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(first[1].Float32s())
	if _, err := l.Run(t.Context(), m.Program, line(2, 4), m.Loss, "fc_0.w_0"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before, first[1].Float32s()) {
		t.Error("the second run changed what the first returned")
	}
}

func TestBadRunsSayWhatIsWrong(t *testing.T) {
	m := fixture.FitALine(t, optimizer.SGD(0.1))
	wide, _ := tensor.New(tensor.Float32, 4, 14)
	whole, _ := tensor.New(tensor.Int64, 4, 13)
	good := line(1, 4)
	for name, test := range map[string]struct {
		feed     executor.Feed
		fetch    string
		kind     fault.Kind
		variable string
	}{
		"missing feed":  {executor.Feed{"x": good["x"]}, m.Loss, fault.NotFound, "y"},
		"wrong dims":    {executor.Feed{"x": wide, "y": good["y"]}, m.Loss, fault.ShapeMismatch, "x"},
		"wrong type":    {executor.Feed{"x": whole, "y": good["y"]}, m.Loss, fault.TypeMismatch, "x"},
		"unknown feed":  {executor.Feed{"x": good["x"], "y": good["y"], "z": wide}, m.Loss, fault.NotFound, "z"},
		"nil feed":      {executor.Feed{"x": nil, "y": good["y"]}, m.Loss, fault.InvalidArgument, "x"},
		"fed parameter": {executor.Feed{"x": good["x"], "y": good["y"], "fc_0.w_0": wide}, m.Loss, fault.InvalidArgument, "fc_0.w_0"},
		"computed feed": {executor.Feed{"x": good["x"], "y": good["y"], "mean_0.tmp_0": fixture.Numbers(1, 1)}, m.Loss, fault.InvalidArgument,
			"mean_0.tmp_0"},
		"unknown fetch":     {good, "nothing", fault.NotFound, "nothing"},
		"rows do not agree": {executor.Feed{"x": good["x"], "y": line(1, 3)["y"]}, m.Loss, fault.ShapeMismatch, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := executor.New()
			defer l.Close()
			_, err := l.Run(t.Context(), m.Program, test.feed, test.fetch)
			var f *fault.Fault
			if !errors.As(err, &f) || f.Kind != test.kind || test.variable != "" && f.Variable != test.variable {
				t.Errorf("got %v, want %v of %q", err, test.kind, test.variable)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	m := fixture.FitALine(t, optimizer.SGD(0.1))
	l := executor.New()
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Run(ctx, m.Program, line(1, 4), m.Loss); !errors.Is(err, fault.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestRunAfterCloseFails(t *testing.T) {
	m := fixture.FitALine(t, nil)
	l := executor.New(executor.WithWorkers(2))
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Run(t.Context(), m.Program, line(1, 4), m.Loss); !errors.Is(err, fault.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A nil program is refused by every call, and so is a call after Close, with the same error.
func TestCallsThatCannotBe(t *testing.T) {
	l := executor.New()
	m := fixture.FitALine(t, nil)
	calls := func(p *program.Program) map[string]error {
		_, ran := l.Run(t.Context(), p, line(1, 4))
		_, trained := l.Train(t.Context(), p, executor.TrainOptions{}, nil)
		_, loaded := l.Load(t.Context(), "nowhere", p, executor.LoadOptions{})
		return map[string]error{"Run": ran, "Train": trained, "Load": loaded, "Save": l.Save(t.Context(), t.TempDir(), p)}
	}
	for call, err := range calls(nil) {
		if !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s of a nil program: %v", call, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for call, err := range calls(m.Program) {
		if !errors.Is(err, fault.Canceled) || err.Error() != executor.AfterClose().Error() {
			t.Errorf("%s after Close: %v", call, err)
		}
	}
}

func TestChangedProgramIsCompiledAnew(t *testing.T) {
	m := fixture.FitALine(t, nil)
	l := executor.New()
	defer l.Close()
	run := func() float32 {
		t.Helper()
		out, err := l.Run(t.Context(), m.Program, line(1, 4), m.Loss)
		if err != nil {
			t.Fatal(err)
		}
		return out[0].Float32s()[0]
	}
	loss := run()
	double := m.Program.Global().Append(&program.Op{Type: "scale", Inputs: map[string][]string{"X": {m.Loss}},
		Outputs: map[string][]string{"Out": {m.Loss}},
		Attrs:   map[string]program.Attr{"scale": float32(2)}})
	if got := run(); got != 2*loss {
		t.Errorf("with a new op: %v, want %v", got, 2*loss)
	}
	double.SetAttr("scale", float32(4))
	if got := run(); got != 4*loss {
		t.Errorf("with a new attribute: %v, want %v", got, 4*loss)
	}
}

func TestStartupFillsWhatIsEmpty(t *testing.T) {
	m := fixture.FitALine(t, optimizer.SGD(0.1))
	l := executor.New()
	defer l.Close()
	b := values(t, []float32{42})
	if err := l.Scope().Set("fc_0.b_0", b); err != nil {
		t.Fatal(err)
	}
	if err := l.Startup(t.Context(), m.Program); err != nil {
		t.Fatal(err)
	}
	if _, ok := l.Scope().Find("fc_0.w_0"); !ok || b.Float32s()[0] != 42 {
		t.Errorf("variables %v, b = %v", l.Scope().Names(), b.Float32s())
	}
	bad := m.Program.Clone()
	bad.Startup.Global().Append(&program.Op{Type: "send_barrier"})
	if err := executor.New().Startup(t.Context(), bad); !errors.Is(err, fault.Unsupported) {
		t.Errorf("a startup program that speaks to servers: %v", err)
	}
}

// countingComm counts the barriers that it is asked to keep.
type countingComm struct{ sends, barriers int }

func (c *countingComm) Send(context.Context, ops.Message) error { c.sends++; return nil }
func (c *countingComm) SendBarrier(context.Context) error       { c.barriers++; return nil }
func (c *countingComm) Recv(_ context.Context, m ops.Message) error {
	m.Value.Float32s()[0] = 5
	return nil
}
func (c *countingComm) FetchBarrier(context.Context) error { c.barriers++; return nil }

func TestStepWithoutRowsOnlyKeepsTheBarriers(t *testing.T) {
	p := program.New()
	b := p.Global()
	b.EnsureVar(program.Var{Name: "x", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown}})
	for _, name := range []string{"mean", "w"} {
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}, Persistable: name == "w"})
	}
	server := map[string]program.Attr{"epmap": []string{"pserver:0"}}
	b.Append(&program.Op{Type: "mean", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"mean"}}})
	b.Append(&program.Op{Type: "send", Inputs: map[string][]string{"X": {"mean"}}, Attrs: server})
	b.Append(&program.Op{Type: "send_barrier"})
	b.Append(&program.Op{Type: "recv", Outputs: map[string][]string{"Out": {"w"}}, Attrs: server})
	b.Append(&program.Op{Type: "fetch_barrier"})

	comm := &countingComm{}
	l := executor.New(executor.WithComm(comm), executor.WithStage(program.StageTrainer))
	defer l.Close()
	none, _ := tensor.New(tensor.Float32, 0)
	out, err := l.RunStep(t.Context(), p, ops.Step{Round: 3}, executor.Feed{"x": none}, "mean")
	if err != nil || out != nil {
		t.Fatalf("fetched %v, %v", out, err)
	}
	if w, ok := l.Scope().Find("w"); comm.sends != 0 || comm.barriers != 2 || !ok || w.Float32s()[0] != 5 {
		t.Errorf("%+v, w received: %t", *comm, ok)
	}
	if out, err = l.RunStep(t.Context(), p, ops.Step{Round: 4, Rows: 2}, executor.Feed{"x": values(t, []float32{1, 3})}, "mean"); err != nil {
		t.Fatal(err)
	}
	if comm.sends != 1 || out[0].Float32s()[0] != 2 || l.Step().Round != 4 {
		t.Errorf("%+v, mean %v in step %+v", *comm, out[0].Float32s(), *l.Step())
	}
}

// logLoss is a model whose log meets 0 when the product of the weight, which starts at 1, and an input is 0.
func logLoss(t *testing.T) fixture.Model {
	t.Helper()
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(2))
	h := layers.FC(x, 1, layers.NoBias(), layers.Param(layers.ParamAttr{Initializer: layers.Constant(1)}))
	loss := layers.Mean(layers.Log(h))
	optimizer.SGD(0.1).Minimize(loss)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return fixture.Model{Program: p, Loss: loss.Name()}
}

func TestStepThatIsNotFiniteNamesTheOpAndChangesNoParameter(t *testing.T) {
	m := logLoss(t)
	for _, workers := range []int{1, 2} {
		for _, fetch := range [][]string{{m.Loss}, nil} {
			l := executor.New(executor.WithWorkers(workers))
			defer l.Close()
			if _, err := l.Run(t.Context(), m.Program, executor.Feed{"x": values(t, []float32{1, 2, 3, 4}, 2, 2)}, fetch...); err != nil {
				t.Fatal(err)
			}
			w, _ := l.Scope().Find("fc_0.w_0")
			before := slices.Clone(w.Float32s())
			_, err := l.Run(t.Context(), m.Program, executor.Feed{"x": values(t, []float32{1, 2, 0, 0}, 2, 2)}, fetch...)
			var f *fault.Fault
			if !errors.As(err, &f) || f.Kind != fault.NotFinite ||
				f.Op != "log" || f.Variable == "" || f.Where != "step 1" || !strings.Contains(f.Line, "local_test.go") {
				t.Errorf("got %v", err)
			}
			if !slices.Equal(w.Float32s(), before) {
				t.Errorf("w changed from %v to %v", before, w.Float32s())
			}
		}
	}
}

func TestFeedThatIsNotFiniteIsNamed(t *testing.T) {
	m := logLoss(t)
	l := executor.New()
	defer l.Close()
	_, err := l.Run(t.Context(), m.Program, executor.Feed{"x": values(t, []float32{1, 2, float32(math.NaN()), 4}, 2, 2)}, m.Loss)
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.NotFinite || f.Variable != "x" {
		t.Errorf("got %v", err)
	}
}

func TestParameterThatIsNotFiniteIsNamed(t *testing.T) {
	m := logLoss(t)
	l := executor.New()
	defer l.Close()
	if err := l.Scope().Set("fc_0.w_0", values(t, []float32{float32(math.Inf(1)), 1}, 2, 1)); err != nil {
		t.Fatal(err)
	}
	_, err := l.Run(t.Context(), m.Program, executor.Feed{"x": values(t, []float32{1, 2}, 1, 2)}, m.Loss)
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.NotFinite || f.Variable != "fc_0.w_0" {
		t.Errorf("got %v", err)
	}
}

func TestFiniteCheckCanBeSwitchedOff(t *testing.T) {
	m := logLoss(t)
	l := executor.New(executor.WithoutFiniteCheck())
	defer l.Close()
	out, err := l.Run(t.Context(), m.Program, executor.Feed{"x": values(t, []float32{0, 0}, 1, 2)}, m.Loss)
	if err != nil || !math.IsInf(float64(out[0].Float32s()[0]), -1) {
		t.Errorf("got %v, %v", out, err)
	}
}

// Two models with variables of one name and other dims do not fit on one executor. The error names the variable, not an op that meets it.
func TestAStateOfAnotherModelIsNamed(t *testing.T) {
	build := func(columns int64) *program.Program {
		m := layers.NewModel()
		layers.FC(layers.Data(m, "x", layers.Dims(columns)), 1, layers.Name("y"))
		p, err := m.Program()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	e := executor.New()
	defer e.Close()
	run := func(columns int64) error {
		x, err := tensor.New(tensor.Float32, 2, columns)
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Run(t.Context(), build(columns), executor.Feed{"x": x}, "y")
		return err
	}
	if err := run(3); err != nil {
		t.Fatal(err)
	}
	var f *fault.Fault
	if err := run(5); !errors.As(err, &f) || f.Kind != fault.ShapeMismatch || f.Variable != "y.w_0" && f.Variable != "fc_0.w_0" ||
		!strings.Contains(err.Error(), "[3 1] in the state") || !strings.Contains(err.Error(), "another executor") {
		t.Errorf("got %v", err)
	}
}
