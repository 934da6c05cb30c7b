package reference_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"go.uber.org/goleak"
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

func TestReferenceRefuses(t *testing.T) {
	m := fixture.FitALine(t, optimizer.SGD(0.1))
	if _, err := reference.New(m.Program, 0); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("no trainers: %v", err)
	}
	e := open(t, m.Program, 2)
	feed := executor.Feed{"x": fixture.Numbers(1, 4, 13), "y": fixture.Numbers(1, 3, 1)}
	if _, err := e.Run(t.Context(), m.Program, feed); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("rows that do not agree: %v", err)
	}
	sequences := fixture.Numbers(1, 4, 13)
	sequences.SetLoD([][]int64{{0, 1, 4}})
	if _, err := e.Run(t.Context(), m.Program, executor.Feed{"x": sequences, "y": fixture.Numbers(1, 4, 1)}); !errors.Is(err, fault.ShapeMismatch) || !strings.Contains(err.Error(), "layers.LoD") {
		t.Errorf("sequences: %v", err)
	}
	if _, err := e.Run(t.Context(), m.Program, nil); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("no rows: %v", err)
	}
	read := m.Program.Clone()
	update := read.Global().Ops[len(read.Global().Ops)-1]
	read.Global().Append(&program.Op{Type: "tanh", Inputs: map[string][]string{"X": {update.Out("ParamOut")}},
		Outputs: map[string][]string{"Out": {m.Loss}}})
	if _, err := reference.New(read, 2); !errors.Is(err, fault.Unsupported) {
		t.Errorf("a forward op behind the update: %v", err)
	}
}

// A number of trainers that changes between rounds gives in each round what a constant number of them gives there: with one trainer in some
// rounds and three in others, every round equals that of an executor of one or of three that begins it with the same variables.
func TestTrainersThatComeAndGo(t *testing.T) {
	members := []int{3, 1, 1, 3, 2}
	model := fixture.MLP(t, 20, []int64{8}, optimizer.Momentum(0.1, 0.9))
	m, fetch := model.Program, model.Loss
	varied := open(t, m, 1)
	varied.Vary(func(round uint64) int { return members[round] })
	for round, n := range members {
		alone := open(t, m, n)
		for _, name := range varied.Scope().Names() {
			v, _ := varied.Scope().Find(name)
			if err := alone.Scope().Set(name, v.Clone()); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range []*reference.Executor{varied, alone} {
			if _, err := e.Run(t.Context(), m, digits(uint64(round), 7), fetch); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := values(varied.Scope()), values(alone.Scope()); !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("round %d of %d trainers differs", round, n)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a reference of so many trainers, which the end of the test closes.
func open(t *testing.T, p *program.Program, trainers int) *reference.Executor {
	t.Helper()
	e, err := reference.New(p, trainers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

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

// images is a batch for fixture.ConvNet of side 8.
func images(seed uint64, rows int64) executor.Feed {
	return executor.Feed{"image": fixture.Numbers(seed, rows, 1, 8, 8), "label": fixture.Labels(seed, rows, 10)}
}

// A subject is a model with its batches.
type subject struct {
	model fixture.Model
	batch func(seed uint64, rows int64) executor.Feed
}

func subjects(t *testing.T) map[string]subject {
	all := map[string]subject{
		"batch norm": {fixture.ConvNet(t, 8, 3, true, 0, optimizer.SGD(0.1)), images},
		"dropout":    {fixture.ConvNet(t, 8, 3, false, 0.3, optimizer.SGD(0.1)), images},
	}
	for name, o := range optimizers() {
		all[name] = subject{fixture.MLP(t, 20, []int64{8}, o()), digits}
	}
	return all
}

// The callback of Train may read the state. What would change it is refused, as on the local executor.
func TestCallsFromTheCallback(t *testing.T) {
	c := testkit.NewContract(t, t.TempDir(), false)
	if err := c.TrainWithCalls(t.Context(), 1, 15, open(t, c.Program, 2), open(t, c.Program, 2), t.TempDir); err != nil {
		t.Error(err)
	}
	if err := c.CloseInCallback(t.Context(), open(t, c.Program, 2), executor.ErrStop); err != nil {
		t.Error(err)
	}
}
