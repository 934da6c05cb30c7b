package sequence

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "edit_distance",
		Doc: "Counts how many tokens must be inserted, deleted or replaced to make a sequence of Refs of the same sequence of Hyps (Levenshtein 1966); with normalized, " +
			"over the number of tokens of the sequence of Refs. No gradient flows through it.",
		Inputs: []ops.Slot{
			{Name: "Hyps", Doc: "int64 [rows, 1], sequences of tokens; or [sequences, longest] with HypsLength"},
			{Name: "Refs", Doc: "likewise: the true sequences, as many"},
			{Name: "HypsLength", Doc: "int64, the tokens of each sequence of Hyps that count; without it the LoD says so", Dispensable: true},
			{Name: "RefsLength", Doc: "likewise of Refs; with HypsLength", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "float32 [sequences, 1]"},
			{Name: "SequenceNum", Doc: "int64 [1], the number of sequences"}},
		Attrs:     []ops.Attr{{Name: "normalized", Doc: "whether a distance is divided by the length of its sequence of Refs, which must have tokens then", Default: false}},
		Infer:     inferEditDistance,
		MixesRows: opkit.MixesUnlike,
		Totals:    []string{"SequenceNum"},
		Cost:      opkit.PerElement(40),
		Bind:      bindEditDistance,
	})
}

func inferEditDistance(s *ops.Shapes) error {
	padded := s.Has("HypsLength")
	if padded != s.Has("RefsLength") {
		return s.Errorf("Hyps", "both HypsLength and RefsLength, or none")
	}
	n := int64(program.Unknown)
	for _, slot := range []string{"Hyps", "Refs"} {
		counted, err := countTokens(s, slot, slot+"Length", padded)
		if err != nil {
			return err
		}
		if !opkit.Agree(n, counted) {
			return s.Errorf(slot, "%d sequences, as in Hyps", n)
		}
		n = max(n, counted)
	}
	s.Set("Out", tensor.Float32, n, 1)
	s.Set("SequenceNum", tensor.Int64, 1)
	if !padded {
		s.PoolLoD("Out", "Hyps")
	}
	return nil
}

// countTokens checks a slot of sequences of tokens and returns the number of its sequences.
func countTokens(s *ops.Shapes, slot, length string, padded bool) (int64, error) {
	if err := opkit.CheckType(s, slot, s.In(slot).DType == tensor.Int64, "int64"); err != nil {
		return 0, err
	}
	x := s.In(slot).Dims
	if !padded {
		if len(x) < 1 || !ops.Compatible(x[1:], ones(len(x)-1)) {
			return 0, s.Errorf(slot, "one column")
		}
		return s.CountSequences(slot)
	}
	if err := opkit.CheckType(s, length, s.In(length).DType == tensor.Int64, "int64"); err != nil {
		return 0, err
	}
	if len(x) < 2 || !ops.Compatible(x[2:], ones(len(x)-2)) {
		return 0, s.Errorf(slot, "dims [sequences, longest], with %s", length)
	}
	if n := s.In(length).Dims; len(n) < 1 || !opkit.Agree(n[0], x[0]) || !ops.Compatible(n[1:], ones(len(n)-1)) {
		return 0, s.Errorf(length, "one number for each sequence of %s %v", slot, x)
	}
	return x[0], nil
}

func bindEditDistance(b *ops.Binding) (ops.Kernel, error) {
	op, normalized, out, count := b.Op(), b.Bool("normalized"), b.Out("Out"), b.Out("SequenceNum")
	hyps, refs := spansIn(b, "Hyps", "HypsLength"), spansIn(b, "Refs", "RefsLength")
	if hyps.n != refs.n {
		return nil, fault.E(fault.ShapeMismatch, fault.On(op), fault.Var(op.In("Refs")), fault.Gotf("%d sequences", refs.n), fault.Wantf("%d, as in Hyps", hyps.n))
	}
	scratch := b.Scratch(tensor.Int64, refs.value.Len()+refs.n)
	return b.Loops(ops.Loop{N: hyps.n, Apart: true, Whole: []string{"Hyps", "Refs", "HypsLength", "RefsLength"}, Run: func(_, first, end int) error {
		hypStarts, err := hyps.starts()
		if err != nil {
			return err
		}
		refStarts, err := refs.starts()
		if err != nil {
			return err
		}
		for i := first; i < end; i++ {
			from, to, err := hyps.span(hypStarts, i)
			if err != nil {
				return err
			}
			start, stop, err := refs.span(refStarts, i)
			if err != nil {
				return err
			}
			share := int64(1)
			if normalized {
				if share = int64(stop - start); share == 0 {
					return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("Refs")), fault.Gotf("no tokens in sequence %d", i),
						fault.Want("at least one, to divide its distance by, with normalized"))
				}
			}
			row := scratch.Int64s()[start+i : stop+i+1] // sequences before it have as many more elements as there are sequences
			distance := kernel.EditDistance(hyps.value.Int64s()[from:to], refs.value.Int64s()[start:stop], row)
			if out != nil {
				out.Float32s()[i] = float32(float64(distance) / float64(share))
			}
		}
		return nil
	}}, ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		if count != nil {
			count.Int64s()[0] = int64(hyps.n)
		}
		return nil
	}})
}
