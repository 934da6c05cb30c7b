package control

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Beam search keeps, for each source, the few best prefixes of what it generates. A step has a row for each prefix. The LoD of what a step selects has two
// levels: level 0 divides the prefixes of the step among the sources, and level 1 the selected words among the prefixes that they go on from. A source whose
// prefixes have all ended has no more rows.

// onlyInfers is why no model trains through an op.
var onlyInfers = map[ops.Check]string{ops.CheckLaw: "no gradient flows through it, and it makes no rows of the batch of what it gets: only programs that infer have it"}

// mostBeam bounds beam_size.
const mostBeam = 1 << 16

func init() {
	size := ops.Attr{Name: "beam_size", Doc: "how many prefixes of a source are kept", Kind: int32(0), Check: func(op *program.Op) error {
		if n, ok := op.Int("beam_size"); ok && (n < 1 || n > mostBeam) {
			return fault.E(fault.InvalidArgument, fault.Wantf("1 to %d", mostBeam))
		}
		return nil
	}}
	end := ops.Attr{Name: "end_id", Doc: "the word that ends a sequence", Kind: int32(0)}
	ops.Register(ops.Def{
		Type:  "beam_search",
		Class: ops.Control,
		Doc: "Selects the beam_size best words of a step for each source, among those of all its prefixes. A prefix that has ended takes part with its end and its " +
			"score. If all that is selected for a source are ends of prefixes that had ended before, nothing is. Of equal scores the earlier prefix wins. Without pre_scores, as Fluid " +
			"wrote it before 1.0, what is selected for a prefix that has ended is dropped, and scores are taken as they are.",
		Inputs: []ops.Slot{
			{Name: "pre_ids", Doc: "int64 [prefixes, 1]: the last words of the prefixes"},
			{Name: "pre_scores", Doc: "float32 [prefixes, 1]: the scores of the prefixes; Fluid before 1.0 has none", Dispensable: true},
			{Name: "ids", Doc: "int64 [prefixes, K]: candidates for each prefix; without it they are numbered from 0", Dispensable: true},
			{Name: "scores", Doc: "float32 [prefixes, K]: the scores of the candidates; LoD level 0 divides the prefixes among the sources"},
		},
		Outputs: []ops.Slot{
			{Name: "selected_ids", Doc: "int64 [selected, 1], with two LoD levels"},
			{Name: "selected_scores", Doc: "float32 [selected, 1], with two LoD levels"},
			{Name: "parent_idx", Doc: "int32 [selected]: the prefix that each selected word goes on from", Dispensable: true},
		},
		Attrs: []ops.Attr{size, end,
			{Name: "level", Doc: "the LoD level of the sources; 0", Default: int32(0), Check: func(op *program.Op) error {
				if level, _ := op.Int("level"); level != 0 {
					return fault.E(fault.Unsupported, fault.Want("0"))
				}
				return nil
			}},
			{Name: "is_accumulated", Doc: "scores are those of whole prefixes; else probabilities of the last word, whose logarithm is added to pre_scores", Default: true}},
		Infer: func(s *ops.Shapes) error {
			for slot, dtype := range opkit.InOrder(map[string]tensor.DType{"pre_ids": tensor.Int64, "pre_scores": tensor.Float32, "ids": tensor.Int64, "scores": tensor.Float32}) {
				if m := s.In(slot); s.Has(slot) && (m.Kind != program.LoDTensor || m.DType != dtype) {
					return s.Errorf(slot, "%v", dtype)
				}
			}
			if !s.Has("pre_scores") && !s.Bool("is_accumulated") {
				return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Got("no pre_scores"), fault.Want("the scores of the prefixes, to which those of words are added"))
			}
			s.Set("selected_ids", tensor.Int64, program.Unknown, 1)
			s.Set("selected_scores", tensor.Float32, program.Unknown, 1)
			s.Set("parent_idx", tensor.Int32, program.Unknown)
			ops.MakeLoD(s, "selected_ids", "", 2, nil)
			ops.MakeLoD(s, "selected_scores", "", 2, nil)
			return nil
		},
		Bind:      bindBeam,
		MixesRows: opkit.Mixes,
		Exempt:    onlyInfers,
	})
	ops.Register(ops.Def{
		Type:  "beam_search_decode",
		Class: ops.Control,
		Doc: "Follows what the steps of a beam search have selected back from the last step, and returns the sequences of each source, those with the best " +
			"scores first. Without beam_size, as Fluid wrote it before 1.0, it returns whatever no later step goes on from, those that ended first before others.",
		Inputs: []ops.Slot{
			{Name: "Ids", Doc: "an array of the selected_ids of each step"},
			{Name: "Scores", Doc: "an array of the selected_scores of each step"},
		},
		Outputs: []ops.Slot{
			{Name: "SentenceIds", Doc: "int64 [words, 1]; LoD level 0 divides the sequences among the sources, and level 1 the words among the sequences"},
			{Name: "SentenceScores", Doc: "float32 [words, 1], likewise: the score after each word"},
		},
		Attrs: []ops.Attr{
			{Name: size.Name, Doc: "how many sequences of a source are returned at most; 0 for all", Default: int32(0), Check: size.Check},
			{Name: end.Name, Doc: end.Doc + "; -1 for none", Default: int32(-1)}},
		Infer: func(s *ops.Shapes) error {
			for _, slot := range []string{"Ids", "Scores"} {
				if err := opkit.CheckType(s, slot, s.In(slot).Kind == program.LoDTensorArray, "an array"); err != nil {
					return err
				}
			}
			s.Set("SentenceIds", tensor.Int64, program.Unknown, 1)
			s.Set("SentenceScores", tensor.Float32, program.Unknown, 1)
			for _, slot := range []string{"SentenceIds", "SentenceScores"} {
				m := s.Outs(slot)
				for i := range m {
					m[i].LoDLevel = 2
				}
			}
			return nil
		},
		Bind:      bindDecode,
		MixesRows: opkit.Mixes,
		Exempt:    onlyInfers,
	})
}

