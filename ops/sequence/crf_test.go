package sequence_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

const tags = 3

// field makes emissions and transitions of a field, and labels.
func field(lengths ...int64) (emission, transition, label *tensor.Tensor) {
	emission, transition = ragged(1, tags, lengths...), gradcheck.Spread(2, tags+2, tags)
	rows := emission.Dims()[0]
	ids := make([]int64, rows)
	for i := range ids {
		ids[i] = int64(i*i+1) % tags
	}
	return emission, transition, gradcheck.Sequences(gradcheck.Ints(dims{rows, 1}, ids...), lengths...)
}

// scores calls do with the score of each choice of tags for the rows [from, to).
func scores(emission, transition *tensor.Tensor, from, to int, do func(path []int, score float64)) {
	x, w := emission.Float64s(), transition.Float64s()
	path := make([]int, to-from)
	var choose func(k int, score float64)
	choose = func(k int, score float64) {
		if k == len(path) {
			do(path, score+w[tags+path[k-1]])
			return
		}
		for tag := range tags {
			path[k] = tag
			step := w[tag]
			if k > 0 {
				step = w[(2+path[k-1])*tags+tag]
			}
			choose(k+1, score+step+x[(from+k)*tags+tag])
		}
	}
	choose(0, 0)
}

// padded lays sequences out with the same number of rows each.
func padded(t *tensor.Tensor, longest int64) *tensor.Tensor {
	offsets, width := t.LoD()[0], int(t.Dims()[1])
	n := int64(len(offsets) - 1)
	out := gradcheck.Spread(7, n, longest, int64(width))
	if t.DType() == tensor.Int64 {
		out = gradcheck.Ints(dims{n, longest}, make([]int64, n*longest)...)
	}
	for i := range int(n) {
		from, to, at := int(offsets[i])*width, int(offsets[i+1])*width, i*int(longest)*width
		if t.DType() == tensor.Int64 {
			copy(out.Int64s()[at:], t.Int64s()[from:to])
		} else {
			copy(out.Float64s()[at:], t.Float64s()[from:to])
		}
	}
	return out
}

// crfCases compare with all choices of tags.
func crfCases() []gradcheck.Case {
	lengths := []int64{2, 0, 4, 1}
	emission, transition, label := field(lengths...)
	costs, best, same := make([]float64, len(lengths)), make([]int64, label.Len()), make([]int64, label.Len())
	offsets := label.LoD()[0]
	for i := range lengths {
		from, to := int(offsets[i]), int(offsets[i+1])
		if from == to {
			continue
		}
		total, labelled, top := 0.0, 0.0, math.Inf(-1)
		scores(emission, transition, from, to, func(path []int, score float64) {
			total += math.Exp(score)
			chosen := true
			for k, tag := range path {
				chosen = chosen && int64(tag) == label.Int64s()[from+k]
			}
			if chosen {
				labelled = score
			}
			if score > top {
				top = score
				for k, tag := range path {
					best[from+k] = int64(tag)
				}
			}
		})
		costs[i] = math.Log(total) - labelled
	}
	for i, tag := range label.Int64s() {
		if tag == best[i] {
			same[i] = 1
		}
	}
	length := gradcheck.Ints(dims{4, 1}, lengths...)
	in := func(more slots) slots {
		all := slots{"Emission": gradcheck.One(emission), "Transition": gradcheck.One(transition), "Label": gradcheck.One(label)}
		for slot, v := range more {
			all[slot] = v
		}
		return all
	}
	without := in(nil)
	delete(without, "Label")
	wide := slots{"Emission": gradcheck.One(padded(emission, 5)), "Label": gradcheck.One(padded(label, 5)), "Length": gradcheck.One(length)}
	cost := slots{"LogLikelihood": gradcheck.One(gradcheck.Floats(dims{4, 1}, costs...))}
	path := gradcheck.Sequences(gradcheck.Ints(dims{7, 1}, best...), lengths...)
	return []gradcheck.Case{
		{Type: "linear_chain_crf", Inputs: in(nil), Want: cost},
		{Type: "linear_chain_crf", Name: "padded", Inputs: in(wide), Want: cost},
		{Type: "linear_chain_crf", Name: "no rows", Inputs: slots{"Emission": gradcheck.One(gradcheck.Sequences(gradcheck.Floats(dims{0, 2}))),
			"Transition": gradcheck.One(gradcheck.Spread(2, 4, 2)), "Label": gradcheck.One(gradcheck.Sequences(gradcheck.Ints(dims{0, 1})))}},
		{Type: "crf_decoding", Inputs: without, Want: slots{"ViterbiPath": gradcheck.One(path)}},
		{Type: "crf_decoding", Name: "compared", Inputs: in(nil), Want: slots{"ViterbiPath": gradcheck.One(gradcheck.Ints(dims{7, 1}, same...))}},
		{Type: "crf_decoding", Name: "padded", Inputs: slots{"Emission": wide["Emission"], "Transition": without["Transition"], "Length": wide["Length"]},
			Want: slots{"ViterbiPath": gradcheck.One(padded(path, 5))}},
	}
}

