package executor_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// What Run refuses before it runs, CheckStep refuses in the same words, so that other executors can.
func TestMistakesInAStep(t *testing.T) {
	m := testkit.Fed(t, optimizer.SGD(0.1))
	float := func(dims ...int64) *tensor.Tensor { return testkit.Random(t, tensor.Float32, 1, dims...) }
	x, y := float(4, testkit.Width), float(4, 1)
	for name, c := range map[string]struct {
		feed  executor.Feed
		fetch string
		kind  fault.Kind
		says  string
	}{
		"no feed":             {nil, m.Loss, fault.NotFound, "got no value for x, y, want a feed"},
		"a missing feed":      {executor.Feed{"x": x}, m.Loss, fault.NotFound, "got no value for y, want a feed"},
		"an unknown feed":     {executor.Feed{"x": x, "y": y, "z": y}, m.Loss, fault.NotFound, `variable "z"`},
		"a misspelt feed":     {executor.Feed{"x": x, "y": y, "los": y}, m.Loss, fault.NotFound, `did you mean "loss"?`},
		"no name to fetch":    {executor.Feed{"x": x, "y": y}, layers.Variable{}.Name(), fault.NotFound, "a layers.Variable that no layer has returned"},
		"a nil feed":          {executor.Feed{"x": x, "y": nil}, m.Loss, fault.InvalidArgument, "got a feed that is nil"},
		"another shape":       {executor.Feed{"x": float(4, 3), "y": y}, m.Loss, fault.ShapeMismatch, "got a feed of float32[4 3], want float32[-1 6]"},
		"another rank":        {executor.Feed{"x": float(4), "y": y}, m.Loss, fault.ShapeMismatch, "got a feed of float32[4], want float32[-1 6]"},
		"another type":        {executor.Feed{"x": testkit.Random(t, tensor.Float64, 1, 4, 6), "y": y}, m.Loss, fault.TypeMismatch, "got a feed of float64"},
		"no rows":             {executor.Feed{"x": float(0, 6), "y": float(0, 1)}, m.Loss, fault.ShapeMismatch, "with at least one row"},
		"other rows":          {executor.Feed{"x": x, "y": float(3, 1)}, m.Loss, fault.ShapeMismatch, `variable "y"`},
		"a parameter":         {executor.Feed{"x": x, "y": y, "fc_0.w_0": x}, m.Loss, fault.InvalidArgument, "a tensor that is not persistable"},
		"a computed variable": {executor.Feed{"x": x, "y": y, m.Loss: float(1)}, m.Loss, fault.InvalidArgument, "that the program computes"},
		"an unknown fetch":    {executor.Feed{"x": x, "y": y}, "los", fault.NotFound, `did you mean "loss"?`},
	} {
		local := executor.New()
		defer local.Close()
		_, ran := local.Run(t.Context(), m.Program, c.feed, c.fetch)
		checked := executor.CheckStep(m.Program, c.feed, c.fetch)
		same(t, name, ran, checked, c.kind, c.says)
	}
	if err := executor.CheckStep(m.Program, executor.Feed{"x": x, "y": y}, m.Loss); err != nil {
		t.Errorf("a step without a mistake: %v", err)
	}
}

// What Train refuses before it opens files, CheckRun refuses in the same words.
func TestMistakesInARun(t *testing.T) {
	fed, reads := testkit.Fed(t, optimizer.SGD(0.1)), testkit.Reading(t, 4, optimizer.SGD(0.1))
	data := testkit.Samples(t, t.TempDir(), 8)
	other := map[string][]string{"other": data["train"]}
	both := map[string][]string{"other": data["train"], "train": data["train"]}
	m := layers.NewModel()
	layers.Read(layers.Batch(layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(testkit.Width)), layers.Field("y", layers.Dims(1))), 4))
	optimizer.SGD(0.1).Minimize(layers.Mean(layers.Variable{}))
	only, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		model testkit.Model
		run   executor.TrainOptions
		kind  fault.Kind
		says  string
	}{
		"a program that is fed": {fed, executor.TrainOptions{Data: data}, fault.InvalidProgram, "got a program without a read op"},
		"nothing but reading":   {testkit.Model{Program: only}, executor.TrainOptions{Data: data}, fault.InvalidProgram, "computes nothing from what it reads"},
		"no data":               {reads, executor.TrainOptions{}, fault.NotFound, `no files for the dataset "train" (bound: none)`},
		"another dataset":       {reads, executor.TrainOptions{Data: other}, fault.NotFound, `no files for the dataset "train" (bound: other)`},
		"a second dataset":      {reads, executor.TrainOptions{Data: both}, fault.InvalidArgument, `want only "train"`},
		"no globs":              {reads, executor.TrainOptions{Data: map[string][]string{"train": nil}}, fault.InvalidArgument, "got no globs"},
		"an empty glob":         {reads, executor.TrainOptions{Data: map[string][]string{"train": {""}}}, fault.InvalidArgument, "got an empty glob"},
		"passes":                {reads, executor.TrainOptions{Data: data, Passes: -1}, fault.InvalidArgument, "got -1 passes"},
		"an unknown fetch":      {reads, executor.TrainOptions{Data: data, Fetch: []string{"los"}}, fault.NotFound, `did you mean "loss"?`},
	} {
		local := executor.New()
		defer local.Close()
		_, ran := local.Train(t.Context(), c.model.Program, c.run, nil)
		same(t, name, ran, executor.CheckRun(c.model.Program, c.run), c.kind, c.says)
	}
	if err := executor.CheckRun(reads.Program, executor.TrainOptions{Data: data, Fetch: []string{reads.Loss}}); err != nil {
		t.Errorf("a run without a mistake: %v", err)
	}
}

// same compares the error of a call with that of the check before it.
func same(t *testing.T, name string, ran, checked error, kind fault.Kind, says string) {
	t.Helper()
	if ran == nil || checked == nil || ran.Error() != checked.Error() {
		t.Errorf("%s: the call says  %v\nthe check says %v", name, ran, checked)
		return
	}
	if !errors.Is(ran, kind) || !strings.Contains(ran.Error(), says) {
		t.Errorf("%s: %v, want kind %v that says %q", name, ran, kind, says)
	}
}
