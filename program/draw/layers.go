package draw

import (
	"cmp"
	"slices"
)

// A slot is a place in one row of a frame: a node, or a line that passes through the row on its way from a node further up.
type slot struct {
	node     int // whose place it is, or where the line comes from
	line     bool
	row      int
	x, width float64 // of the center, and of what is drawn
	up, down []int   // slots that it is linked to in the rows next to it
}

// A frame is one block, laid out in rows: an edge leads from a row to one below. All edges that leave a node share one line, which ends where
// the last of them does.
type frame struct {
	slots []slot
	rows  [][]int // slots from left to right
	place []int   // slot of a node of the drawing; -1: another block's
}

// layered puts the nodes of a block in rows and draws lines between them. It returns nil when that takes more than limit slots.
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

// neighbors lists, for the nodes of a block, where edges come from and lead to, each neighbor once.
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

// assignRows puts every op below what it reads and above what it writes. What nothing leads to stands close to its first reader.
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

// lowestOf is the first row of what values lead to, 0 when they lead nowhere.
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
