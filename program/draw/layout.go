package draw

import (
	"cmp"
	"context"
	"slices"
)

// A slot is a place in one row of a frame. It holds a node, or a line that passes through the row on its way from a node above.
type slot struct {
	node     int // the node, or the node that the line comes from
	line     bool
	row      int
	x, width float64 // center and width of the drawing
	up, down []int   // linked slots in the rows above and below
}

// A frame is one block, laid out in rows. An edge leads from a row to a lower one. All edges that leave a node share one line, which ends where the
// last edge does.
type frame struct {
	slots []slot
	rows  [][]int // slots from left to right
	place []int   // slot of each node of the drawing; -1 for nodes of other blocks
}

// layered puts the nodes of a block in rows and draws lines between them. It returns nil if that takes more than limit slots.
func (d *drawing) layered(block, limit int) *frame {
	in, out := d.neighbors(block)
	row := d.assignRows(block, in, out)
	f := &frame{place: make([]int, len(d.nodes))}
	for i := range d.nodes {
		f.place[i] = -1
		if d.nodes[i].block == block {
			f.place[i] = f.add(slot{node: i, row: row[i], width: nodeWidth(d.nodes[i])})
		}
	}
	for i, targets := range out {
		slices.SortStableFunc(targets, func(a, b int) int { return cmp.Compare(row[a], row[b]) })
		end := f.place[i]
		for _, target := range targets {
			for f.slots[end].row+1 < row[target] {
				if len(f.slots) == limit {
					return nil
				}
				next := f.add(slot{node: i, line: true, row: f.slots[end].row + 1, width: lineWidth})
				f.link(end, next)
				end = next
			}
			f.link(end, f.place[target])
		}
	}
	return f
}

// neighbors lists, for each node of a block, the nodes that edges come from and lead to, each neighbor once.
func (d *drawing) neighbors(block int) (in, out [][]int) {
	in, out = make([][]int, len(d.nodes)), make([][]int, len(d.nodes))
	known := map[[2]int]bool{}
	for _, e := range d.edges {
		pair := [2]int{e.from, e.to}
		if e.dashed || d.nodes[e.from].block != block || known[pair] {
			continue
		}
		known[pair] = true
		in[e.to], out[e.from] = append(in[e.to], e.from), append(out[e.from], e.to)
	}
	return in, out
}

// assignRows puts every op below the values that it reads and above the values that it writes. A value without writer is close to its first reader.
func (d *drawing) assignRows(block int, in, out [][]int) []int {
	row := make([]int, len(d.nodes))
	var boxes []int
	for i, n := range d.nodes {
		if n.block == block && n.op {
			boxes = append(boxes, i)
		}
	}
	written := func(i int) bool { return len(in[i]) > 0 }
	moveTo := func(box, to int) {
		row[box] = to
		for _, value := range out[box] {
			row[value] = to + 1
		}
	}
	for _, box := range boxes { // in the order of the program, so values are placed before their readers
		to := 0
		for _, value := range in[box] {
			to = max(to, row[value]+1)
		}
		moveTo(box, to)
	}
	for _, box := range slices.Backward(boxes) {
		if lowest := lowestOf(out[box], out, row); !slices.ContainsFunc(in[box], written) && lowest > row[box]+2 {
			moveTo(box, lowest-2)
		}
	}
	for i, n := range d.nodes {
		if n.block == block && !n.op && !written(i) && len(out[i]) > 0 {
			row[i] = lowestOf([]int{i}, out, row) - 1
		}
	}
	return row
}

// lowestOf is the first row of the nodes that values lead to, 0 if there are none.
func lowestOf(values []int, out [][]int, row []int) int {
	lowest := 0
	for _, value := range values {
		for _, reader := range out[value] {
			if lowest == 0 || row[reader] < lowest {
				lowest = row[reader]
			}
		}
	}
	return lowest
}

func (f *frame) add(s slot) int {
	for len(f.rows) <= s.row {
		f.rows = append(f.rows, nil)
	}
	f.slots = append(f.slots, s)
	f.rows[s.row] = append(f.rows[s.row], len(f.slots)-1)
	return len(f.slots) - 1
}

func (f *frame) link(from, to int) {
	f.slots[from].down = append(f.slots[from].down, to)
	f.slots[to].up = append(f.slots[to].up, from)
}

// Sizes, in the units of the picture.
const (
	characterWidth = 6.4 // of the font of labels, on average
	nodePadding    = 16
	lineWidth      = 2
	slotGap        = 14
	rowHeight      = 26
	rowPitch       = 58
)

// sweeps is how often the layout goes down and up through the rows of a frame, to order them and to place them.
const sweeps = 6

// lineWeight is how much more a bend in a long line counts than a node that is not in the middle of its neighbors.
const lineWeight = 4

func nodeWidth(n node) float64 { return nodePadding + characterWidth*float64(len(label(n.text))) }

// arrange orders the slots of each row so that few links cross, and then places them without overlap so that links are short. It gives up when ctx
// ends.
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

// middle is the mean place of the neighbors of a slot, or its own place if it has none.
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

// order sorts a row by the wished places of its slots, and packs it.
func (f *frame) order(row []int, wish func(*slot) float64) {
	wishes := make(map[int]float64, len(row))
	for _, i := range row {
		wishes[i] = wish(&f.slots[i])
	}
	slices.SortStableFunc(row, func(a, b int) int { return cmp.Compare(wishes[a], wishes[b]) })
	f.spread(row, func(s *slot) float64 { return wish(s) })
}

// A pile is a run of slots of one row that touch and move together.
type pile struct {
	count       int
	sum, weight float64 // of the wishes of its slots for the place of the first one
}

func (p pile) at() float64 { return p.sum / p.weight }

// spread places the slots of a row, in their order, as close to their wishes as their widths allow: the sum of the squares of the distances is
// minimal. Slots that would overlap form a pile, which goes to the mean of the wishes of its slots.
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
