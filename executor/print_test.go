package executor_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// TestPrintAndAssert trains a program that prints a hidden variable and its gradient, prints what nobody reads, and asserts that its input is small.
func TestPrintAndAssert(t *testing.T) {
	m := layers.NewModel().Seed(1)
	x := layers.Data(m, "x", layers.Dims(2))
	layers.Assert(layers.ReduceAll(layers.LessThan(x, layers.FillConstant(m, 5, []int64{1}))), x)
	layers.Print(layers.Scale(x, 2, 0), "unread")
	hidden := layers.Print(layers.FC(x, 1, layers.Param(layers.ParamAttr{Name: "w", Initializer: layers.Constant(1)}), layers.NoBias()), "hidden")
	loss := layers.Mean(layers.Print(hidden, "again"), layers.Name("loss"))
	optimizer.SGD(1).Minimize(loss)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range p.Global().Ops {
		if message, _ := op.Str("message"); op.Type == "print" && message == "again" {
			op.SetAttr("print_phase", "FORWARD")
			op.SetAttr("first_n", int32(1))
		}
	}
	for _, workers := range []int{1, 3} {
		var log bytes.Buffer
		local := executor.New(executor.WithWorkers(workers), executor.WithGrain(0), executor.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: ops.LevelPrint}))))
		feed := func(values ...float32) executor.Feed {
			value, err := tensor.FromSlice(values, int64(len(values)/2), 2)
			if err != nil {
				t.Fatal(err)
			}
			return executor.Feed{"x": value}
		}
		for range 2 {
			if _, err := local.Run(t.Context(), p, feed(1, 2, 3, 4)); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(strings.TrimSpace(line), "msg=")
			message, rest, _ := strings.Cut(line, " ")
			_, data, _ := strings.Cut(rest, "data=")
			got = append(got, message+" "+data)
		}
		want := `unread "[2 4 6 8]"; hidden "[3 7]"; again "[3 7]"; hidden "[0.5 0.5]"; unread "[2 4 6 8]"; hidden "[-5 -11]"; hidden "[0.5 0.5]"`
		if strings.Join(got, "; ") != want {
			t.Errorf("%d workers print %s, want %s", workers, strings.Join(got, "; "), want)
		}
		w, _ := local.Scope().Find("w")
		before := w.Clone()
		_, err := local.Run(t.Context(), p, feed(1, 2, 3, 7))
		if fault.KindOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "x [2 2] = [1 2 3 7]") || !strings.Contains(err.Error(), "assert") {
			t.Errorf("a false assertion gives %v", err)
		}
		if w, _ := local.Scope().Find("w"); w.Float32s()[0] != before.Float32s()[0] {
			t.Error("a step whose assertion fails has changed a parameter")
		}
		if err := local.Close(); err != nil {
			t.Error(err)
		}
	}
	pruned, err := p.InferenceProgram([]string{"x"}, []string{hidden.Name()})
	if err != nil {
		t.Fatal(err)
	}
	if err := ops.Verify(pruned, program.StageInference); err != nil {
		t.Errorf("the program for inference: %v", err)
	}
}
