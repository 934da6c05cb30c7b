package remote_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// TestMetricsOfTheBatch trains a classifier with the metrics of rankers as Paddle writes them, with a summed loss: the areas of one step, of two and of all steps with their counts, an
// accuracy, precision and recall, a ratio of pairs, a mean and a number. A cluster fetches what one machine does, though trainers have 2 and 3 rows.
func TestMetricsOfTheBatch(t *testing.T) {
	text, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	m, err := fluidtext.Read(string(text))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	one := executor.New()
	defer one.Close()
	many, err := remote.NewExecutor("", &remote.JobSpec{Trainers: 2, Pservers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer many.Close()
	for step := range 4 {
		x, labels := make([]float32, 20), make([]int64, 5)
		for i := range x {
			x[i] = random.Float32()
		}
		for i := range labels {
			labels[i] = random.Int64N(2)
		}
		feed := executor.Feed{"x": tensorOf(t, x, 5, 4), "label": tensorOf(t, labels, 5, 1)}
		want, err := one.Run(t.Context(), m.Program, feed, m.Fetch...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := many.Run(t.Context(), m.Program, feed, m.Fetch...)
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range m.Fetch {
			if !sameMetric(got[i], want[i]) {
				t.Errorf("step %d: %s is %v on a cluster, and %v on one machine", step, name, got[i], want[i])
			}
		}
	}
}

func tensorOf[T tensor.Element](t *testing.T, values []T, dims ...int64) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromSlice(values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// sameMetric reports whether two tensors differ by no more than sums of float32 do that are grouped in another way. Areas and counts must be equal.
func sameMetric(a, b *tensor.Tensor) bool {
	if a.DType() != b.DType() || !slices.Equal(a.Dims(), b.Dims()) {
		return false
	}
	switch a.DType() {
	case tensor.Float64:
		return slices.Equal(a.Float64s(), b.Float64s())
	case tensor.Int64:
		return slices.Equal(a.Int64s(), b.Int64s())
	}
	for i, x := range a.Float32s() {
		if y := b.Float32s()[i]; x-y > 1e-5 || y-x > 1e-5 {
			return false
		}
	}
	return true
}
