package transpiler

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// slice makes the shards: one for each group that must stay whole, and one for each slice of the parameter of another group. All variables of a
// slice get their own names, even numbers such as powers of Adam's beta. So slices on one server do not share them.
func slice(s *state) error {
	for _, g := range s.groups {
		ranges := rowRangesOf(s, g)
		if len(ranges) < 2 {
			s.shards = append(s.shards, &shard{group: g, block: Whole, bytes: ownedBytes(s, &shard{group: g, block: Whole})})
			continue
		}
		for i, r := range ranges {
			u := &shard{group: g, block: i, first: r.first, rows: r.rows, names: map[string]string{}}
			for _, name := range slices.Concat(g.params, g.contributions, g.accumulators, g.temporaries) {
				u.names[name] = s.names.slice(name, i)
			}
			for _, name := range g.fixed {
				if s.isCut(u, name) {
					u.names[name] = s.names.slice(name, i)
				}
			}
			u.bytes = ownedBytes(s, u)
			s.shards = append(s.shards, u)
		}
	}
	return nil
}

// ownedBytes returns the bytes of the variables that belong to a shard.
func ownedBytes(s *state, u *shard) int64 {
	var bytes int64
	for _, name := range slices.Concat(u.group.params, u.group.accumulators) {
		v := s.at(u, name)
		bytes += bytesOf(&v)
	}
	return bytes
}

// rowRangesOf returns the runs of rows of the slices of a group, none if the group must stay whole.
func rowRangesOf(s *state, g *group) []rowRange {
	if s.cfg.NoSlice || !isSliceable(s, g) {
		return nil
	}
	return sliceRows(s.variable(g.params[0]).Dims, s.cfg.PServers, s.cfg.minBlock())
}

// isSliceable reports whether a group gives the same bits if each slice of the parameter is updated by itself. It does if there is one parameter,
// every other variable has its dims or one element, and every op that touches rows is RowSliced. Norms are allowed, because they are exact sums.
func isSliceable(s *state, g *group) bool {
	if len(g.params) != 1 {
		return false
	}
	dims := s.variable(g.params[0]).Dims
	if len(dims) == 0 || slices.Contains(dims, program.Unknown) || ops.Product(dims) <= 1 {
		return false
	}
	for _, n := range g.ops {
		touchesRows := false
		for _, name := range slices.Concat(n.reads, n.writes) {
			switch {
			case slices.Equal(s.variable(name).Dims, dims):
				touchesRows = true
			case !s.isOne(name):
				return false
			}
		}
		if n.def.Class == ops.Random || touchesRows && !n.def.RowSliced && !n.norm {
			return false
		}
	}
	return !slices.ContainsFunc(g.fixed, func(name string) bool {
		return slices.Equal(s.variable(name).Dims, dims) && readByOthers(s, g, name)
	})
}

// readByOthers reports whether server ops outside of the group read a variable.
func readByOthers(s *state, g *group, name string) bool {
	return slices.ContainsFunc(s.use(name).readers, func(n *node) bool { return n.duty != dutyTrainer && n.group != g })
}

// rowRange is a run of rows of axis 0.
type rowRange struct{ first, rows int64 }

// sliceRows divides a variable of known dims into at most parts runs of whole rows, by Fluid's rule. No slice is smaller than minBlock elements
// unless there is only one. All have the same size, rounded up to a row, and the last slice takes the rest. A variable without rows or elements is
// one run. minBlock is at least 1.
//
// With n elements: blocks = min(parts, max(1, n / minBlock)); size = ceil(n / blocks), rounded up to a multiple of the elements of a row; blocks =
// ceil(n / size).
func sliceRows(dims []int64, parts int, minBlock int64) []rowRange {
	if len(dims) == 0 {
		return []rowRange{{0, 1}}
	}
	total := dims[0]
	width := rowWidth(dims)
	elements := total * width
	if elements <= 0 {
		return []rowRange{{0, total}}
	}
	blocks := min(int64(parts), max(1, elements/minBlock))
	size := ceilDiv(elements, blocks)
	rows := ceilDiv(size, width)
	var ranges []rowRange
	for first := int64(0); first < total; first += rows {
		ranges = append(ranges, rowRange{first, min(rows, total-first)})
	}
	return ranges
}

// rowWidth is the number of elements of a row.
func rowWidth(dims []int64) int64 {
	width := int64(1)
	for _, d := range dims[1:] {
		width *= d
	}
	return width
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