func TestFieldsThatDoNotFit(t *testing.T) {
	emission, transition, label := field(2, 1)
	short := gradcheck.Spread(1, tags, tags)
	unknown := gradcheck.Sequences(gradcheck.Ints(dims{3, 1}, 0, tags, 0), 2, 1)
	for i, c := range []struct {
		in   slots
		want fault.Kind
	}{
		{slots{"Emission": gradcheck.One(emission), "Transition": gradcheck.One(short), "Label": gradcheck.One(label)}, fault.ShapeMismatch},
		{slots{"Emission": gradcheck.One(emission), "Transition": gradcheck.One(transition), "Label": gradcheck.One(unknown)}, fault.InvalidArgument},
		{slots{"Emission": gradcheck.One(gradcheck.Spread(1, 3, tags)), "Transition": gradcheck.One(transition), "Label": gradcheck.One(label)},
			fault.InvalidArgument},
		{slots{"Emission": gradcheck.One(gradcheck.Spread(1, 1, 3, tags)), "Transition": gradcheck.One(transition),
			"Label": gradcheck.One(gradcheck.Ints(dims{1, 3}, 0, 1, 2)), "Length": gradcheck.One(gradcheck.Ints(dims{1}, 4))}, fault.InvalidArgument},
	} {
		if err := gradcheck.Golden(gradcheck.Case{Type: "linear_chain_crf", Name: fmt.Sprint(i), Inputs: c.in}); fault.KindOf(err) != c.want {
			t.Errorf("%d: %v, want %v", i, err, c.want)
		}
	}
}

// chunkCases have chunks of two types.
func chunkCases() []gradcheck.Case {
	count := func(name, scheme string, found, truth []int64, lengths []int64, n [3]int64, more attrs) gradcheck.Case {
		a := attrs{"num_chunk_types": int32(2), "chunk_scheme": scheme}
		for k, v := range more {
			a[k] = v
		}
		rows := int64(len(found))
		share := func(of, by int64) []*tensor.Tensor {
			v := float32(0)
			if by > 0 {
				v = float32(float64(of) / float64(by))
			}
			t, err := tensor.FromSlice([]float32{v}, 1)
			if err != nil {
				panic(err)
			}
			return gradcheck.One(t)
		}
		return gradcheck.Case{Type: "chunk_eval", Name: name, Attrs: a,
			Inputs: slots{"Inference": gradcheck.One(gradcheck.Sequences(gradcheck.Ints(dims{rows, 1}, found...), lengths...)),
				"Label": gradcheck.One(gradcheck.Sequences(gradcheck.Ints(dims{rows, 1}, truth...), lengths...))},
			Want: slots{"Precision": share(n[2], n[0]), "Recall": share(n[2], n[1]), "F1-Score": share(2*n[2], n[0]+n[1]),
				"NumInferChunks": gradcheck.One(gradcheck.Ints(dims{1}, n[0])), "NumLabelChunks": gradcheck.One(gradcheck.Ints(dims{1}, n[1])),
				"NumCorrectChunks": gradcheck.One(gradcheck.Ints(dims{1}, n[2]))}}
	}
	// In IOB: 0 and 1 begin and continue the first type, 2 and 3 the second, 4 is outside.
	return []gradcheck.Case{
		count("IOB", "IOB", []int64{0, 1, 4, 2, 3, 3, 0, 0}, []int64{0, 1, 1, 2, 3, 3, 0, 1}, []int64{6, 2}, [3]int64{4, 3, 1}, nil),
		count("a type that does not count", "IOB", []int64{0, 1, 4, 2, 3, 3}, []int64{0, 1, 4, 2, 3, 3}, []int64{6}, [3]int64{1, 1, 1},
			attrs{"excluded_chunk_types": []int32{0}}),
		count("chunks that only continue", "IOB", []int64{1, 1, 3}, []int64{0, 1, 2}, []int64{3}, [3]int64{2, 2, 2}, nil),
		count("plain", "plain", []int64{0, 0, 1, 2, 1}, []int64{0, 0, 1, 1, 1}, []int64{5}, [3]int64{3, 2, 1}, nil),
		count("IOE", "IOE", []int64{0, 1, 0, 1, 3}, []int64{0, 1, 0, 0, 3}, []int64{5}, [3]int64{3, 3, 3}, nil),
		count("IOBES", "IOBES", []int64{0, 1, 2, 3, 8, 7}, []int64{0, 1, 2, 3, 3, 7}, []int64{6}, [3]int64{3, 4, 3}, nil),
		count("nothing", "IOB", []int64{4, 4}, []int64{4, 9}, []int64{2, 0}, [3]int64{}, nil),
	}
}
