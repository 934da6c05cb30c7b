package executor_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
)

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
				f.Op != "log" || f.Variable == "" || f.Where != "step 1" || !strings.Contains(f.Line, "finite_test.go") {
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
