package ops

import (
	"cmp"
	"maps"
	"slices"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Data may choose rows of a batch. A trainer chooses among its own rows, and counts them from 0. That is what one machine does in two cases:
//
//	a mask     where_index(mask) -> gather_nd or gather of what has the rows of the mask, and masked_select. A trainer has the chosen ones of its
//	           rows, in their order. How many there are is another number on each trainer, so trainers share the sums and means over them.
//	a place    gather_nd with the row's own number, which follows from the number of rows, beside numbers that come with the row:
//	           concat(range(0, shape(x)[0]), position). Each record takes something of itself.
//
// An index that is fed counts rows of the whole batch, which a trainer does not have.

// choices says of variables of the global block how data chooses rows by them.
type choices struct {
	rows  map[string]string    // of a variable that is apart, and has chosen rows: the mask
	index map[string]maskIndex // of a variable that is mixed, and says where a mask is not 0
	place map[string]string    // of a variable that is mixed: the variable whose numbers of rows come first along its last axis
	dims  map[string]string    // of a variable that is mixed, and has the dims of one with chosen rows: that one
}

// A maskIndex is what where_index makes of a mask, or its first column.
type maskIndex struct {
	mask  string
	each  int64 // rows of each record that it counts
	first bool  // only the numbers of rows
}

// choose follows an op that chooses rows, or reads or replaces what is chosen or what chooses. It reports whether op is one.
func (c *choices) choose(d *division, block *program.Block, op *program.Op, def *Def) bool {
	names := slices.Concat(op.InputNames(), op.OutputNames())
	whole := block.Index == 0
	if len(op.SubBlocks()) > 0 {
		reads, writes := block.Touches(op)
		names, whole = slices.Concat(names, slices.Collect(maps.Keys(reads)), slices.Collect(maps.Keys(writes))), false
	}
	if !whole && slices.ContainsFunc(names, c.knows) {
		d.write(op, names, mixed, false)
		return true
	}
	share, mask, index, place := mixed, "", maskIndex{}, ""
	switch {
	case !whole || def.FromDims:
		return false
	case def.Finds != nil:
		return c.found(d, op, def.Finds)
	case op.Type == "where_index" && d.of[op.In("Condition")] == apart:
		index = c.indexOf(d, op)
	case op.Type == "masked_select" && d.of[op.In("Mask")] == apart:
		mask = c.selected(d, op)
	case op.Type == "gather_nd" && c.ofItself(d, op):
		share = apart
	case op.Type == "concat" || op.Type == "stack":
		place = c.beside(d, op)
	}
	dims := ""
	if mask == "" && index.mask == "" && place == "" && share == mixed {
		if !slices.ContainsFunc(op.InputNames(), c.knows) {
			return false
		}
		mask = cmp.Or(c.gathered(d, op), c.pooled(d, block, op, def), c.kept(d, block, op, def))
		index, dims = c.narrowed(d, op), c.dimsOf(op)
	}
	if mask != "" {
		share = apart
	}
	at := d.at
	d.write(op, op.OutputNames(), share, false)
	for _, name := range op.OutputNames() {
		switch {
		case def.State != nil && name != op.Out("Y"): // statistics, which have no rows
			d.at = at
		case mask != "":
			c.rows[name] = mask
		case index.mask != "":
			d.at, c.index[name] = at, index
		case place != "":
			d.at, c.place[name] = at, place
		case dims != "":
			d.at, c.dims[name] = at, dims
		}
	}
	return true
}

// knows reports whether a variable has chosen rows, or chooses some.
func (c *choices) knows(name string) bool {
	return c.rows[name] != "" || c.index[name].mask != "" || c.place[name] != "" || c.dims[name] != ""
}

// forget drops what is known of a variable that is written again.
func (c *choices) forget(name string) {
	delete(c.rows, name)
	delete(c.index, name)
	delete(c.place, name)
	delete(c.dims, name)
}

// whole reports whether a variable has the rows of all records, one after another along axis 0.
func (c *choices) whole(d *division, name string) bool {
	return d.of[name] == apart && d.axis[name] == 0 && d.runs[name] < 2 && !d.some[name] && !d.count[name] && c.rows[name] == ""
}

// isMask reports whether a variable may choose rows: it has those of all records, and one value.
func (c *choices) isMask(d *division, name string) bool {
	return c.whole(d, name) && d.records.atMostOnce(name)
}

// alike reports whether two variables have as many rows of each record.
func alike(d *division, a, b string) bool {
	n := d.records.rows(a, 1)
	return eachHas(d, a, n) && eachHas(d, b, n)
}

// sameSequences reports whether two variables have the rows of the same sequences, one for one.
func sameSequences(d *division, a, b string) bool {
	x, known := d.typeOf(a)
	y, too := d.typeOf(b)
	return known && too && x.LoDLevel > 0 && x.LoDLevel == y.LoDLevel && x.LoDOf != "" && x.LoDOf == y.LoDOf
}

// eachHas reports whether a variable has n rows of each record.
func eachHas(d *division, name string, n int64) bool {
	return n > 0 && d.records.rows(name, 1) == n && d.records.rows(name, 2) == 2*n
}

// indexOf returns what where_index makes.
func (c *choices) indexOf(d *division, op *program.Op) maskIndex {
	mask := op.In("Condition")
	if !c.isMask(d, mask) {
		return maskIndex{}
	}
	return maskIndex{mask, d.records.rows(mask, 1), d.rank(mask) == 1}
}

// selected returns the mask of masked_select.
func (c *choices) selected(d *division, op *program.Op) string {
	mask := op.In("Mask")
	if !c.isMask(d, mask) || !c.whole(d, op.In("X")) {
		return ""
	}
	return mask
}

// gathered returns the mask by which a gather chooses rows, "" for any other op.
func (c *choices) gathered(d *division, op *program.Op) string {
	x, index := op.In("X"), c.index[op.In("Index")]
	axis, _ := op.Int("axis")
	switch {
	case index.mask == "" || !c.whole(d, x) || !eachHas(d, x, index.each) && !sameSequences(d, x, index.mask):
	case op.Type == "gather_nd" && d.rank(op.In("Index")) == 2,
		op.Type == "gather" && index.first && axis == 0 && op.In("Axis") == "":
		return index.mask
	}
	return ""
}

// narrowed returns what is left of an index after an op that only changes its type, takes its first column, or takes away the axis of a single column.
func (c *choices) narrowed(d *division, op *program.Op) maskIndex {
	if len(op.InputNames()) != 1 {
		return maskIndex{}
	}
	x := op.InputNames()[0]
	index := c.index[x]
	switch op.Type {
	case "slice":
		axes, _ := op.Ints("axes")
		starts, _ := op.Ints("starts")
		ends, _ := op.Ints("ends")
		if gone, _ := op.Ints("decrease_axis"); slices.Contains(gone, 0) || d.rank(x) != 2 {
			break
		}
		if slices.Equal(axes, []int64{1}) && slices.Equal(starts, []int64{0}) && slices.Equal(ends, []int64{1}) {
			index.first = true
			return index
		}
	case "cast", "assign":
		return index
	case "squeeze", "squeeze2":
		axes, _ := op.Ints("axes")
		if index.first && d.rank(x) == 2 && (slices.Equal(axes, []int64{1}) || slices.Equal(axes, []int64{-1})) {
			return index
		}
	case "reshape", "reshape2":
		shape, _ := op.Ints("shape")
		if index.first && (slices.Equal(shape, []int64{-1}) || slices.Equal(shape, []int64{-1, 1})) {
			return index
		}
	}
	return maskIndex{}
}

// kept returns the mask that has chosen the rows of all inputs of an op that computes each row by itself, "" for any other.
func (c *choices) kept(d *division, block *program.Block, op *program.Op, def *Def) string {
	mask := ""
	for _, name := range op.InputNames() {
		switch chosen := c.rows[name]; {
		case d.of[name] == common:
		case chosen == "" || mask != "" && chosen != mask:
			return ""
		default:
			mask = chosen
		}
	}
	byRow := def.Class == Compute && def.State == nil || op.Type == "dropout" || op.Type == "batch_norm" // which normalizes by the rows of a trainer, as of all rows
	if mask == "" || !byRow || def.Totals != nil || d.turns(op, def) || d.computed(block, op, def) != apart {
		return ""
	}
	return mask
}

// places returns the variable that has the numbers of the rows in a variable, "" if there is none.
func (c *choices) places(d *division, name string) string {
	if place := c.place[name]; place != "" || d.of[name] != mixed || c.index[name].mask != "" {
		return place
	}
	if d.records.growing(name) == nil || !d.records.once(name) {
		return ""
	}
	return name
}

// beside returns what has the numbers of rows in the result of an op that puts other numbers of the same rows behind them, along the last axis.
func (c *choices) beside(d *division, op *program.Op) string {
	names := op.Inputs["X"]
	if len(names) < 2 || op.In("AxisTensor") != "" {
		return ""
	}
	m, _ := d.typeOf(names[0])
	axis, _ := op.Int("axis")
	last := int64(len(m.Dims))
	if op.Type == "concat" {
		if last--; last < 1 || m.Dims[last] != 1 {
			return ""
		}
	}
	place := c.places(d, names[0])
	if last < 1 || axis != last && axis != -1 || place == "" || c.place[names[0]] != "" {
		return ""
	}
	for _, name := range names[1:] {
		if !c.whole(d, name) || !alike(d, name, place) {
			return ""
		}
	}
	return place
}

// ofItself reports whether gather_nd takes something of its own record for each row of the index.
func (c *choices) ofItself(d *division, op *program.Op) bool {
	x, index := op.In("X"), op.In("Index")
	m, _ := d.typeOf(index)
	if len(m.Dims) < 2 || !c.whole(d, x) {
		return false
	}
	place := c.places(d, index)
	if place == index && m.Dims[len(m.Dims)-1] != 1 {
		return false // the other numbers of an element follow from the number of the row, too
	}
	rows := d.records.rows(x, 1)
	return place != "" && rows > 0 && d.records.rows(x, 2) == 2*rows && d.records.rows(x, 3) == 3*rows && d.records.ownRows(place, rows)
}

// growing returns the known whole numbers of a variable in batches of one, two and three records, which have as many rows of each record, nil if they are not known.
func (r *records) growing(name string) (values []*tensor.Tensor) {
	if !r.readShape() {
		return nil
	}
	for n := int64(1); n <= knownBatches; n++ {
		value := r.known(int(n))[name].Value
		if value == nil || len(value.Dims()) == 0 || value.Len() == 0 || len(Integers(value)) == 0 {
			return nil
		}
		if values = append(values, value); value.Dims()[0] != n*values[0].Dims()[0] {
			return nil
		}
	}
	return values
}

// ownRows reports whether all numbers in the rows of each record are numbers of its rows in a variable that has so many for each record, and the same ones of every record: what a
// record takes must not follow from its place among the others.
func (r *records) ownRows(name string, rows int64) bool {
	values := r.growing(name)
	if values == nil {
		return false
	}
	first := Integers(values[0])
	for _, value := range values {
		for i, number := range Integers(value) {
			of, record := first[i%len(first)], int64(i/len(first))
			if of < 0 || of >= rows || number != of+record*rows {
				return false
			}
		}
	}
	return true
}

// atMostOnce is once, also for a variable that no op writes.
func (r *records) atMostOnce(name string) bool {
	return r.once(name) || !slices.ContainsFunc(r.forward, func(op *program.Op) bool { return slices.Contains(op.OutputNames(), name) })
}

// choiceOf returns the mask that has chosen the rows of a variable, "" if it has those of all records.
func choiceOf(r *reductions, name string) string {
	if r.shares == nil {
		return ""
	}
	return r.shares.chosen.rows[name]
}

// checkReduced is checkRows of what a sum or mean reduces: it may have chosen rows.
func checkReduced(r *reductions, name string) error {
	if choiceOf(r, name) != "" {
		return nil
	}
	return r.checkRows(name)
}

// fromChoice reports whether a variable is computed from chosen rows.
func fromChoice(r *reductions, name string) bool {
	if r.shares == nil || len(r.shares.chosen.rows) == 0 {
		return false
	}
	for name := range (totalling{reductions: r}).ancestors(name) {
		if choiceOf(r, name) != "" {
			return true
		}
	}
	return false
}
