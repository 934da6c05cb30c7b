package reference_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestOneTrainerIsTheLocalExecutor(t *testing.T) {
	for name, s := range subjects(t) {
		t.Run(name, func(t *testing.T) {
			m := s.model
			local := executor.New()
			defer local.Close()
			one := open(t, m.Program, 1)
			for step := range uint64(5) {
				want, err := local.Run(t.Context(), m.Program, s.batch(step, 6), m.Loss)
				if err != nil {
					t.Fatal(err)
				}
				got, err := one.Run(t.Context(), m.Program, s.batch(step, 6), m.Loss)
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
	for name, s := range subjects(t) {
		if name == "dropout" {
			continue // the halves are equal, but not what is dropped of them
		}
		t.Run(name, func(t *testing.T) {
			m := s.model
			local := executor.New()
			defer local.Close()
			two := open(t, m.Program, 2)
			for step := range uint64(3) {
				feed := s.batch(step, 4)
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

// The rows are the same, and so is what chance drops of them; only the grouping of sums differs. Batch normalization is left out, since
// its statistics are those of each trainer's rows.
func TestAnyNumberOfTrainersComesCloseToOne(t *testing.T) {
	for name, s := range subjects(t) {
		if name == "batch norm" || name == "adam" { // Adam divides noise by noise where gradients vanish
			continue
		}
		logits := s.model.Program.Global().Ops[0].Out(outSlot(s.model.Program.Global().Ops[0]))
		run := func(trainers int) (map[string][]float64, []*tensor.Tensor) {
			t.Helper()
			e := open(t, s.model.Program, trainers)
			var out []*tensor.Tensor
			var err error
			for step := range uint64(4) {
				if out, err = e.Run(t.Context(), s.model.Program, s.batch(step, 7), s.model.Loss, logits, "fc_0.w_0"); err != nil {
					t.Fatal(err)
				}
			}
			return values(e.Scope()), out
		}
		want, fetched := run(1)
		for _, trainers := range []int{2, 3, 7, 9} {
			t.Run(fmt.Sprintf("%s on %d", name, trainers), func(t *testing.T) {
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
}

func outSlot(op *program.Op) string { return slices.Sorted(maps.Keys(op.Outputs))[0] }

func TestTrainEqualsTheLocalExecutor(t *testing.T) {
	m := testkit.ReadingLine(t, optimizer.Momentum(0.05, 0.9))
	run := executor.TrainOptions{Data: testkit.LineFiles(t, t.TempDir(), 30), Passes: 2, Fetch: []string{m.Loss}}
	local := executor.New()
	defer local.Close()
	one := open(t, m.Program, 1)
	train := func(e executor.Executor) (losses []float32, s executor.Summary) {
		t.Helper()
		s, err := e.Train(t.Context(), m.Program, run, func(r executor.StepResult) error {
			losses = append(losses, r.Fetched[0].Float32s()[0])
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Elapsed = 0
		return losses, s
	}
	want, wantSummary := train(local)
	got, summary := train(one)
	if !slices.Equal(got, want) || summary != wantSummary {
		t.Errorf("losses %v and %+v, want %v and %+v", got, summary, want, wantSummary)
	}
}
