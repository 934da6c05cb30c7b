package sequence_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func tokens(text string, lengths ...int64) []*tensor.Tensor {
	var ids []int64
	for _, c := range text {
		ids = append(ids, int64(c))
	}
	return gradcheck.One(gradcheck.Sequences(gradcheck.Ints(dims{int64(len(ids)), 1}, ids...), lengths...))
}

func distances(values ...float32) []*tensor.Tensor {
	t, err := tensor.FromSlice(values, int64(len(values)), 1)
	if err != nil {
		panic(err)
	}
	return gradcheck.One(t)
}

var distanceCases = []gradcheck.Case{
	{Name: "by hand", Type: "edit_distance", Inputs: slots{"Hyps": tokens("kittenabflaw", 6, 2, 0, 4), "Refs": tokens("sittingabclawn", 7, 2, 1, 4)},
		Want: slots{"Out": distances(3, 0, 1, 2), "SequenceNum": gradcheck.One(gradcheck.Ints(dims{1}, 4))}},
	{Name: "normalized", Type: "edit_distance", Attrs: attrs{"normalized": true}, Inputs: slots{"Hyps": tokens("kittena", 6, 1, 0), "Refs": tokens("sittingbca", 7, 2, 1)},
		Want: slots{"Out": distances(float32(3./7), 1, 1)}},
	{Name: "no tokens to find", Type: "edit_distance", Inputs: slots{"Hyps": tokens("abc", 3, 0), "Refs": tokens("", 0, 0)}, Want: slots{"Out": distances(3, 0)}},
	{Name: "padded", Type: "edit_distance", Inputs: slots{
		"Hyps": gradcheck.One(gradcheck.Ints(dims{2, 3}, 1, 2, 9, 5, 6, 7)), "Refs": gradcheck.One(gradcheck.Ints(dims{2, 4}, 2, 9, 9, 9, 5, 7, 6, 7)),
		"HypsLength": gradcheck.One(gradcheck.Ints(dims{2}, 2, 3)), "RefsLength": gradcheck.One(gradcheck.Ints(dims{2}, 1, 4))},
		Want: slots{"Out": distances(1, 1), "SequenceNum": gradcheck.One(gradcheck.Ints(dims{1}, 2))}},
}

func TestEditDistanceOfWhatDoesNotFit(t *testing.T) {
	padded := func(hyps, refs int64) slots {
		return slots{"Hyps": gradcheck.One(gradcheck.Ints(dims{1, 2}, 1, 2)), "Refs": gradcheck.One(gradcheck.Ints(dims{1, 2}, 1, 2)),
			"HypsLength": gradcheck.One(gradcheck.Ints(dims{1}, hyps)), "RefsLength": gradcheck.One(gradcheck.Ints(dims{1}, refs))}
	}
	oneLength := padded(1, 1)
	delete(oneLength, "RefsLength")
	for _, c := range []struct {
		inputs     slots
		normalized bool
		kind       fault.Kind
		want       string
	}{
		{slots{"Hyps": tokens("ab", 1, 1), "Refs": tokens("ab", 2)}, false, fault.ShapeMismatch, "2 sequences"},
		{slots{"Hyps": tokens("ab", 1, 1), "Refs": tokens("ab", 2, 0)}, true, fault.InvalidArgument, "no tokens in sequence 1"},
		{slots{"Hyps": gradcheck.One(gradcheck.Ints(dims{2, 1}, 1, 2)), "Refs": tokens("ab", 2)}, false, fault.InvalidArgument, "without LoD"},
		{padded(3, 1), false, fault.InvalidArgument, "3 rows of sequence 0"},
		{padded(1, -1), false, fault.InvalidArgument, "-1 rows of sequence 0"},
		{oneLength, false, fault.ShapeMismatch, "both HypsLength and RefsLength"},
	} {
		err := gradcheck.Golden(gradcheck.Case{Type: "edit_distance", Inputs: c.inputs, Attrs: attrs{"normalized": c.normalized}})
		if fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %v with %q", err, c.kind, c.want)
		}
	}
}