// A candidate may go on from a prefix.
type candidate struct {
	prefix int
	word   int64
	score  float32
}

// better orders candidates, the best first.
func better(a, b candidate) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.prefix, b.prefix))
}

func bindBeam(b *ops.Binding) (ops.Kernel, error) {
	var s beam
	s.preIDs, s.preScores, s.ids, s.scores = b.In("pre_ids"), b.In("pre_scores"), b.In("ids"), b.In("scores")
	s.size, s.end, s.accumulated = int(b.Int("beam_size")), b.Int("end_id"), b.Bool("is_accumulated")
	words, scores, parents := b.Out("selected_ids"), b.Out("selected_scores"), b.Out("parent_idx")
	if len(b.Op().Inputs["ids"]) == 0 {
		s.ids = nil
	}
	return func(context.Context) error {
		if err := s.check(b.Op()); err != nil {
			return err
		}
		s.choose()
		n := int64(len(s.selected))
		lod := [][]int64{s.sources, s.offsets}
		if words != nil {
			if err := tensor.Resize(words, tensor.Int64, n, 1); err != nil {
				return err
			}
			for i, c := range s.selected {
				words.Int64s()[i] = c.word
			}
			tensor.CopyLoD(words, lod)
		}
		if scores != nil {
			if err := tensor.Resize(scores, tensor.Float32, n, 1); err != nil {
				return err
			}
			for i, c := range s.selected {
				scores.Float32s()[i] = c.score
			}
			tensor.CopyLoD(scores, lod)
		}
		if parents == nil {
			return nil
		}
		if err := tensor.Resize(parents, tensor.Int32, n); err != nil {
			return err
		}
		for i, c := range s.selected {
			parents.Int32s()[i] = int32(c.prefix)
		}
		return nil
	}, nil
}

// A beam is one step of a beam search.
type beam struct {
	preIDs, preScores, ids, scores *tensor.Tensor
	size                           int
	end                            int64
	accumulated                    bool

	candidates []candidate // of one source
	selected   []candidate // of all, by prefix
	sources    []int64     // offsets of the sources in the prefixes
	offsets    []int64     // of the prefixes in what is selected
}

// check compares the inputs with each other. Dims are known only now.
func (s *beam) check(op *program.Op) error {
	lod := s.scores.LoD()
	if len(lod) == 0 && s.ids != nil {
		lod = s.ids.LoD()
	}
	n := int64(s.preIDs.Len())
	switch d := s.scores.Dims(); {
	case len(d) != 2 || d[0] != n:
		return fault.E(fault.ShapeMismatch, fault.Var(op.In("scores")), fault.Gotf("%v", d), fault.Wantf("candidates for each of %d prefixes", n))
	case s.preScores != nil && int64(s.preScores.Len()) != n:
		return fault.E(fault.ShapeMismatch, fault.Var(op.In("pre_scores")), fault.Gotf("%v", s.preScores.Dims()), fault.Wantf("a number for each of %d prefixes", n))
	case s.ids != nil && !slices.Equal(s.ids.Dims(), d):
		return fault.E(fault.ShapeMismatch, fault.Var(op.In("ids")), fault.Gotf("%v", s.ids.Dims()), fault.Wantf("%v, as scores has", d))
	case len(lod) == 0:
		return fault.E(fault.InvalidArgument, fault.Var(op.In("scores")), fault.Got("no LoD"), fault.Want("prefixes that belong to sources"),
			fault.Hint("give scores the LoD of pre_scores with layers.LoDReset"))
	}
	s.sources = append(s.sources[:0], lod[0]...)
	for _, level := range lod[1:] { // offsets of sources in rows
		for i, at := range s.sources {
			if at < 0 || at >= int64(len(level)) {
				return fault.E(fault.InvalidArgument, fault.Var(op.In("scores")), fault.Gotf("offset %d", at), fault.Wantf("at most %d", len(level)-1))
			}
			s.sources[i] = level[at]
		}
	}
	if !slices.IsSorted(s.sources) || len(s.sources) == 0 || s.sources[0] != 0 || s.sources[len(s.sources)-1] != n {
		return fault.E(fault.InvalidArgument, fault.Var(op.In("scores")), fault.Gotf("offsets %v of sources", s.sources), fault.Wantf("ascending ones from 0 to %d", n))
	}
	return nil
}

