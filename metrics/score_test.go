package metrics_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/tensor"
)

// scoreSpecs are metrics of all kinds of states: sums, and a ranking.
var scoreSpecs = []metrics.Spec{{Kind: "auc", Prediction: "p", Label: "y", Weight: "w"}, {Kind: "log_loss", Prediction: "p", Label: "y"}, {Kind: "f1", Prediction: "p", Label: "y"}}

// aStep is a step of rows that draw makes: what a score of a loss and scoreSpecs fetches.
func aStep(t *testing.T, draw *rand.Rand, rows int, loss float64) []*tensor.Tensor {
	t.Helper()
	p, y, w := make([]float32, rows), make([]int64, rows), make([]float32, rows)
	for i := range p {
		p[i], y[i], w[i] = draw.Float32(), draw.Int64N(2), draw.Float32()
	}
	return []*tensor.Tensor{tensorOf(t, []float32{float32(loss)}, 1), tensorOf(t, p, int64(rows), 1), tensorOf(t, w, int64(rows), 1), tensorOf(t, y, int64(rows), 1)}
}

func tensorOf[T tensor.Element](t *testing.T, v []T, dims ...int64) *tensor.Tensor {
	t.Helper()
	out, err := tensor.FromSlice(v, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func newScore(t *testing.T) *metrics.Score {
	t.Helper()
	s, err := metrics.NewScore("loss", scoreSpecs...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t *testing.T, s *metrics.Score, step []*tensor.Tensor) {
	t.Helper()
	byName := map[string]*tensor.Tensor{"loss": step[0], "p": step[1], "w": step[2], "y": step[3]}
	var fetched []*tensor.Tensor
	for _, name := range s.Names() {
		fetched = append(fetched, byName[name])
	}
	if err := s.Add(step[1].Dims()[0], fetched); err != nil {
		t.Fatal(err)
	}
}

func bitsOf(t *testing.T, s *metrics.Score) (out []string) {
	t.Helper()
	results, err := s.Results()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		out = append(out, fmt.Sprintf("%s %016x", r.Name, math.Float64bits(r.Value)))
	}
	return out
}

// Parts that travel, in any order, come to the bits of one machine that has all rows.
func TestScoreOfPartsIsThatOfTheWhole(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	whole := newScore(t)
	var states [][]byte
	for i := range 7 {
		step := aStep(t, draw, 1+i*13, math.Ldexp(draw.Float64()-0.5, i*9-20))
		add(t, whole, step)
		part := newScore(t)
		add(t, part, step)
		states = append(states, part.AppendState(nil))
	}
	for range 5 {
		draw.Shuffle(len(states), func(i, j int) { states[i], states[j] = states[j], states[i] })
		joined := newScore(t)
		for _, state := range states {
			if err := joined.MergeState(state); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := bitsOf(t, joined), bitsOf(t, whole); !slices.Equal(got, want) || joined.Rows() != whole.Rows() {
			t.Fatalf("%v of %d rows, want %v of %d", got, joined.Rows(), want, whole.Rows())
		}
	}
}

// A state that was cut or changed is refused or is another state; it never panics, and a refused one changes nothing.
func TestMergeStateRefusesWhatIsNone(t *testing.T) {
	draw := rand.New(rand.NewPCG(3, 4))
	part := newScore(t)
	add(t, part, aStep(t, draw, 20, 0.5))
	state := part.AppendState(nil)
	s := newScore(t)
	for n := range state {
		if err := s.MergeState(state[:n]); !errors.Is(err, fault.Corrupt) {
			t.Fatalf("%d of %d bytes: %v", n, len(state), err)
		}
	}
	if err := s.MergeState(append(slices.Clone(state), 0)); !errors.Is(err, fault.Corrupt) || s.Rows() != 0 {
		t.Fatalf("a byte too many: %v; %d rows", err, s.Rows())
	}
	for range 2000 {
		changed := slices.Clone(state)
		changed[draw.IntN(len(changed))] ^= byte(1 << draw.IntN(8))
		_ = newScore(t).MergeState(changed)
	}
}

// A loss that is not finite makes the mean so, wherever it comes.
func TestScoreOfALossThatIsNotFinite(t *testing.T) {
	for _, c := range []struct {
		losses []float64
		want   float64
	}{{[]float64{1, math.Inf(1), 2}, math.Inf(1)}, {[]float64{math.Inf(-1), 1, math.Inf(1)}, math.NaN()}, {[]float64{math.NaN(), 1}, math.NaN()}, {[]float64{0, 3}, 1.5}} {
		s, err := metrics.NewScore("loss")
		if err != nil {
			t.Fatal(err)
		}
		for _, loss := range c.losses {
			if err := s.Add(10, []*tensor.Tensor{tensorOf(t, []float64{loss}, 1)}); err != nil {
				t.Fatal(err)
			}
		}
		results, err := s.Results()
		if err != nil || len(results) != 1 || results[0].Value != c.want && !(math.IsNaN(c.want) && math.IsNaN(results[0].Value)) {
			t.Errorf("losses %v: %v, %v; want %v", c.losses, results, err, c.want)
		}
	}
}

func TestSpecStringIsRead(t *testing.T) {
	for _, text := range []string{"auc", "auc=p,y", "rmse=p,y,w"} {
		s, err := metrics.ParseSpec(text)
		if err != nil || s.String() != text {
			t.Errorf("%q becomes %q, %v", text, s, err)
		}
	}
}
