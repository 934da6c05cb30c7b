package ops

import (
	"cmp"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A level of detail (LoD) divides the rows of a batch into sequences of different lengths. It comes with a feed. If an output of an op has the
// rows of an input, it has its LoD too, and Infer says so: with Like, by copying a Meta, or with ShareLoD. So executors know before a run which
// variables have the LoD of which feed. They set it when they feed, and no kernel moves it.
//
// A kernel that works on sequences asks the tensor for the offsets on every run. During Bind the LoD of a tensor has the right number of
// sequences, but its offsets mean nothing yet.
//
// Some ops make another LoD, or as many rows as offsets or values say (Def.MakesLoD): sequence_expand, sequence_pad. A program with such an op is compiled for
// the offsets of each batch, so that Infer knows all dims as for any other program. Metas have the offsets then (Meta.LoD), and MakeLoD gives an output its own.

// ShareLoD gives an output slot the LoD of the first variable of an input slot. Set the dims before.
func (s *Shapes) ShareLoD(outSlot, inSlot string) {
	ShareLevels(s, outSlot, inSlot, s.In(inSlot).LoDLevel)
}

// ShareLevels gives an output slot the outer levels of the LoD of an input slot. Set the dims before.
func ShareLevels(s *Shapes, outSlot, inSlot string, levels int) {
	for i := range s.out[outSlot] {
		s.out[outSlot][i] = s.out[outSlot][i].withLoD(s.In(inSlot), levels)
	}
}

// PoolLoD gives an output slot, which has one row for each innermost sequence of an input slot, the LoD levels above the innermost.
func (s *Shapes) PoolLoD(outSlot, inSlot string) {
	ShareLevels(s, outSlot, inSlot, max(0, s.In(inSlot).LoDLevel-1))
}

// WithoutLoD returns m without LoD.
func (m Meta) WithoutLoD() Meta {
	m.LoDLevel, m.Sequences, m.LoDOf, m.LoD = 0, nil, "", nil
	return m
}

func (m Meta) withLoD(from Meta, levels int) Meta {
	m = m.WithoutLoD()
	if levels == 0 {
		return m
	}
	m.LoDLevel, m.LoDOf = levels, from.LoDOf
	if len(from.Sequences) >= levels {
		m.Sequences = slices.Clone(from.Sequences[:levels])
	}
	if len(from.LoD) >= levels {
		m.LoD = from.LoD[:levels]
	}
	return m
}

// MakeLoD gives an output slot a LoD of its own, of so many levels. lod is nil if it is not known yet. of says what it is made of: two variables with one of
// have the same offsets. An empty one stands for the variable itself. Set the dims before.
func MakeLoD(s *Shapes, slot, of string, levels int, lod [][]int64) {
	for i := range s.out[slot] {
		m := s.out[slot][i].WithoutLoD()
		m.LoDLevel, m.LoDOf, m.LoD = levels, s.op.Type+" of "+cmp.Or(of, s.op.Outputs[slot][i]), lod
		if lod != nil {
			m.Sequences = countSequences(lod)
		}
		s.out[slot][i] = m
	}
}

// Offsets returns the offsets of a level of an input slot, which must have that level. They are nil where they are not known yet.
func Offsets(s *Shapes, slot string, level int) []int64 {
	if m := s.In(slot); len(m.LoD) > level {
		return m.LoD[level]
	}
	return nil
}

// Decide returns the integers in a slot that decides (Slot.Decides) how many rows there are, nil where they are not known yet. Executors infer the op when it runs if they are missing
// before.
func Decide(s *Shapes, slot string) []int64 {
	m := s.In(slot)
	if m.Value == nil {
		s.undecided = append(s.undecided, Missing{Variable: s.op.In(slot)})
		return nil
	}
	return Integers(m.Value)
}

// DecideLargest is Decide for a slot of whose integers only the largest counts, for an attribute. It is at least 0.
func DecideLargest(s *Shapes, slot, attr string) (n int64, known bool) {
	switch m := s.In(slot); {
	case m.Value != nil:
		return Largest(m.Value), true
	case m.Largest != nil:
		return *m.Largest, true
	}
	s.undecided = append(s.undecided, Missing{Variable: s.op.In(slot), Attr: attr, Largest: true})
	return 0, false
}

// Largest returns the largest integer of a tensor, at least 0.
func Largest(t *tensor.Tensor) (most int64) {
	switch t.DType() {
	case tensor.Int64:
		for _, n := range t.Int64s() {
			most = max(most, n)
		}
	case tensor.Int32:
		for _, n := range t.Int32s() {
			most = max(most, int64(n))
		}
	}
	return most
}

// Integers returns the elements of a tensor of integers, and no elements of any other.
func Integers(t *tensor.Tensor) []int64 {
	switch t.DType() {
	case tensor.Int64:
		return t.Int64s()
	case tensor.Int32:
		all := make([]int64, t.Len())
		for i, v := range t.Int32s() {
			all[i] = int64(v)
		}
		return all
	}
	return []int64{}
}

// A Dependence says what of feeds a compiled program depends on, besides their dtypes and dims and how many sequences they have.
type Dependence struct {
	LoD    bool            // the offsets
	Values map[string]bool // the values of these variables, which are integers
}

// DependenceOf returns what follows from the ops of a program that make LoDs.
func DependenceOf(p *program.Program) Dependence {
	var d Dependence
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			def, ok := Lookup(op.Type)
			if !ok || def.MakesLoD == nil || !def.MakesLoD(op) {
				continue
			}
			d.LoD = true
			for _, slot := range def.Inputs {
				for _, name := range op.Inputs[slot.Name] {
					if slot.Decides {
						if d.Values == nil {
							d.Values = map[string]bool{}
						}
						d.Values[name] = true
					}
				}
			}
		}
	}
	return d
}

