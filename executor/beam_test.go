package executor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/tensor"
)

// step is what one step of a beam search has selected.
type step struct {
	words  []int64
	scores []float32
	lod    [][]int64
}

// feedsOf puts steps into a feed, as variables wN and sN.
func feedsOf(t *testing.T, steps []step) (string, executor.Feed) {
	t.Helper()
	var lines strings.Builder
	feed := executor.Feed{}
	for i, s := range steps {
		word, score := fmt.Sprint("w", i), fmt.Sprint("s", i)
		fmt.Fprintf(&lines, "var %s int64 [-1,1] lod=2\nvar %s float32 [-1,1] lod=2\n", word, score)
		var err error
		if feed[word], err = tensor.FromSlice(s.words, int64(len(s.words)), 1); err != nil {
			t.Fatal(err)
		}
		if feed[score], err = tensor.FromSlice(s.scores, int64(len(s.scores)), 1); err != nil {
			t.Fatal(err)
		}
		feed[word].SetLoD(s.lod)
		feed[score].SetLoD(s.lod)
	}
	return lines.String(), feed
}

// Fluid before 1.0 had no scores of prefixes: an ended prefix takes its places in the beam, but goes on with nothing.
func TestBeamSearchWithoutScoresOfPrefixes(t *testing.T) {
	lines, feed := feedsOf(t, []step{{[]int64{0, 3}, []float32{0, 0}, [][]int64{{0, 2}, {0, 1, 2}}}})
	m, err := fluidtext.Read(lines + `var ids int64 [-1,2] lod=2
		var sums float32 [-1,2] lod=2
		var chosen int64 [-1,1] lod=2
		var scores float32 [-1,1] lod=2
		beam_search pre_ids=w0 ids=ids scores=sums -> selected_ids=chosen selected_scores=scores | level=0 beam_size=3 end_id=0`)
	if err != nil {
		t.Fatal(err)
	}
	feed["sums"] = values(t, []float32{-9, -1, -2, -3}, 2, 2)
	if feed["ids"], err = tensor.FromSlice([]int64{5, 6, 7, 8}, 2, 2); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ids", "sums"} {
		feed[name].SetLoD(feed["w0"].LoD())
	}
	delete(feed, "s0")
	l := executor.New()
	defer l.Close()
	out, err := l.Run(t.Context(), m.Program, feed, "chosen", "scores")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(out[0].Int64s(), out[1].Float32s(), out[0].LoD()); got != "[7 8] [-2 -3] [[0 2] [0 0 2]]" {
		t.Error(got)
	}
}

// Without beam_size a decoded search has all that no step goes on from, in the order in which it ended.
func TestBeamSearchDecodeOfAllThatEnds(t *testing.T) {
	for name, c := range map[string]struct {
		steps []step
		want  string
	}{
		"one source": {[]step{
			{[]int64{1}, []float32{0}, [][]int64{{0, 1}, {0, 1}}},
			{[]int64{3, 4}, []float32{-1, -2}, [][]int64{{0, 1}, {0, 2}}},
			{[]int64{5, 0}, []float32{-3, -4}, [][]int64{{0, 2}, {0, 0, 2}}},
		}, "[1 3 1 4 5 1 4 0] [0 -1 0 -2 -3 0 -2 -4] [[0 3] [0 2 5 8]]"},
		"two sources": {[]step{
			{[]int64{1, 2}, []float32{0, 1}, [][]int64{{0, 1, 2}, {0, 1, 2}}},
			{[]int64{3}, []float32{5}, [][]int64{{0, 1, 2}, {0, 0, 1}}},
		}, "[1 2 3] [0 1 5] [[0 1 2] [0 1 3]]"},
		"more prefixes than words": {[]step{
			{[]int64{1}, []float32{0}, [][]int64{{0, 1}, {0, 1}}},
			{[]int64{3, 4}, []float32{-1, -2}, [][]int64{{0, 2}, {0, 1, 2}}},
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			lines, feed := feedsOf(t, c.steps)
			lines += "var words int64 [] array\nvar scores float32 [] array\nvar out int64 [-1,1] lod=2\nvar sums float32 [-1,1] lod=2\n"
			for i := range c.steps {
				lines += fmt.Sprintf("var i%d int64 [1]\nfill_constant -> Out=i%d | shape=[1L] value=%d.0f dtype=3\nwrite_to_array X=w%d I=i%d -> Out=words\nwrite_to_array X=s%d I=i%d -> Out=scores\n", i, i, i, i, i, i, i)
			}
			m, err := fluidtext.Read(lines + "beam_search_decode Ids=words Scores=scores -> SentenceIds=out SentenceScores=sums")
			if err != nil {
				t.Fatal(err)
			}
			l := executor.New()
			defer l.Close()
			out, err := l.Run(t.Context(), m.Program, feed, "out", "sums")
			if c.want == "" {
				if fault.KindOf(err) != fault.InvalidArgument {
					t.Error(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(out[0].Int64s(), out[1].Float32s(), out[0].LoD()); got != c.want || !slices.EqualFunc(out[0].LoD(), out[1].LoD(), slices.Equal[[]int64]) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
