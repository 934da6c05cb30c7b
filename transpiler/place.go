package transpiler

import (
	"cmp"
	"hash/fnv"
	"slices"

	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
)

// slice makes the shards: one for each group that must stay whole, and one for each slice of the parameter of another group. A distributed table has slices
// also on one server, in the order of stripes. All variables of a
// slice get their own names, even numbers such as powers of Adam's beta. So slices on one server do not share them.
func slice(s *state) error {
	for _, g := range s.groups {
		ranges, striped := rowRangesOf(s, g), isStriped(s, g)
		if striped && len(ranges) == 0 {
			ranges = []rowRange{{0, s.variable(g.params[0]).Dims[0]}}
		}
		if len(ranges) < 2 && !striped {
			s.shards = append(s.shards, &shard{group: g, block: Whole, bytes: ownedBytes(s, &shard{group: g, block: Whole})})
			continue
		}
		for i, r := range ranges {
			u := &shard{group: g, block: i, first: r.first, rows: r.rows, striped: striped, names: map[string]string{}}
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

// isStriped reports whether the servers of a group keep its rows in the order of stripes: those of a distributed table, and of a table that trainers hold, if only
// rows of it come back. Where it comes back whole, its slices are runs of rows, which trainers need not put into their order. This does not depend on the number of
// servers, so that the state can move to others as it is.
func isStriped(s *state, g *group) bool {
	if len(g.params) != 1 || !isSliceable(s, g) {
		return false
	}
	param := g.params[0]
	if t := s.tables[param]; t != nil {
		return t.grown == nil
	}
	gradient := g.gradientOf(param)
	return gradient != "" && s.travelsByRows(gradient) && comesBackByRows(s, g, param, gradient)
}

// comesBackByRows reports whether trainers that hold a parameter receive the rows of it that a round has changed.
func comesBackByRows(s *state, g *group, param, gradient string) bool {
	whole := s.cfg.CompressParameters != "" && s.cfg.CompressParameters != compress.None.String()
	return !whole && !s.cfg.Backups && s.tables[param] == nil && s.cfg.Mode == Sync && changesOnlyRows(s, g, param, gradient)
}

// rowRangesOf returns the runs of rows of the slices of a group, none if the group must stay whole.
func rowRangesOf(s *state, g *group) []rowRange {
	if s.cfg.NoSlice || !isSliceable(s, g) {
		return nil
	}
	dims, unit := s.variable(g.params[0]).Dims, int64(1)
	if insertOf(g, g.params[0]) != nil { // whole regions of keys
		unit = dims[0] / kernel.KeyRegions
		dims = []int64{kernel.KeyRegions, unit * dims[1]}
	}
	ranges := sliceRows(dims, s.cfg.PServers, s.cfg.minBlock())
	for i := range ranges {
		ranges[i].first *= unit
		ranges[i].rows *= unit
	}
	return ranges
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
			case hasRows(s, g, name):
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

// Placement says which server keeps which variables.
type Placement struct {
	Slices []Slice // parameters in the order of the program, their slices in order of rows; then forward state
	Loads  []Load  // one per server, in order
}

// Whole is the Block of a variable that is not sliced.
const Whole = -1

// A Slice is a run of rows of a parameter, or of state that the forward pass updates, on one server. The gradient and the accumulators of a
// parameter are sliced in the same way.
type Slice struct {
	Param    string // variable of the user's program
	Grad     string // the contribution: the gradient, or the variable itself for forward state; empty if the server gets none
	Block    int    // number of the slice, Whole when the variable is not sliced
	Name     string // of the slice at the server
	GradName string // of the merged contribution at the server
	FirstRow int64
	Rows     int64 // 1 for a variable of rank 0
	Server   int
	Bytes    int64 // of the slice and of the accumulators that go with it
	Striped  bool  // the rows are of the parameter in the order of stripes (kernel.Stripes)
}

// A Load counts the slices of one server.
type Load struct {
	Server int
	Bytes  int64 // sum over Slices
	Slices int
}

// Of returns the slices of one variable, in order of rows.
func (p Placement) Of(variable string) []Slice {
	var slices []Slice
	for _, s := range p.Slices {
		if s.Param == variable {
			slices = append(slices, s)
		}
	}
	return slices
}

// Rows returns how many rows of a gradient are in each slice, in order of rows; nil if it is not the gradient of a parameter.
func (p Placement) Rows(gradient string) []int64 {
	var rows []int64
	for _, s := range p.Slices {
		if s.Grad == gradient && s.Grad != s.Param {
			rows = append(rows, s.Rows)
		}
	}
	return rows
}

// assignServers places shards and forward state, and describes the result.
func assignServers(s *state) error {
	var items []item
	for _, u := range s.shards {
		items = append(items, item{shardKey(s, u), u.bytes})
	}
	for _, f := range s.forward {
		items = append(items, item{f.name, bytesOf(s.variable(f.name))})
	}
	servers := place(items, s.cfg.PServers, s.cfg.SplitMethod)
	for i, u := range s.shards {
		u.server = servers[i]
	}
	for i, f := range s.forward {
		f.server = servers[len(s.shards)+i]
	}
	s.result.Placement = describePlacement(s)
	return nil
}

// shardKey is the name by which HashName places a shard: the name of its first parameter at the server.
func shardKey(s *state, u *shard) string {
	for _, names := range [][]string{u.group.params, u.group.accumulators, u.group.temporaries} {
		if len(names) > 0 {
			return u.name(names[0])
		}
	}
	return ""
}

func describePlacement(s *state) Placement {
	p := Placement{Loads: make([]Load, s.cfg.PServers)}
	for i := range p.Loads {
		p.Loads[i].Server = i
	}
	add := func(slice Slice) {
		p.Slices = append(p.Slices, slice)
		p.Loads[slice.Server].Bytes += slice.Bytes
		p.Loads[slice.Server].Slices++
	}
	for _, u := range s.shards {
		for i, param := range u.group.params {
			v := s.at(u, param)
			slice := Slice{Param: param, Grad: u.group.gradientOf(param), Block: u.block, Name: v.Name, FirstRow: u.first, Rows: rowsOf(v.Dims),
				Server: u.server, Striped: u.striped}
			if slice.Grad != "" {
				slice.GradName = u.name(slice.Grad)
			}
			if i == 0 {
				slice.Bytes = u.bytes - otherBytes(s, u)
			} else {
				slice.Bytes = bytesOf(&v)
			}
			add(slice)
		}
	}
	for _, f := range s.forward {
		v := s.variable(f.name)
		add(Slice{Param: f.name, Grad: f.name, Block: Whole, Name: f.name, GradName: f.name, Rows: rowsOf(v.Dims), Server: f.server, Bytes: bytesOf(v)})
	}
	return p
}

// otherBytes returns the bytes of all parameters of a shard but the first. The accumulators of a shard count with its first parameter, because the
// program does not say which parameter they belong to.
func otherBytes(s *state, u *shard) int64 {
	var bytes int64
	for _, name := range u.group.params[1:] {
		v := s.at(u, name)
		bytes += bytesOf(&v)
	}
	return bytes
}

// rowsOf is the extent of axis 0; a scalar is one row.
func rowsOf(dims []int64) int64 {
	if len(dims) == 0 {
		return 1
	}
	return dims[0]
}

// An item is something that one server must keep as a whole.
type item struct {
	name  string // by which HashName chooses
	bytes int64
}

// place returns the server of each item. The result depends only on the arguments.
func place(items []item, servers int, method string) []int {
	if method == HashName {
		return placeByName(items, servers)
	}
	return placeInTurn(items, servers)
}

// placeInTurn gives the items to servers one by one, the largest first, each to the server with the fewest bytes. Among equals, the first item and
// the lowest server come first. Fluid ignores sizes: with alternating weights and biases and two servers, one server would get all weights.
func placeInTurn(items []item, servers int) []int {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(items[b].bytes, items[a].bytes) })
	loads, counts := make([]int64, servers), make([]int, servers)
	placed := make([]int, len(items))
	for _, i := range order {
		best := 0
		for s := 1; s < servers; s++ {
			if loads[s] < loads[best] || loads[s] == loads[best] && counts[s] < counts[best] {
				best = s
			}
		}
		placed[i] = best
		loads[best] += items[i].bytes
		counts[best]++
	}
	return placed
}

func placeByName(items []item, servers int) []int {
	placed := make([]int, len(items))
	for i, it := range items {
		h := fnv.New32a()
		h.Write([]byte(it.name))
		placed[i] = int(h.Sum32() % uint32(servers))
	}
	return placed
}
