package sequence_test

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// viterbi decodes sequences, twice. The second run allocates nothing.
func viterbi(t *testing.T, x, w *tensor.Tensor, ends bool, lengths ...int64) (scores, path *tensor.Tensor, err error) {
	t.Helper()
	in := map[string][]*tensor.Tensor{"Input": {x}, "Transition": {w}, "Length": {gradcheck.Ints([]int64{int64(len(lengths))}, lengths...)}}
	scores, path = gradcheck.Floats([]int64{0}), gradcheck.Ints([]int64{0})
	op := &program.Op{Type: "viterbi_decode", Inputs: map[string][]string{"Input": {"Input"}, "Transition": {"Transition"}, "Length": {"Length"}},
		Outputs: map[string][]string{"Scores": {"scores"}, "Path": {"path"}}, Attrs: map[string]program.Attr{"include_bos_eos_tag": ends}}
	if _, err := ops.Infer(op, func(name string) (ops.Meta, bool) { return ops.MetaOfValue(in[name][0]), true }); err != nil {
		return nil, nil, err
	}
	def, _ := ops.Lookup("viterbi_decode")
	kernel, err := def.Bind(ops.NewBinding(op, def, &ops.Env{}, in, map[string][]*tensor.Tensor{"Scores": {scores}, "Path": {path}}, nil))
	if err == nil {
		err = kernel(t.Context())
	}
	if err != nil {
		return nil, nil, err
	}
	if n := testing.AllocsPerRun(2, func() { err = kernel(t.Context()) }); n != 0 || err != nil {
		t.Errorf("%v allocations a run, %v", n, err)
	}
	return scores, path, nil
}

// TestViterbiFindsTheBestOfAllPaths compares with the scores of all paths.
func TestViterbiFindsTheBestOfAllPaths(t *testing.T) {
	const steps, tags = 3, 4
	x, w := gradcheck.Spread(1, 4, steps, tags), gradcheck.Spread(3, tags, tags)
	lengths := []int64{2, 3, 1, 0}
	for _, ends := range []bool{true, false} {
		scores, path, err := viterbi(t, x, w, ends, lengths...)
		if err != nil {
			t.Fatal(err)
		}
		for i, length := range lengths[:3] {
			most, best := math.Inf(-1), []int64(nil)
			for code := range int(math.Pow(tags, float64(length))) {
				score, way := 0.0, []int64(nil)
				for step := range int(length) {
					tag := code % tags
					code /= tags
					score += x.Float64s()[(i*steps+step)*tags+tag]
					if step > 0 {
						score += w.Float64s()[int(way[step-1])*tags+tag]
					} else if ends {
						score += w.Float64s()[(tags-1)*tags+tag]
					}
					if ends && step == int(length)-1 {
						score += w.Float64s()[(tags-2)*tags+tag]
					}
					way = append(way, int64(tag))
				}
				if score > most {
					most, best = score, way
				}
			}
			row := path.Int64s()[3*i:][:3]
			if math.Abs(scores.Float64s()[i]-most) > 1e-12 || !slices.Equal(row[:length], best) || slices.Max(append(slices.Clone(row[length:]), 0)) != 0 {
				t.Errorf("sequence %d scores %v by %v, want %v by %v", i, scores.Float64s()[i], row, most, best)
			}
		}
		if row := path.Int64s()[9:]; !slices.Equal(row, []int64{0, 0, 0}) {
			t.Errorf("the path of no steps is %v", row)
		}
	}
}

func TestViterbiRefusesWhatDoesNotFit(t *testing.T) {
	x, w := gradcheck.Spread(1, 1, 2, 3), gradcheck.Spread(3, 3, 3)
	for _, c := range []struct {
		x, w   *tensor.Tensor
		length []int64
		want   fault.Kind
	}{
		{x, w, []int64{3}, fault.InvalidArgument}, {x, w, []int64{-1}, fault.InvalidArgument}, {x, w, []int64{1, 1}, fault.ShapeMismatch},
		{x, gradcheck.Spread(3, 2, 3), []int64{1}, fault.ShapeMismatch}, {gradcheck.Spread(1, 1, 2, 1), gradcheck.Spread(3, 1, 1), []int64{1}, fault.ShapeMismatch},
	} {
		if _, _, err := viterbi(t, c.x, c.w, true, c.length...); fault.KindOf(err) != c.want {
			t.Errorf("%v of %v: %v", c.length, c.x.Dims(), err)
		}
	}
}
