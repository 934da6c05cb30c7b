package remote_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// TestMetricsOfTheBatch trains programs of rankers as Paddle writes them with their metrics. A cluster fetches what one machine does, though trainers have different numbers of rows.
// "metrics" is a classifier with a summed loss: the areas of one step, of two and of all steps with their counts, an accuracy, precision and recall, a ratio of pairs, a mean and a
// number. "pairs" compares sequences: its cost for each of them has a mean over the batch added to it, it draws a matrix in each step, and it fetches a number and a ratio of pairs.
func TestMetricsOfTheBatch(t *testing.T) {
	for _, name := range []string{"metrics", "pairs"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			m, err := fluidtext.Read(string(text))
			if err != nil {
				t.Fatal(err)
			}
			one := executor.New()
			defer one.Close()
			many, err := remote.NewExecutor("", &remote.JobSpec{Trainers: 2, Pservers: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer many.Close()
			random := rand.New(rand.NewPCG(1, 2))
			for step := range 4 {
				feed := batchOf(t, m, random)
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
		})
	}
}

// batchOf returns a batch of numbers from 0 to 1, of labels 0 and 1, and of ids below 30.
func batchOf(t *testing.T, m *fluidtext.Model, random *rand.Rand) executor.Feed {
	feed := executor.Feed{}
	for _, name := range slices.Sorted(maps.Keys(m.Feeds)) {
		v, _ := m.Program.Global().Var(name)
		x, err := tensor.New(v.DType, m.Feeds[name].Dims...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.Len() {
			switch {
			case v.DType == tensor.Float32:
				x.Float32s()[i] = random.Float32()
			case name == "label":
				x.Int64s()[i] = random.Int64N(2)
			default:
				x.Int64s()[i] = random.Int64N(30)
			}
		}
		x.SetLoD(m.Feeds[name].Offsets)
		feed[name] = x
	}
	return feed
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
