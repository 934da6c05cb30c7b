package draw

import (
	"cmp"
	"context"
	"slices"
)

// Sizes, in the units of the picture.
const (
	characterWidth = 6.4 // of the font of labels, on average
	nodePadding    = 16
	lineWidth      = 2
	slotGap        = 14
	rowHeight      = 26
	rowPitch       = 58
)

// sweeps is how often the rows of a frame are gone through, down and up again, to order them and to place them.
const sweeps = 6

// lineWeight is how much more a bend in a long line counts than a node that is not in the middle of its neighbors.
const lineWeight = 4

func nodeWidth(n node) float64 { return nodePadding + characterWidth*float64(len(label(n.text))) }

// arrange orders the slots of each row so that few links cross, and then places them so that links are short, without overlap. It
// gives up when ctx ends.
func (f *frame) arrange(ctx context.Context) error {
	for _, row := range f.rows {
		f.spread(row, func(s *slot) float64 { return s.x })
	}
	for _, step := range []func(row []int, wish func(*slot) float64){f.order, f.spread} {
		for range sweeps {
			if err := ctx.Err(); err != nil {
				return err
			}
			for _, row := range f.rows {
				step(row, func(s *slot) float64 { return f.middle(s, s.up) })
			}
			for _, row := range slices.Backward(f.rows) {
				step(row, func(s *slot) float64 { return f.middle(s, s.down) })
			}
		}
	}
	return nil
}

// middle is the mean place of neighbors, or where the slot is if it has none.
func (f *frame) middle(s *slot, neighbors []int) float64 {
	if len(neighbors) == 0 {
		return s.x
	}
	sum := 0.0
	for _, n := range neighbors {
		sum += f.slots[n].x
	}
	return sum / float64(len(neighbors))
}

// order sorts a row by where its slots wish to be, and packs it.
func (f *frame) order(row []int, wish func(*slot) float64) {
	wishes := make(map[int]float64, len(row))
	for _, i := range row {
		wishes[i] = wish(&f.slots[i])
	}
	slices.SortStableFunc(row, func(a, b int) int { return cmp.Compare(wishes[a], wishes[b]) })
	f.spread(row, func(s *slot) float64 { return wish(s) })
}

// A pile is a run of slots of one row that touch, and move as one.
type pile struct {
	count       int
	sum, weight float64 // of where its slots wish its first one to be
}

func (p pile) at() float64 { return p.sum / p.weight }

// spread places the slots of a row, in their order, as close to their wishes as their widths allow: the sum of the squares of the distances is
// the least there is. Slots that would overlap are joined to piles, and a pile is where its slots wish it to be on average.
func (f *frame) spread(row []int, wish func(*slot) float64) {
	offset, previous := 0.0, 0.0 // offset: of a slot if all touched
	offsets := make([]float64, len(row))
	piles := make([]pile, 0, len(row))
	for i, index := range row {
		s := &f.slots[index]
		if i > 0 {
			offset += (previous+s.width)/2 + slotGap
		}
		previous, offsets[i] = s.width, offset
		weight := 1.0
		if s.line {
			weight = lineWeight
		}
		piles = append(piles, pile{1, (wish(s) - offset) * weight, weight})
		for n := len(piles); n > 1 && piles[n-2].at() >= piles[n-1].at(); n-- {
			piles[n-2] = pile{piles[n-2].count + piles[n-1].count, piles[n-2].sum + piles[n-1].sum, piles[n-2].weight + piles[n-1].weight}
			piles = piles[:n-1]
		}
	}
	i := 0
	for _, p := range piles {
		for range p.count {
			f.slots[row[i]].x = p.at() + offsets[i]
			i++
		}
	}
}
