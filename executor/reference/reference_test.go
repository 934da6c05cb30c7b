package reference_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func digits(seed uint64, rows int64) executor.Feed {
	return executor.Feed{"image": fixture.Numbers(seed, rows, 20), "label": fixture.Labels(seed, rows, 10)}
}

// values returns the elements of every variable of a scope.
func values(s *executor.Scope) map[string][]float64 {
	all := map[string][]float64{}
	for _, name := range s.Names() {
		t, _ := s.Find(name)
		for _, x := range t.Float32s() {
			all[name] = append(all[name], float64(x))
		}
		for _, x := range t.Int64s() {
			all[name] = append(all[name], float64(x))
		}
	}
	return all
}

func optimizers() map[string]func() *optimizer.Optimizer {
	return map[string]func() *optimizer.Optimizer{
		"sgd":  func() *optimizer.Optimizer { return optimizer.SGD(0.1) },
		"adam": func() *optimizer.Optimizer { return optimizer.Adam(0.01) },
		"momentum, decay": func() *optimizer.Optimizer {
			return optimizer.Momentum(0.1, 0.9, optimizer.Regularize(layers.L2(0.01)))
		},
		"schedule": func() *optimizer.Optimizer {
			return optimizer.SGD(optimizer.Exponential(0.1, 3, 0.5, false))
		},
	}
}

func TestOneTrainerIsTheLocalExecutor(t *testing.T) {
	for name, o := range optimizers() {
		t.Run(name, func(t *testing.T) {
			m := fixture.MLP(t, 20, []int64{8}, o())
			local := executor.New()
			defer local.Close()
			one, err := reference.New(m.Program, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer one.Close()
			for step := range uint64(5) {
				want, err := local.Run(t.Context(), m.Program, digits(step, 6), m.Loss)
				if err != nil {
					t.Fatal(err)
				}
				got, err := one.Run(t.Context(), m.Program, digits(step, 6), m.Loss)
				if err != nil {
					t.Fatal(err)
				}
				if got[0].Float32s()[0] != want[0].Float32s()[0] {
					t.Errorf("step %d: loss %v, want %v", step, got[0].Float32s(), want[0].Float32s())
				}
			}
			got, want := values(one.Scope()), values(local.Scope())
			if len(got) != len(want) {
				t.Errorf("%d variables, want %d", len(got), len(want))
			}
			for name := range want {
				if !slices.Equal(got[name], want[name]) {
					t.Errorf("%s differs", name)
				}
			}
		})
	}
}

// twice puts the rows of every tensor below each other, two times.
func twice(feed executor.Feed) executor.Feed {
	double := executor.Feed{}
	for name, x := range feed {
		dims := slices.Clone(x.Dims())
		dims[0] *= 2
		d, _ := tensor.New(x.DType(), dims...)
		for _, half := range [][2]int64{{0, dims[0] / 2}, {dims[0] / 2, dims[0]}} {
			rows, _ := d.Rows(half[0], half[1])
			_ = rows.CopyFrom(x)
		}
		double[name] = d
	}
	return double
}

// Two trainers that see the same rows compute the same gradients, whose mean with weights of one half is that gradient
// exactly.
func TestEqualHalvesMergeExactly(t *testing.T) {
	for name, o := range optimizers() {
		t.Run(name, func(t *testing.T) {
			m := fixture.MLP(t, 20, []int64{8}, o())
			local := executor.New()
			defer local.Close()
			two, err := reference.New(m.Program, 2)
			if err != nil {
				t.Fatal(err)
			}
			defer two.Close()
			for step := range uint64(3) {
				feed := digits(step, 4)
				if _, err := local.Run(t.Context(), m.Program, feed); err != nil {
					t.Fatal(err)
				}
				if _, err := two.Run(t.Context(), m.Program, twice(feed)); err != nil {
					t.Fatal(err)
				}
			}
			got, want := values(two.Scope()), values(local.Scope())
			for name := range want {
				if !slices.Equal(got[name], want[name]) {
					t.Errorf("%s = %v, want %v", name, got[name], want[name])
				}
			}
		})
	}
}

func TestAnyNumberOfTrainersComesCloseToOne(t *testing.T) {
	m := fixture.MLP(t, 20, []int64{8}, optimizer.Momentum(0.1, 0.9))
	logits := m.Program.Global().Ops[0].Out("Out")
	run := func(trainers int) (map[string][]float64, []*tensor.Tensor) {
		t.Helper()
		e, err := reference.New(m.Program, trainers)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		var out []*tensor.Tensor
		for step := range uint64(4) {
			if out, err = e.Run(t.Context(), m.Program, digits(step, 7), m.Loss, logits, "fc_0.w_0"); err != nil {
				t.Fatal(err)
			}
		}
		return values(e.Scope()), out
	}
	want, fetched := run(1)
	for _, trainers := range []int{2, 3, 7, 9} {
		t.Run(fmt.Sprint(trainers), func(t *testing.T) {
			got, out := run(trainers)
			for name := range want {
				for i := range want[name] {
					if math.Abs(got[name][i]-want[name][i]) > 1e-5 {
						t.Fatalf("%s[%d] = %v, want about %v", name, i, got[name][i], want[name][i])
					}
				}
			}
			for i, f := range out {
				if f.String() != fetched[i].String() {
					t.Errorf("fetched %v, want %v", f, fetched[i])
				}
			}
		})
	}
}
