package remote_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// A mistake in a feed is told with the name of the variable, and the job goes on as if the step had not been asked for.
func TestWrongFeedsChangeNothing(t *testing.T) {
	m, _ := normed(t)
	random := func(dtype tensor.DType, dims ...int64) *tensor.Tensor { return testkit.Random(t, dtype, 1, dims...) }
	x, y := random(tensor.Float32, 8, testkit.Width), random(tensor.Float32, 8, 1)
	sequences := random(tensor.Float32, 8, testkit.Width)
	sequences.SetLoD([][]int64{{0, 5, 8}})
	cases := map[string]struct {
		feed     executor.Feed
		fetch    string
		kind     fault.Kind
		variable string
	}{
		"missing":          {executor.Feed{"x": x}, m.Loss, fault.NotFound, "y"},
		"unknown":          {executor.Feed{"x": x, "y": y, "z": y}, m.Loss, fault.NotFound, "z"},
		"too narrow":       {executor.Feed{"x": random(tensor.Float32, 8, 5), "y": y}, m.Loss, fault.ShapeMismatch, "x"},
		"other rank":       {executor.Feed{"x": random(tensor.Float32, 8), "y": y}, m.Loss, fault.ShapeMismatch, "x"},
		"other type":       {executor.Feed{"x": random(tensor.Float64, 8, testkit.Width), "y": y}, m.Loss, fault.TypeMismatch, "x"},
		"rows that differ": {executor.Feed{"x": x, "y": random(tensor.Float32, 7, 1)}, m.Loss, fault.ShapeMismatch, "y"},
		"no rows": {executor.Feed{"x": random(tensor.Float32, 0, testkit.Width), "y": random(tensor.Float32, 0, 1)}, m.Loss, fault.ShapeMismatch,
			"x"},
		"nil":           {executor.Feed{"x": x, "y": nil}, m.Loss, fault.InvalidArgument, "y"},
		"sequences":     {executor.Feed{"x": sequences, "y": y}, m.Loss, fault.Unsupported, "x"},
		"unknown fetch": {executor.Feed{"x": x, "y": y}, "nothing", fault.NotFound, "nothing"},
	}
	want, err := reference.New(m.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	got := executorOf(t, listener(t), &remote.JobSpec{Trainers: 2, Pservers: 1})
	for step, name := range sortedKeys(cases) {
		c := cases[name]
		_, err := got.Run(bounded(t), m.Program, c.feed, c.fetch)
		var f *fault.Fault
		if !errors.As(err, &f) || f.Kind != c.kind || f.Variable != c.variable {
			t.Errorf("%s: %v, want kind %v of variable %s", name, err, c.kind, c.variable)
		}
		feed := testkit.Batch(t, m.Program, uint64(step), 4)
		a, err := want.Run(bounded(t), m.Program, feed, m.Loss)
		if err != nil {
			t.Fatal(err)
		}
		b, err := got.Run(bounded(t), m.Program, feed, m.Loss)
		if err != nil {
			t.Fatalf("after %s: %v", name, err)
		}
		if !testkit.Same(a[0], b[0]) {
			t.Fatalf("after %s: loss %v, want %v", name, b[0].Float32s(), a[0].Float32s())
		}
	}
}
