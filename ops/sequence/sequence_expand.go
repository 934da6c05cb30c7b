package sequence

import (
	"fmt"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "sequence_expand",
		Doc: "Repeats each sequence of X, or each row if X has no LoD, as often as the sequence of Y at its place has rows, or sequences of the next level. Without " +
			"a LoD of X, Out gets the levels of Y down to ref_level, where Fluid leaves it without LoD.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "numbers, rank 2 or more; a LoD of several levels does not count"},
			{Name: "Y", Doc: "any, with as many sequences in ref_level as X has sequences or rows; only its LoD counts"}},
		Outputs:   []ops.Slot{{Name: "Out", Doc: "rows of X"}},
		Attrs:     []ops.Attr{{Name: "ref_level", Doc: "LoD level of Y that counts; -1 is the innermost", Default: int32(-1)}},
		Infer:     inferSequenceExpand,
		MakesLoD:  always,
		MixesRows: apart,
		Cost:      opkit.PerElement(1),
		Bind: opkit.BindElements("X", bindExpand[float32](refLevel), bindExpand[float64](refLevel), bindExpand[int32](refLevel), bindExpand[int64](refLevel),
			bindExpand[bool](refLevel)),
	}, opkit.Gradient{
		Doc:    "dX is the sum of dOut over the copies.",
		Inputs: []string{"X", "Y"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindFloats("X", bindExpandGrad[float32](refLevel), bindExpandGrad[float64](refLevel)),
	})

	opkit.Register(ops.Def{
		Type: "sequence_expand_as",
		Doc:  "Repeats each row of X as often as the sequence of Y at its place has rows.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "numbers, rank 2 or more, a row for each sequence of Y"},
			{Name: "Y", Doc: "any, with one LoD level"}},
		Outputs:   []ops.Slot{{Name: "Out", Doc: "rows of X, sequences as in Y"}},
		Infer:     inferSequenceExpandAs,
		MixesRows: apart,
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindElements("X", bindExpand[float32](outermost), bindExpand[float64](outermost), bindExpand[int32](outermost), bindExpand[int64](outermost), bindExpand[bool](outermost)),
	}, opkit.Gradient{
		Doc:    "dX is the sum of dOut over the copies.",
		Inputs: []string{"X", "Y"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindFloats("X", bindExpandGrad[float32](outermost), bindExpandGrad[float64](outermost)),
	})
}

// apart is MixesRows of an op whose inputs X and Y must be divided alike.
func apart(_ *ops.Shapes, divided func(string) bool) bool { return divided("X") != divided("Y") }

func inferSequenceExpand(s *ops.Shapes) error {
	x, y := s.In("X"), s.In("Y")
	if len(x.Dims) < 2 {
		return s.Errorf("X", "rank 2 or more")
	}
	if _, err := s.CountSequences("Y"); err != nil {
		return err
	}
	if x.LoDLevel > 1 { // as what the step before of a beam search has expanded, which has no LoD in Fluid
		x = x.WithoutLoD()
	}
	level := s.Int("ref_level")
	if level < -1 || level >= int64(y.LoDLevel) {
		return opkit.BadAttr(s, "ref_level", "-1, or a LoD level of Y: below %d", y.LoDLevel)
	}
	ref := int(level)
	if ref < 0 {
		ref = y.LoDLevel - 1
	}
	items := x.Dims[0]
	if x.LoDLevel == 1 && x.Sequences == nil {
		items = program.Unknown
	} else if x.LoDLevel == 1 {
		items = x.Sequences[0]
	}
	if len(y.Sequences) > ref && !opkit.Agree(items, y.Sequences[ref]) {
		return s.Errorf("X", "as many sequences or rows as Y has sequences in level %d: %d", ref, y.Sequences[ref])
	}
	repeats := ops.Offsets(s, "Y", ref)
	if x.LoDLevel == 0 {
		rows := int64(program.Unknown)
		if repeats != nil {
			rows = repeats[len(repeats)-1]
		}
		s.Set("Out", x.DType, withRows(rows, x.Dims)...)
		ops.ShareLevels(s, "Out", "Y", ref+1)
		return nil
	}
	total := int64(0)
	for i := range max(1, len(repeats)) - 1 { // offsets may be any numbers
		if total += min(max(0, repeats[i+1]-repeats[i]), mostExpanded); total > mostExpanded {
			return s.Errorf("Y", "at most %d rows", mostExpanded)
		}
	}
	rows, lod := expanded(ops.Offsets(s, "X", 0), repeats)
	s.Set("Out", x.DType, withRows(rows, x.Dims)...)
	var of string
	if x.LoDOf != "" && y.LoDOf != "" {
		of = fmt.Sprintf("%s, %s, %d", x.LoDOf, y.LoDOf, ref)
	}
	ops.MakeLoD(s, "Out", of, 1, lod)
	return nil
}

