package sequence_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// ctcLoss sums the probabilities of all ways to read frames of logits as labels, one after the other.
func ctcLoss(logits []float64, classes, blank int, labels []int32) float64 {
	frames := len(logits) / classes
	total := 0.0
	way := make([]int, frames)
	var choose func(t int, p float64)
	choose = func(t int, p float64) {
		if t == frames {
			var read []int32
			for i, k := range way {
				if k != blank && (i == 0 || way[i-1] != k) {
					read = append(read, int32(k))
				}
			}
			if slices.Equal(read, labels) {
				total += p
			}
			return
		}
		sum := 0.0
		for _, x := range logits[t*classes:][:classes] {
			sum += math.Exp(x)
		}
		for k := range classes {
			way[t] = k
			choose(t+1, p*math.Exp(logits[t*classes+k])/sum)
		}
	}
	choose(0, 1)
	if total == 0 {
		return 0
	}
	return -math.Log(total)
}

// ctcCases has sequences of 4, 0, 3, 5 and 2 frames; the last has too few for its labels, and 1, 1 needs a blank between.
func ctcCases() []gradcheck.Case {
	const classes, blank = 3, 1
	frames, counts := []int64{4, 0, 3, 5, 2}, []int64{2, 0, 1, 3, 3}
	labels := []int32{0, 0, 2, 2, 0, 2, 0, 2, 0}
	logits := ragged(1, classes, frames...)
	for i, v := range logits.Float64s() {
		logits.Float64s()[i] = 2 * v
	}
	var want []float64
	row, at := 0, 0
	for i, n := range frames {
		want = append(want, ctcLoss(logits.Float64s()[row*classes:][:int(n)*classes], classes, blank, labels[at:][:counts[i]]))
		row, at = row+int(n), at+int(counts[i])
	}
	label := gradcheck.Sequences(gradcheck.Int32s(dims{int64(len(labels)), 1}, labels...), counts...)
	loss := gradcheck.One(gradcheck.Floats(dims{5, 1}, want...))

	wide, long := gradcheck.Spread(9, 6, 5, classes), make([]int32, 5*4)
	row, at = 0, 0
	for i, n := range frames {
		for f := range int(n) {
			copy(wide.Float64s()[(f*5+i)*classes:], logits.Float64s()[(row+f)*classes:][:classes])
		}
		copy(long[i*4:], labels[at:][:counts[i]])
		row, at = row+int(n), at+int(counts[i])
	}
	return []gradcheck.Case{
		{Name: "sequences", Type: "warpctc", Attrs: attrs{"blank": int32(blank)}, Inputs: slots{"Logits": gradcheck.One(logits), "Label": gradcheck.One(label)}, Want: slots{"Loss": loss}},
		{Name: "padded", Type: "warpctc", Attrs: attrs{"blank": int32(blank)}, Inputs: slots{"Logits": gradcheck.One(wide), "Label": gradcheck.One(gradcheck.Int32s(dims{5, 4}, long...)),
			"LogitsLength": gradcheck.One(gradcheck.Ints(dims{5}, frames...)), "LabelLength": gradcheck.One(gradcheck.Ints(dims{5}, counts...))}, Want: slots{"Loss": loss}},
	}
}

func TestCTCOfWhatDoesNotFit(t *testing.T) {
	x := gradcheck.One(ragged(1, 3, 2, 2))
	label := func(lengths []int64, ids ...int32) []*tensor.Tensor {
		return gradcheck.One(gradcheck.Sequences(gradcheck.Int32s(dims{int64(len(ids)), 1}, ids...), lengths...))
	}
	for _, c := range []struct {
		inputs slots
		blank  int32
		kind   fault.Kind
		want   string
	}{
		{slots{"Logits": x, "Label": label([]int64{1, 1}, 1, 3)}, 0, fault.InvalidArgument, "label 3 in row 1"},
		{slots{"Logits": x, "Label": label([]int64{1, 1}, 0, 1)}, 0, fault.InvalidArgument, "but for the blank 0"},
		{slots{"Logits": x, "Label": label([]int64{2}, 1, 1)}, 0, fault.ShapeMismatch, "sequences"},
		{slots{"Logits": x, "Label": label([]int64{1, 1}, 1, 1)}, 3, fault.InvalidArgument, "blank"},
		{slots{"Logits": x, "Label": label([]int64{1, 1}, 1, 1), "LogitsLength": gradcheck.One(gradcheck.Ints(dims{2}, 1, 1))}, 0, fault.ShapeMismatch, "both LogitsLength"},
		{slots{"Logits": gradcheck.One(gradcheck.Spread(1, 2, 1, 3)), "Label": gradcheck.One(gradcheck.Int32s(dims{1, 1}, 1)),
			"LogitsLength": gradcheck.One(gradcheck.Ints(dims{1}, 3)), "LabelLength": gradcheck.One(gradcheck.Ints(dims{1}, 1))}, 0, fault.InvalidArgument, "3 rows of sequence 0"},
	} {
		err := gradcheck.Golden(gradcheck.Case{Type: "warpctc", Inputs: c.inputs, Attrs: attrs{"blank": c.blank}})
		if fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %v with %q", err, c.kind, c.want)
		}
	}
}
