package executor_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Models that real Fluid saved must give the answers that their authors published.
func TestModelsOfRealFluidGiveTheirPublishedAnswers(t *testing.T) {
	data := os.Getenv("EDL_TESTDATA")
	if data == "" {
		t.Skip("EDL_TESTDATA does not name the folder of real models")
	}
	state, err := tensor.New(tensor.Float32, 1, 4, 84, 84)
	if err != nil {
		t.Fatal(err)
	}
	for i := range state.Float32s() {
		state.Float32s()[i] = float32(i % 256)
	}
	for name, test := range map[string]struct {
		feed *tensor.Tensor
		want []float32
	}{
		"uci_housing": {values(t, []float32{0.0137, -0.1136, 0.2553, -0.0692, 0.0582, -0.0727, -0.1583, -0.0584, 0.6283, 0.4919, 0.1856, 0.0795,
			-0.0332}, 1, 13),
			[]float32{18.901151657104492}},
		"dqn_pong": {state, []float32{0.49592587, 0.51072258, 0.44459975, 0.60065556, 0.41136983, 0.58217990}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(data, "models", name)
			p, err := program.Load(filepath.Join(dir, "__model__"), program.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			for _, workers := range []int{1, 2} {
				l := executor.New(executor.WithWorkers(workers), executor.WithStage(program.StageInference))
				defer l.Close()
				if err := executor.LoadParams(l.Scope(), dir, p); err != nil {
					t.Fatal(err)
				}
				out, err := l.Run(t.Context(), p, executor.Feed{p.Feeds()[0]: test.feed})
				if err != nil {
					t.Fatal(err)
				}
				got := out[0].Float32s()
				if len(got) != len(test.want) {
					t.Fatalf("got %v, want %v", got, test.want)
				}
				for i, want := range test.want {
					if math.Abs(float64(got[i]-want)) > 1e-5*math.Abs(float64(want)) {
						t.Errorf("element %d is %v, want %v", i, got[i], want)
					}
				}
			}
		})
	}
}