// mostExpanded bounds how many sequences sequence_expand makes: offsets come from outside, and each takes memory when the op is compiled.
const mostExpanded = 1 << 24

// expanded returns the rows and the LoD of repeated sequences, as far as both offsets are known.
func expanded(x, repeats []int64) (rows int64, lod [][]int64) {
	if x == nil || repeats == nil {
		return program.Unknown, nil
	}
	var lengths []int64
	for i := range len(repeats) - 1 {
		for range repeats[i+1] - repeats[i] {
			lengths = append(lengths, x[i+1]-x[i])
		}
	}
	offsets := offsetsOf(lengths)
	return offsets[len(lengths)], [][]int64{offsets}
}

func inferSequenceExpandAs(s *ops.Shapes) error {
	x, y := s.In("X"), s.In("Y")
	if len(x.Dims) < 2 {
		return s.Errorf("X", "rank 2 or more")
	}
	sequences, err := s.CountSequences("Y")
	if err != nil {
		return err
	}
	if y.LoDLevel != 1 || len(y.Dims) == 0 {
		return s.Errorf("Y", "one LoD level, not %d", y.LoDLevel)
	}
	if !opkit.Agree(x.Dims[0], sequences) {
		return s.Errorf("X", "a row for each of the %d sequences of Y", sequences)
	}
	s.Set("Out", x.DType, withRows(y.Dims[0], x.Dims)...)
	s.ShareLoD("Out", "Y")
	return nil
}

// refLevel returns the level of Y that counts.
func refLevel(b *ops.Binding) int {
	if level := int(b.Int("ref_level")); level >= 0 {
		return level
	}
	return len(b.In("Y").LoD()) - 1
}

func outermost(*ops.Binding) int { return 0 }

// An expansion repeats sequences, or rows, of X.
type expansion struct {
	x, y    batch
	rows    bool // X is repeated row by row
	columns int
}

func newExpansion(b *ops.Binding, level int) *expansion {
	x := batchIn(b, "X")
	return &expansion{x: x, y: levelIn(b, "Y", level), rows: len(x.value.LoD()) != 1 || b.Op().Type != "sequence_expand" && b.Op().Type != "sequence_expand_grad",
		columns: width(x.value, 1)}
}

// each calls do with the rows [from, to) of X and how often they are repeated, in their order.
func (e *expansion) each(do func(from, to, times int)) error {
	repeats, err := e.y.offsets()
	if err != nil {
		return err
	}
	var offsets []int64
	if !e.rows {
		if offsets, err = e.x.offsets(); err != nil {
			return err
		}
	}
	for i := range e.y.n {
		from, to := i, i+1
		if !e.rows {
			from, to = int(offsets[i]), int(offsets[i+1])
		}
		do(from, to, int(repeats[i+1]-repeats[i]))
	}
	return nil
}

// pick is the picker of the copies.
func (e *expansion) pick(rows []int64) error {
	n := 0
	err := e.each(func(from, to, times int) {
		for range times {
			for source := from; source < to; source++ {
				if n < len(rows) {
					rows[n] = int64(source)
				}
				n++
			}
		}
	})
	if err == nil && e.columns > 0 && n != len(rows) {
		err = otherRows(e.x.op, n, len(rows))
	}
	return err
}

func bindExpand[T tensor.Element](level func(*ops.Binding) int) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		e := newExpansion(b, level(b))
		return bindPick[T](b, e.x.value, b.Out("Out"), nil, e.columns, e.pick)
	}
}

func bindExpandGrad[T tensor.Float](level func(*ops.Binding) int) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		e, dout, dx := newExpansion(b, level(b)), b.In("Out@GRAD"), b.Out("X@GRAD")
		return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
			at, all := 0, dout.Len()
			err := e.each(func(from, to, times int) {
				sum, n := tensor.Data[T](dx)[from*e.columns:to*e.columns], (to-from)*e.columns
				if times == 0 || at+n*times > all {
					clear(sum)
				}
				for i := 0; i < times && at+n <= all; i++ {
					copied := tensor.Data[T](dout)[at : at+n]
					if i == 0 {
						copy(sum, copied)
					} else {
						kernel.Accumulate(sum, copied)
					}
					at += n
				}
			})
			if err == nil && at != all {
				err = otherRows(e.x.op, at/max(1, e.columns), all/max(1, e.columns))
			}
			return err
		}})
	}
}
