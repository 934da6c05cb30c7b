package sequence

import (
	"math"
	"slices"
	"strings"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:     "sequence_concat",
		Doc:      "Joins sequences: sequence i of Out is the rows of sequence i of each X, one after another.",
		Inputs:   []ops.Slot{{Name: "X", Doc: "numbers, of one LoD level, with equally many sequences and equal rows", Duplicable: true}},
		Outputs:  []ops.Slot{{Name: "Out", Doc: "the rows of all X"}},
		Infer:    inferSequenceConcat,
		MakesLoD: always,
		Cost:     opkit.PerElement(1),
		Bind: opkit.BindElements("X", bindSequenceConcat[float32], bindSequenceConcat[float64], bindSequenceConcat[int32], bindSequenceConcat[int64],
			bindSequenceConcat[bool]),
	}, opkit.Gradient{
		Doc:    "the rows of dOut that came from each X.",
		Inputs: []string{"X"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindFloats("X", bindSequenceConcatGrad[float32], bindSequenceConcatGrad[float64]),
	})
}

func inferSequenceConcat(s *ops.Shapes) error {
	all := s.Ins("X")
	if err := s.SameType("X"); err != nil {
		return err
	}
	total, lengths, of := int64(0), []int64(nil), make([]string, len(all))
	for i, x := range all {
		if s.Op().Inputs["X"][i] == program.Empty || len(x.Dims) < 1 || x.LoDLevel != 1 || !ops.Compatible(x.Dims[1:], all[0].Dims[1:]) ||
			x.Sequences != nil && all[0].Sequences != nil && x.Sequences[0] != all[0].Sequences[0] {
			return s.Errorf("X", "rows that form sequences of one LoD level, equally many and of equal dims in all variables; not so in variable %d, %v", i, x)
		}
		if total == program.Unknown || x.Dims[0] == program.Unknown {
			total = program.Unknown
		} else if total += x.Dims[0]; total < 0 || total > math.MaxInt64/2 {
			return s.Errorf("X", "rows that memory holds")
		}
		of[i] = x.LoDOf
		if x.LoD == nil {
			lengths = nil
			continue
		}
		if i == 0 {
			lengths = make([]int64, len(x.LoD[0])-1)
		}
		for j := range lengths {
			lengths[j] += x.LoD[0][j+1] - x.LoD[0][j]
		}
	}
	s.Set("Out", all[0].DType, withRows(total, all[0].Dims)...)
	var lod [][]int64
	if !slices.ContainsFunc(all, func(x ops.Meta) bool { return x.LoD == nil }) {
		lod = [][]int64{offsetsOf(lengths)}
	}
	from := strings.Join(of, ", ")
	if slices.Contains(of, "") {
		from = ""
	}
	ops.MakeLoD(s, "Out", from, 1, lod)
	return nil
}

// A joining knows where the sequences of several inputs stand in the joined ones.
type joining struct {
	parts   []batch
	columns int
}

func newJoining(b *ops.Binding) *joining {
	j := &joining{columns: width(b.In("X"), 1)}
	for _, x := range b.Ins("X") {
		part := batchIn(b, "X")
		part.value, part.lod = x, x
		j.parts = append(j.parts, part)
	}
	return j
}

// each calls do for every sequence of every input: its elements [from, to) stand at the elements from on of the joined rows. all is how many of these there are.
func (j *joining) each(all int, do func(part, from, to, at int)) error {
	at := 0
	for sequence := range j.parts[0].n {
		for p := range j.parts {
			offsets, err := j.parts[p].offsets()
			if err != nil {
				return err
			}
			from, to := int(offsets[sequence])*j.columns, int(offsets[sequence+1])*j.columns
			if at+to-from <= all {
				do(p, from, to, at)
			}
			at += to - from
		}
	}
	if at != all {
		return otherRows(j.parts[0].op, at/max(1, j.columns), all/max(1, j.columns))
	}
	return nil
}

func bindSequenceConcat[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	j, out := newJoining(b), b.Out("Out")
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		return j.each(out.Len(), func(part, from, to, at int) {
			copy(tensor.Data[T](out)[at:], tensor.Data[T](j.parts[part].value)[from:to])
		})
	}})
}

func bindSequenceConcatGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	j, dout, dx := newJoining(b), b.In("Out@GRAD"), b.Outs("X@GRAD")
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		return j.each(dout.Len(), func(part, from, to, at int) {
			if part < len(dx) && dx[part] != nil {
				copy(tensor.Data[T](dx[part])[from:to], tensor.Data[T](dout)[at:])
			}
		})
	}})
}
