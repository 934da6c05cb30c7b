package nn

import (
	"cmp"
	"context"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// pairCounts are the counts of positive_negative_pair: the slot before a step, and the slot after it.
var pairCounts = [][2]string{{"AccumulatePositivePair", "PositivePair"}, {"AccumulateNegativePair", "NegativePair"}, {"AccumulateNeutralPair", "NeutralPair"}}

func init() {
	def := ops.Def{
		Type: "positive_negative_pair",
		Doc: "Counts the pairs of items of a query that scores put in the order of their labels. Of each two rows with one QueryID and different labels, the pair is positive if the row " +
			"with the larger label has the larger score, else negative, and neutral as well if the scores are equal, as in Fluid. A pair counts 1, or the mean of the Weight " +
			"of its rows. No gradient flows through it.",
		Inputs: []ops.Slot{
			{Name: "Score", Doc: "float [N, C]"},
			{Name: "Label", Doc: "of the type of Score, [N, 1]"},
			{Name: "QueryID", Doc: "int64 [N, 1]"},
			{Name: "Weight", Doc: "of the type of Score, [N, 1]", Dispensable: true}},
		Attrs:     []ops.Attr{{Name: "column", Doc: "the column of Score that counts; a negative one counts from the end", Default: int32(0)}},
		Infer:     inferPairs,
		Cost:      opkit.PerElement(4),
		Bind:      opkit.BindFloats("Score", bindPairs[float32], bindPairs[float64]),
		MixesRows: opkit.Mixes,
		InPlace:   map[string]string{},
		State:     map[string]ops.Merge{},
	}
	for _, c := range pairCounts {
		def.Inputs = append(def.Inputs, ops.Slot{Name: c[0], Doc: "[1], pairs before this step: all three, or none", Dispensable: true})
		def.Outputs = append(def.Outputs, ops.Slot{Name: c[1], Doc: "[1], pairs so far", Dispensable: c[1] == "NeutralPair"})
		def.InPlace[c[1]], def.State[c[1]] = c[0], ops.MergeSum
	}
	ops.Register(def)
}

func inferPairs(s *ops.Shapes) error {
	if err := s.IsFloat("Score"); err != nil {
		return err
	}
	if err := s.SameType("Score", "Label", "Weight", pairCounts[0][0], pairCounts[1][0], pairCounts[2][0]); err != nil {
		return err
	}
	if err := s.Rank("Score", 2); err != nil {
		return err
	}
	if err := opkit.CheckType(s, "QueryID", s.In("QueryID").DType == tensor.Int64, "int64"); err != nil {
		return err
	}
	score := s.In("Score")
	for _, slot := range []string{"Label", "QueryID", "Weight"} {
		if s.Has(slot) && !ops.Compatible(s.In(slot).Dims, []int64{score.Dims[0], 1}) {
			return s.Errorf(slot, "dims [%d, 1]", score.Dims[0])
		}
	}
	if columns := score.Dims[1]; columns >= 0 {
		if column := s.Int("column"); column < -columns || column >= columns {
			return opkit.BadAttr(s, "column", "a column of Score %v", score.Dims)
		}
	}
	for _, c := range pairCounts {
		if s.Has(c[0]) != s.Has(pairCounts[0][0]) {
			return s.Errorf(c[0], "all three counts, or none")
		}
		if s.Has(c[0]) && !ops.Compatible(s.In(c[0]).Dims, []int64{1}) {
			return s.Errorf(c[0], "one element")
		}
		s.Set(c[1], score.DType, 1)
	}
	return nil
}

func bindPairs[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	score, label, query, weight := b.In("Score"), b.In("Label"), b.In("QueryID"), b.In("Weight")
	columns, column := int(score.Dims()[1]), int(b.Int("column"))
	if column < 0 {
		column += columns
	}
	order := b.Scratch(tensor.Int64, query.Len())
	var before, after [3]*tensor.Tensor
	for i, c := range pairCounts {
		before[i], after[i] = b.In(c[0]), orScratch[T](b, c[1], 1)
	}
	return func(context.Context) error {
		scores, labels, queries, rows := tensor.Data[T](score), tensor.Data[T](label), query.Int64s(), order.Int64s()
		for i := range rows {
			rows[i] = int64(i)
		}
		slices.SortFunc(rows, func(i, j int64) int { return cmp.Or(cmp.Compare(queries[i], queries[j]), cmp.Compare(i, j)) })
		var counts [3]T
		for i, t := range before {
			if t != nil {
				counts[i] = tensor.Data[T](t)[0]
			}
		}
		for at, i := range rows {
			for _, j := range rows[at+1:] {
				if queries[j] != queries[i] {
					break
				}
				if labels[i] == labels[j] {
					continue
				}
				w := T(1)
				if weight != nil {
					w = (tensor.Data[T](weight)[i] + tensor.Data[T](weight)[j]) / 2
				}
				first, second := scores[int(i)*columns+column], scores[int(j)*columns+column]
				if first == second {
					counts[2] += w
				}
				if (first-second)*(labels[i]-labels[j]) > 0 {
					counts[0] += w
				} else {
					counts[1] += w
				}
			}
		}
		for i, t := range after {
			tensor.Data[T](t)[0] = counts[i]
		}
		return nil
	}, nil
}
