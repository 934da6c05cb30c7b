package sequence

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Ops of pairs of sequences compare each row of a sequence with each row of the sequence at its place in another slot. That gives a grid: for each row of the first a
// row of cells, one for each row of the second. A variable has all channels of the first grid, one after another, then those of the second, and so on: [elements, 1],
// with a LoD that says where each grid begins.

// A pairing is two slots of sequences, as many in one as in the other.
type pairing struct {
	rows, columns  batch
	down, across   int            // every how manieth row and column a coarser grid has
	cells, coarser *tensor.Tensor // int64 [sequences+1]: the cells of all grids before, and of the coarser ones
}

// A grid is the place of the grid of one pair of sequences.
type grid struct {
	row, column   int // the first of the sequences
	height, width int
	before        int // cells of the grids before it

	coarseHeight, coarseWidth, coarseBefore int
}

// pair binds two slots. Call count in the first loop of the kernel.
func pair(b *ops.Binding, rows, columns string, down, across int64) *pairing {
	p := &pairing{rows: batchIn(b, rows), columns: batchIn(b, columns), down: int(down), across: int(across)}
	p.cells, p.coarser = b.Scratch(tensor.Int64, p.rows.n+1), b.Scratch(tensor.Int64, p.rows.n+1)
	return p
}

// A measured is a variable that holds grids.
type measured struct {
	slot     string
	value    *tensor.Tensor
	channels int
	coarse   bool
}

// count is the loop that finds where grids begin. It checks that variables have as many elements as the grids of their channels; nil values do not count.
func (p *pairing) count(b *ops.Binding, variables ...measured) ops.Loop {
	return ops.Loop{N: 1, Apart: true, Writes: []string{}, Run: func(int, int, int) error {
		rows, err := p.rows.offsets()
		if err != nil {
			return err
		}
		columns, err := p.columns.offsets()
		if err != nil {
			return err
		}
		if len(rows) != len(columns) {
			return fault.E(fault.ShapeMismatch, fault.On(b.Op()), fault.Gotf("%d sequences beside %d", len(rows)-1, len(columns)-1), fault.Want("as many"))
		}
		cells, coarser := p.cells.Int64s(), p.coarser.Int64s()
		cells[0], coarser[0] = 0, 0
		for i := range p.rows.n {
			height, width := rows[i+1]-rows[i], columns[i+1]-columns[i]
			cells[i+1] = cells[i] + height*width
			coarser[i+1] = coarser[i] + thinned(height, int64(p.down))*thinned(width, int64(p.across))
		}
		for _, v := range variables {
			want := cells[p.rows.n]
			if v.coarse {
				want = coarser[p.rows.n]
			}
			if v.value != nil && int64(v.value.Len()) != want*int64(v.channels) {
				return otherRows(b.Op(), int(want)*v.channels, v.value.Len())
			}
		}
		return nil
	}}
}

// thinned returns how many of n rows stay of which only every step-th does, from the first on.
func thinned(n, step int64) int64 {
	if n == 0 {
		return 0
	}
	return (n-1)/step + 1
}

// at returns the grid of sequence i.
func (p *pairing) at(i int) grid {
	rows, columns := p.rows.lod.LoD()[p.rows.level], p.columns.lod.LoD()[p.columns.level]
	g := grid{row: int(rows[i]), column: int(columns[i]), height: int(rows[i+1] - rows[i]), width: int(columns[i+1] - columns[i]),
		before: int(p.cells.Int64s()[i]), coarseBefore: int(p.coarser.Int64s()[i])}
	g.coarseHeight, g.coarseWidth = int(thinned(int64(g.height), int64(p.down))), int(thinned(int64(g.width), int64(p.across)))
	return g
}

// each is the loop that calls do for the grid of each pair of sequences. whole are the slots that do may read beyond its sequences.
func (p *pairing) each(do func(part int, g grid), whole ...string) ops.Loop {
	return ops.Loop{N: p.rows.n, Apart: true, Whole: whole, Run: func(part, from, to int) error {
		for i := from; i < to; i++ {
			do(part, p.at(i))
		}
		return nil
	}}
}

// checkPair checks that two slots have one LoD level, of as many sequences.
func checkPair(s *ops.Shapes, rows, columns string) error {
	var counts [2]int64
	for i, slot := range []string{rows, columns} {
		n, err := s.CountSequences(slot)
		if err != nil {
			return err
		}
		if m := s.In(slot); m.LoDLevel != 1 || len(m.Dims) == 0 {
			return s.Errorf(slot, "one LoD level, not %d", m.LoDLevel)
		}
		counts[i] = n
	}
	if !opkit.Agree(counts[0], counts[1]) {
		return s.Errorf(columns, "%d sequences, as many as %s has", counts[0], rows)
	}
	return nil
}

// checkGrids checks that a slot holds grids of the sequences of ROW and COLUMN.
func checkGrids(s *ops.Shapes, slot string) error {
	if err := s.IsFloat(slot); err != nil {
		return err
	}
	if m := s.In(slot); len(m.Dims) == 0 || !ops.Compatible(m.Dims[1:], ones(len(m.Dims)-1)) {
		return s.Errorf(slot, "one number in each row")
	}
	if err := checkPair(s, slot, "ROW"); err != nil {
		return err
	}
	return checkPair(s, "ROW", "COLUMN")
}

// gridSizes returns how many elements the grids of the sequences of two slots have in so many channels, where the offsets are known. They fit in memory.
func gridSizes(s *ops.Shapes, rows, columns string, channels, down, across int64) ([]int64, error) {
	r, c := ops.Offsets(s, rows, 0), ops.Offsets(s, columns, 0)
	if r == nil || c == nil {
		return nil, nil
	}
	sizes, total := make([]int64, len(r)-1), int64(0)
	for i := range sizes {
		n := ops.Product([]int64{channels, thinned(r[i+1]-r[i], down), thinned(c[i+1]-c[i], across)})
		if n < 0 || n > mostCells-total {
			return nil, fault.E(fault.TooLarge, fault.On(s.Op()), fault.Gotf("sequences of %d and %d rows", r[i+1]-r[i], c[i+1]-c[i]), fault.Wantf("at most %d elements of all grids", int64(mostCells)))
		}
		sizes[i], total = n, total+n
	}
	return sizes, nil
}

// mostCells bounds the elements of grids, so that sums and products do not overflow. A plan compares what it needs with the memory of the machine.
const mostCells = 1 << 40

// setGrids gives an output the dims and the LoD of grids of these sizes, which may not be known.
func setGrids(s *ops.Shapes, slot string, dtype tensor.DType, sizes []int64) {
	rows, lod := int64(program.Unknown), [][]int64(nil)
	if sizes != nil {
		offsets := offsetsOf(sizes)
		rows, lod = offsets[len(sizes)], [][]int64{offsets}
	}
	s.Set(slot, dtype, rows, 1)
	ops.MakeLoD(s, slot, "", 1, lod)
}

// dividedTogether is MixesRows of an op that reads rows of the batch in some slots: all of these hold them, and no other.
func dividedTogether(slots ...string) opkit.Mixing {
	return func(s *ops.Shapes, divided func(string) bool) bool {
		for slot := range s.Op().Inputs {
			if s.Has(slot) && divided(slot) != slices.Contains(slots, slot) {
				return true
			}
		}
		return false
	}
}