// choose finds the best candidates of each source.
func (s *beam) choose() {
	s.selected, s.offsets = s.selected[:0], append(s.offsets[:0], 0)
	for i := range len(s.sources) - 1 {
		from, to := int(s.sources[i]), int(s.sources[i+1])
		s.gather(from, to)
		slices.SortStableFunc(s.candidates, better)
		best := s.candidates[:min(s.size, len(s.candidates))]
		if s.preScores != nil && s.ended(best) {
			best = best[:0]
		}
		for prefix := from; prefix < to; prefix++ {
			for _, c := range best {
				if dropped := s.preScores == nil && s.preIDs.Int64s()[prefix] == s.end; c.prefix == prefix && !dropped {
					s.selected = append(s.selected, c)
				}
			}
			s.offsets = append(s.offsets, int64(len(s.selected)))
		}
	}
}

// gather collects the candidates of the prefixes [from, to).
func (s *beam) gather(from, to int) {
	s.candidates = s.candidates[:0]
	width := int(s.scores.Dims()[1])
	for prefix := from; prefix < to; prefix++ {
		before := float32(0)
		if s.preScores != nil {
			before = s.preScores.Float32s()[prefix]
		}
		if s.preScores != nil && s.preIDs.Int64s()[prefix] == s.end {
			s.candidates = append(s.candidates, candidate{prefix, s.end, before})
			continue
		}
		for k := range width {
			c := candidate{prefix, int64(k), s.scores.Float32s()[prefix*width+k]}
			if s.ids != nil {
				c.word = s.ids.Int64s()[prefix*width+k]
			}
			if !s.accumulated {
				c.score = before + float32(math.Log(float64(c.score)))
			}
			s.candidates = append(s.candidates, c)
		}
	}
}

// ended reports whether all that is selected are ends of prefixes that had ended before.
func (s *beam) ended(best []candidate) bool {
	return !slices.ContainsFunc(best, func(c candidate) bool { return c.word != s.end || s.preIDs.Int64s()[c.prefix] != s.end })
}

// A sentence is a sequence that was found, from its last word to its first.
type sentence struct {
	words  []int64
	scores []float32
	at     int // in what the present step has selected
}

func bindDecode(b *ops.Binding) (ops.Kernel, error) {
	words, scores := b.Out("SentenceIds"), b.Out("SentenceScores")
	ids, err := b.ArrayIn("Ids")
	if err != nil {
		return nil, err
	}
	values, err := b.ArrayIn("Scores")
	end, size := b.Int("end_id"), int(b.Int("beam_size"))
	return func(context.Context) error {
		sources, err := backtrace(ids, values, end, size)
		if size == 0 && err == nil {
			sources, err = leaves(ids, values)
		}
		if err != nil {
			return err
		}
		lod, n := [][]int64{{0}, {0}}, int64(0)
		for _, sentences := range sources {
			for _, s := range sentences {
				n += int64(len(s.words))
				lod[1] = append(lod[1], n)
			}
			lod[0] = append(lod[0], int64(len(lod[1])-1))
		}
		if words != nil {
			if err := tensor.Resize(words, tensor.Int64, n, 1); err != nil {
				return err
			}
			at := words.Int64s()[:0]
			for _, s := range slices.Concat(sources...) {
				slices.Reverse(s.words)
				at = append(at, s.words...)
			}
			tensor.CopyLoD(words, lod)
		}
		if scores != nil {
			if err := tensor.Resize(scores, tensor.Float32, n, 1); err != nil {
				return err
			}
			at := scores.Float32s()[:0]
			for _, s := range slices.Concat(sources...) {
				slices.Reverse(s.scores)
				at = append(at, s.scores...)
			}
			tensor.CopyLoD(scores, lod)
		}
		return nil
	}, err
}

