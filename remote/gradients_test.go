package remote_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// Fetched gradients of what has rows are those of one machine, but for rounding: each trainer divides a mean loss by its own rows, and what is fetched is
// scaled for that. On clusters they have the bits of the reference executor, and on a cluster of one trainer those of a local step.
func TestFetchedGradientsOfRows(t *testing.T) {
	l := listener(t)
	for name, reduce := range map[string]func(layers.Variable) layers.Variable{
		"mean": func(cost layers.Variable) layers.Variable { return layers.Mean(cost) },
		"sum":  func(cost layers.Variable) layers.Variable { return layers.ReduceSum(cost) },
	} {
		t.Run(name, func(t *testing.T) {
			m := layers.NewModel().Seed(9)
			x, y := layers.Data(m, "x", layers.Dims(testkit.Width)), layers.Data(m, "y", layers.Dims(1))
			h := layers.FC(x, 5, layers.Act("tanh"))
			cost := layers.SquareErrorCost(layers.FC(h, 1), y)
			loss := reduce(cost)
			optimizer.SGD(0.01).Minimize(loss)
			s := testkit.Built(t, m, loss)
			fetch := []string{s.Loss}
			for _, v := range s.Program.Global().Vars() {
				if strings.Contains(v.Name, program.GradSuffix) && len(v.Dims) > 1 && v.Dims[0] == program.Unknown {
					fetch = append(fetch, v.Name)
				}
			}
			if len(fetch) < 4 {
				t.Fatalf("gradients %v", fetch[1:])
			}
			for trainers, rows := range map[int32][]int64{1: {8, 3}, 2: {8, 5, 1}, 3: {8, 2}} {
				var local, oracle executor.Executor = executor.New(), nil
				var err error
				if oracle, err = reference.New(s.Program, int(trainers)); err != nil {
					t.Fatal(err)
				}
				defer local.Close()
				defer oracle.Close()
				cluster := executorOf(t, l, &remote.JobSpec{Trainers: trainers, Pservers: 2, MinBlockSize: 4})
				for step, n := range rows {
					feed := testkit.Batch(t, s.Program, uint64(step), n)
					var got [3][]*tensor.Tensor
					for i, e := range []executor.Executor{local, oracle, cluster} {
						if got[i], err = e.Run(bounded(t), s.Program, feed, fetch...); err != nil {
							t.Fatal(err)
						}
					}
					what := fmt.Sprintf("%d trainers, %d rows", trainers, n)
					if err := testkit.Difference(named(fetch, got[2]), named(fetch, got[1])); err != nil {
						t.Errorf("%s: %v", what, err)
					}
					for i, name := range fetch {
						if trainers == 1 && !testkit.Same(got[2][i], got[0][i]) {
							t.Errorf("%s: %s %s, want %s", what, name, testkit.Show(got[2][i]), testkit.Show(got[0][i]))
						}
						if !slices.EqualFunc(got[2][i].Float32s(), got[0][i].Float32s(), near) {
							t.Errorf("%s: %s %s, want about %s", what, name, testkit.Show(got[2][i]), testkit.Show(got[0][i]))
						}
					}
				}
			}
		})
	}
}

// near reports whether two numbers differ by rounding only.
func near(a, b float32) bool { return math.Abs(float64(a-b)) <= 1e-5*max(1, math.Abs(float64(b))) }