// MetaOf returns the type of a value that is fed, with all that a compiled program may depend on. Nothing of it is memory of the value. It fails if offsets are wrong.
func (d Dependence) MetaOf(name string, t *tensor.Tensor) (Meta, error) {
	m := MetaOfValue(t)
	m.Dims = slices.Clone(m.Dims) // a caller may give the tensor others
	if d.LoD && len(t.LoD()) > 0 {
		if err := tensor.CheckLoD(t); err != nil {
			return m, fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
		}
		m.LoD = cloneLoD(t.LoD())
	}
	if d.Values[name] && m.Kind == program.LoDTensor && (m.DType == tensor.Int32 || m.DType == tensor.Int64) {
		m.Value = t.Clone()
	}
	return m, nil
}

func cloneLoD(lod [][]int64) [][]int64 {
	c := make([][]int64, len(lod))
	for i := range lod {
		c[i] = slices.Clone(lod[i])
	}
	return c
}

// CountSequences checks that an input slot has a LoD. It returns the number of innermost sequences, program.Unknown if that is open.
func (s *Shapes) CountSequences(slot string) (int64, error) {
	m := s.In(slot)
	if m.LoDLevel < 1 {
		return 0, fault.E(fault.InvalidArgument, fault.On(s.op), fault.Var(s.op.In(slot)),
			fault.Got(slot+" without LoD"), fault.Want("rows that form sequences"),
			fault.Hint("declare the data with layers.LoD(1), and feed a tensor with offsets (tensor.Tensor.SetLoD)"))
	}
	if len(m.Sequences) < m.LoDLevel {
		return program.Unknown, nil
	}
	return m.Sequences[m.LoDLevel-1], nil
}

// countSequences returns how many sequences each level of a LoD has.
func countSequences(lod [][]int64) []int64 {
	counts := make([]int64, len(lod))
	for i, level := range lod {
		counts[i] = max(0, int64(len(level))-1)
	}
	return counts
}