// backtrace returns the sequences of each source, the best first.
func backtrace(ids, values *ops.Array, end int64, size int) ([][]*sentence, error) {
	var sources [][]*sentence
	for t := int64(ids.Len()) - 1; t >= 0; t-- {
		words, err := ids.At(t)
		if err != nil {
			return nil, err
		}
		scores, err := values.At(t)
		if err != nil {
			return nil, err
		}
		if err := checkStep(t, words, scores, sources); err != nil {
			return nil, err
		}
		lod := words.LoD()
		if sources == nil {
			sources = make([][]*sentence, len(lod[0])-1)
		}
		for i := range sources {
			if sources[i] == nil {
				sources[i] = begun(lod, lod[0][i], lod[0][i+1], size)
			}
			for _, s := range sources[i] {
				word := words.Int64s()[s.at]
				if word != end || len(s.words) == 0 {
					s.words, s.scores = append(s.words, word), append(s.scores, scores.Float32s()[s.at])
				}
				prefix, _ := slices.BinarySearch(lod[1], int64(s.at)+1) // the last offset that is not above the place
				s.at = prefix - 1
			}
		}
	}
	for _, sentences := range sources {
		slices.SortStableFunc(sentences, func(a, b *sentence) int { return cmp.Compare(b.scores[0], a.scores[0]) })
	}
	return sources, nil
}

// leaves returns the sequences of each source that no step goes on from, in the order in which they end. backtrace has checked the steps.
func leaves(ids, values *ops.Array) (sources [][]*sentence, err error) {
	var steps [2][]*tensor.Tensor
	for t := range int64(ids.Len()) {
		for i, of := range []*ops.Array{ids, values} {
			step, err := of.At(t)
			if err != nil {
				return nil, err
			}
			steps[i] = append(steps[i], step)
		}
	}
	for t, words := range steps[0] {
		lod := words.LoD()
		if sources == nil {
			sources = make([][]*sentence, len(lod[0])-1)
		}
		if t > 0 && len(lod[1])-1 > steps[0][t-1].Len() {
			return nil, fault.E(fault.InvalidArgument, fault.Gotf("step %d with %d prefixes", t, len(lod[1])-1), fault.Wantf("at most the %d words of the step before", steps[0][t-1].Len()))
		}
		var next []int64 // offsets of the prefixes of the next step: these words, if the step has a prefix for each
		if t+1 < len(steps[0]) {
			next = steps[0][t+1].LoD()[1]
		}
		for i := range sources {
			for at := lod[1][lod[0][i]]; at < lod[1][lod[0][i+1]]; at++ {
				if int(at)+1 < len(next) && next[at] < next[at+1] {
					continue
				}
				s := &sentence{at: int(at)}
				for from := t; from >= 0; from-- {
					s.words, s.scores = append(s.words, steps[0][from].Int64s()[s.at]), append(s.scores, steps[1][from].Float32s()[s.at])
					prefix, _ := slices.BinarySearch(steps[0][from].LoD()[1], int64(s.at)+1)
					s.at = prefix - 1
				}
				sources[i] = append(sources[i], s)
			}
		}
	}
	return sources, nil
}

// begun returns the sequences of a source whose last words a step has selected, nil for none. first and last are offsets of its prefixes.
func begun(lod [][]int64, first, last int64, size int) []*sentence {
	var list []*sentence
	for at := lod[1][first]; at < lod[1][last] && len(list) < size; at++ {
		list = append(list, &sentence{at: int(at)})
	}
	return list
}

// checkStep checks what a step has selected.
func checkStep(t int64, words, scores *tensor.Tensor, sources [][]*sentence) error {
	lod := words.LoD()
	wrong := func(got string) error {
		return fault.E(fault.InvalidArgument, fault.Gotf("step %d with %s", t, got), fault.Want("what beam_search has selected, in every step for the same sources"))
	}
	switch {
	case len(lod) != 2 || words.DType() != tensor.Int64 || scores.DType() != tensor.Float32 || words.Len() != scores.Len():
		return wrong("ids or scores of another type, or without two LoD levels")
	case tensor.CheckLoD(words) != nil:
		return wrong("offsets that are no LoD")
	case sources != nil && len(sources) != len(lod[0])-1:
		return wrong("another number of sources")
	}
	for _, sentences := range sources {
		for _, s := range sentences {
			if s.at >= words.Len() {
				return wrong("fewer words than the next step has prefixes")
			}
		}
	}
	return nil
}
