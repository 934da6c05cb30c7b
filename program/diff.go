package program

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A Difference is something that two programs have otherwise. A text is empty where the program does not have it.
type Difference struct {
	Where string // such as "block 0, op 3, fc" or "startup, block 0, variable x"
	What  string // an attribute, or empty: all of it
	A, B  string
}

// Diff returns what differs between two programs, in the order of a: their blocks, the variables of each, and its ops with slots and attributes. Ops that only one program has
// leave the others at their places. Lines of user code are no difference, and neither is the order in which variables were made.
func Diff(a, b *Program) []Difference {
	d := &differ{}
	d.programs("", a, b)
	if a.Startup != nil || b.Startup != nil {
		d.programs("startup, ", orEmpty(a.Startup), orEmpty(b.Startup))
	}
	return d.found
}

// orEmpty is p, or a program without ops.
func orEmpty(p *Program) *Program {
	if p == nil {
		return bare()
	}
	return p
}

type differ struct {
	text  texter
	found []Difference
}

func (d *differ) add(where, what, a, b string) {
	if a != b {
		d.found = append(d.found, Difference{where, what, a, b})
	}
}

func (d *differ) programs(at string, a, b *Program) {
	for i := range max(len(a.Blocks), len(b.Blocks)) {
		where := fmt.Sprintf("%sblock %d", at, i)
		switch {
		case i >= len(a.Blocks):
			d.add(where, "", "", fmt.Sprintf("%d ops", len(b.Blocks[i].Ops)))
		case i >= len(b.Blocks):
			d.add(where, "", fmt.Sprintf("%d ops", len(a.Blocks[i].Ops)), "")
		default:
			d.blocks(where, a.Blocks[i], b.Blocks[i])
		}
	}
}

func (d *differ) blocks(where string, a, b *Block) {
	d.add(where, "parent", fmt.Sprint(a.Parent), fmt.Sprint(b.Parent))
	names := slices.Concat(sortedKeys(a.vars), sortedKeys(b.vars))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		d.add(where+", variable "+d.text.name(name), "", d.variable(a.vars[name]), d.variable(b.vars[name]))
	}
	for _, pair := range align(a.Ops, b.Ops) {
		switch {
		case pair[1] < 0:
			d.op(where, pair[0], a.Ops[pair[0]], nil)
		case pair[0] < 0:
			d.op(where, pair[1], nil, b.Ops[pair[1]])
		default:
			d.op(where, pair[0], a.Ops[pair[0]], b.Ops[pair[1]])
		}
	}
}

func (d *differ) variable(v *Var) string {
	if v == nil {
		return ""
	}
	return d.text.variable(v)
}

// op compares two ops of one type, or tells of one that has no partner.
func (d *differ) op(where string, at int, a, b *Op) {
	if a == nil || b == nil {
		one := a
		if a == nil {
			one = b
		}
		where = fmt.Sprintf("%s, op %d, %s", where, at, d.text.name(one.Type))
		text := d.text.call(one)
		if a == nil {
			d.add(where, "", "", text)
		} else {
			d.add(where, "", text, "")
		}
		return
	}
	where = fmt.Sprintf("%s, op %d, %s", where, at, d.text.name(a.Type))
	for _, slots := range [][2]map[string][]string{{a.Inputs, b.Inputs}, {a.Outputs, b.Outputs}} {
		for _, slot := range keysOfBoth(slots[0], slots[1]) {
			if !slices.Equal(slots[0][slot], slots[1][slot]) {
				d.add(where, slot, strings.Join(slots[0][slot], ", "), strings.Join(slots[1][slot], ", "))
			}
		}
	}
	for _, name := range keysOfBoth(a.Attrs, b.Attrs) {
		x, inA := a.Attrs[name]
		y, inB := b.Attrs[name]
		if name == AttrCallstack || inA && inB && reflect.DeepEqual(x, y) {
			continue
		}
		texts := [2]string{}
		for i, v := range []Attr{x, y} {
			if v != nil {
				texts[i] = d.text.attr(v)
			}
		}
		if texts[0] == texts[1] { // they differ behind what is shown
			texts[1] += " (another value)"
		}
		d.add(where, name, texts[0], texts[1])
	}
}

func keysOfBoth[V any](a, b map[string]V) []string {
	keys := slices.Concat(sortedKeys(a), sortedKeys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// mostAligned bounds the pairs of ops that align compares. Above it, ops are compared place by place.
const mostAligned = 1 << 24

// align pairs the ops of two blocks: the longest sequence of pairs of the same type, those with the same outputs before others. -1 is no partner.
func align(a, b []*Op) (pairs [][2]int) {
	from := 0
	for from < min(len(a), len(b)) && alike(a[from], b[from]) == 3 {
		pairs = append(pairs, [2]int{from, from})
		from++
	}
	n, m := len(a)-from, len(b)-from
	if n > 0 && m > mostAligned/n {
		for i := from; i < max(len(a), len(b)); i++ {
			switch {
			case i >= len(a):
				pairs = append(pairs, [2]int{-1, i})
			case i >= len(b):
				pairs = append(pairs, [2]int{i, -1})
			case a[i].Type != b[i].Type:
				pairs = append(pairs, [2]int{i, -1}, [2]int{-1, i})
			default:
				pairs = append(pairs, [2]int{i, i})
			}
		}
		return pairs
	}
	best := make([]int32, (n+1)*(m+1)) // of the ops from i and from j
	at := func(i, j int) *int32 { return &best[i*(m+1)+j] }
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			*at(i, j) = max(*at(i+1, j), *at(i, j+1))
			if w := alike(a[from+i], b[from+j]); w > 0 {
				*at(i, j) = max(*at(i, j), w+*at(i+1, j+1))
			}
		}
	}
	for i, j := 0, 0; i < n || j < m; {
		switch {
		case i < n && j < m && alike(a[from+i], b[from+j]) > 0 && *at(i, j) == alike(a[from+i], b[from+j])+*at(i+1, j+1):
			pairs = append(pairs, [2]int{from + i, from + j})
			i, j = i+1, j+1
		case j == m || i < n && *at(i, j) == *at(i+1, j):
			pairs = append(pairs, [2]int{from + i, -1})
			i++
		default:
			pairs = append(pairs, [2]int{-1, from + j})
			j++
		}
	}
	return pairs
}

// alike is how much two ops have in common: 0 if their types differ, 3 if also all outputs have the same names.
func alike(a, b *Op) int32 {
	switch {
	case a.Type != b.Type:
		return 0
	case reflect.DeepEqual(a.Outputs, b.Outputs):
		return 3
	}
	return 1
}
