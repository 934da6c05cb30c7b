package comm

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/internal/seqpool"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file are lookups in a table that only servers hold (lookup_table with is_distributed). Each step brings the rows that its batch names,
// each once, and lookups find their places among them:
//
//	split_ids    ids of all lookups in a table -> for each server the rows that it has of them, and for each id its place among all rows
//	prefetch     these rows -> a small table of them, in the order of servers and rows
//	merge_ids    the small table and places -> what lookup_table gives, or fused_embedding_seq_pool
//	lookup_table_rows_grad (ops/nn)   gradient of that, and ids -> the sparse gradient of the whole table

// grownAttr says that ids are keys of a table that grows (lookup_sparse_table).
var grownAttr = ops.Attr{Name: "auto_grown_table", Default: false, Doc: "the table grows: ids are keys, and each run has whole regions of keys"}

// stripedAttr says that servers keep the rows of the table in the order of stripes.
var stripedAttr = ops.Attr{Name: "striped", Default: false, Doc: "the runs are of the rows of the table in the order of stripes (kernel.Stripes), in which rows that are named often are spread evenly"}

const placesDoc = "int64 like ids: for each the place of its row in the small table"

func init() {
	ops.Register(ops.Def{
		Type:  "split_ids",
		Class: ops.Compute,
		Doc: "Finds the different rows of a table that ids name, for each run of rows of the table. In Fluid, a row is on the server with the number id " +
			"modulo servers, and ids that repeat stay so.",
		Inputs: []ops.Slot{{Name: "Ids", Doc: "int64, the ids of each lookup", Duplicable: true}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "int32, for each run: how many rows, and their ascending numbers from the first row of the run on. Of a table that grows int64, " +
				"with mixed keys in place of numbers", Duplicable: true},
			{Name: "Places", Doc: placesDoc, Duplicable: true}},
		Attrs: []ops.Attr{{Name: "sections", Kind: []int32{}, Doc: "rows of the table in each run; their sum is all of them"}, stripedAttr, grownAttr},
		Infer: inferSplitIDs,
		Cost:  opkit.PerElement(1),
		Bind:  bindSplitIDs,
	})
	ops.Register(ops.Def{
		Type:    "prefetch",
		Asks:    true,
		Class:   ops.Dist,
		Doc:     "Brings rows of tables from their pservers, as they are after the last round. It waits for them.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "int32 or int64: rows as split_ids gives them", Duplicable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "float32, [rows, width]: for each table its rows, in the order of X", Duplicable: true}},
		Attrs: []ops.Attr{
			{Name: epmapAttr, Kind: []string{}, Doc: "logical address of the pserver of each X, such as pserver:0"},
			{Name: "table_names", Kind: []string{}, Doc: "name of the table, or of the slice, of each X at its pserver"},
			{Name: "outs", Kind: []int32{}, Doc: "the index in Out of the table of each X, ascending"},
			{Name: "widths", Kind: []int32{}, Doc: "elements of a row of each Out"}},
		Infer: inferPrefetch,
		Bind:  bindPrefetch,
	})
	ops.Register(ops.Def{
		Type:  "merge_ids",
		Class: ops.Compute,
		Doc:   "Looks ids up in the rows that prefetch has brought, as lookup_table does in the whole table, or with a combiner fused_embedding_seq_pool.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float32, the small table"}, {Name: "Places", Doc: placesDoc},
			{Name: "Ids", Doc: "int64, the ids; only padding_idx is looked for among them"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "a row for each id, with a combiner for each sequence of them"}},
		Attrs: []ops.Attr{{Name: "padding_idx", Default: kernel.NoPadding, Doc: "id whose row reads as zeros; -1 for none"},
			{Name: "shape", Kind: []int64{}, Doc: "dims of Out: those of Ids, maybe without a last 1, and the width"}, grownAttr,
			seqpool.Attr(seqpool.None, "sum, mean or sqrt: makes one row of the rows of each sequence of Ids; none: a row for each id")},
		Infer: inferMergeIDs,
		Cost:  opkit.PerElement(1),
		Bind:  bindMergeIDs,
	})
}

// totalOf adds extents, of which any may be open.
func totalOf(all []ops.Meta) int64 {
	total := int64(0)
	for _, m := range all {
		n := ops.Product(m.Dims)
		if n < 0 || total+n < 0 {
			return program.Unknown
		}
		total += n
	}
	return total
}

func inferSplitIDs(s *ops.Shapes) error {
	ids := s.Ins("Ids")
	for _, m := range ids {
		if m.Kind != program.LoDTensor || m.DType != tensor.Int64 {
			return s.Errorf("Ids", "int64")
		}
	}
	if len(s.Ints("sections")) != len(s.Outs("Out")) || len(ids) == 0 || len(s.Outs("Places")) != len(ids) {
		return opkit.BadAttr(s, "sections", "%d numbers of rows, one for each Out, and a Places for each Ids", len(s.Outs("Out")))
	}
	left := int64(math.MaxInt64)
	for _, n := range s.Ints("sections") {
		if n < 0 || n > math.MaxInt32-1 || n > left {
			return opkit.BadAttr(s, "sections", "numbers of rows")
		}
		left -= n
	}
	room, numbers := totalOf(ids), tensor.Int32
	if room != program.Unknown {
		room++
	}
	if s.Bool("auto_grown_table") {
		if numbers = tensor.Int64; !wholeRegions(s.Ints("sections")) {
			return opkit.BadAttr(s, "sections", "whole regions of a table with %d of them", kernel.KeyRegions)
		}
	}
	for i := range s.Outs("Out") {
		s.SetAt("Out", i, ops.Meta{Kind: program.LoDTensor, DType: numbers, Dims: []int64{room}})
	}
	for i, m := range ids {
		s.SetAt("Places", i, ops.Meta{Kind: program.LoDTensor, DType: tensor.Int64, Dims: m.Dims})
	}
	return nil
}

// wholeRegions reports whether runs of rows are whole regions of keys.
func wholeRegions(sections []int64) bool {
	total := int64(0)
	for _, n := range sections {
		total += n
	}
	region := total / kernel.KeyRegions
	return region > 0 && total%kernel.KeyRegions == 0 && !slices.ContainsFunc(sections, func(n int64) bool { return n%region != 0 })
}

func bindSplitIDs(b *ops.Binding) (ops.Kernel, error) {
	numbers := tensor.Int32
	if b.Bool("auto_grown_table") {
		numbers = tensor.Int64
	}
	ids, outs, places, sections := b.Ins("Ids"), b.Outs("Out"), b.Outs("Places"), b.Ints("sections")
	n, height := 0, int64(0)
	for i, t := range ids {
		if places[i] == nil || t.DType() != tensor.Int64 || places[i].DType() != tensor.Int64 || places[i].Len() != t.Len() {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v for %v", places[i], t), fault.Want("a place for each id"))
		}
		n += t.Len()
	}
	for i, rows := range sections {
		if outs[i] == nil || outs[i].DType() != numbers || outs[i].Len() <= n {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v", outs[i]), fault.Wantf("room for %d rows", n))
		}
		height += rows
	}
	if numbers == tensor.Int64 {
		return splitKeys(b, n, height), nil
	}
	if !kernel.OrderableRows(n, height) {
		return nil, fault.E(fault.TooLarge, fault.Gotf("%d ids of %d rows", n, height), fault.Want("a product of both below 2^62"))
	}
	all, order, spare := b.Scratch(tensor.Int64, n), b.Scratch(tensor.Int64, n), b.Scratch(tensor.Int64, n)
	op, striped, stripes := b.Op(), b.Bool("striped"), kernel.StripesOf(height)
	return func(context.Context) error {
		joined := all.Int64s()[:0]
		for i, t := range ids {
			if err := opkit.CheckIDs(op, op.Inputs["Ids"][i], t.Int64s(), 0, height); err != nil {
				return err
			}
			if !striped {
				joined = append(joined, t.Int64s()...)
				continue
			}
			for _, row := range t.Int64s() {
				joined = append(joined, stripes.Position(row))
			}
		}
		ordered := kernel.OrderRows(order.Int64s(), spare.Int64s(), joined, height)
		ranks := joined // each id is read before its rank is written, because the entries have the rows
		first, rank := int64(0), int64(-1)
		for i, rows := range sections {
			own := kernel.OrderedBetween(ordered, n, first, first+rows)
			numbers, last := outs[i].Int32s(), int64(-1)
			count := int32(0)
			for _, entry := range own {
				row, place := kernel.RowAndPlace(entry, n)
				if row != last {
					rank, last = rank+1, row
					count++
					numbers[count] = int32(row - first)
				}
				ranks[place] = rank
			}
			numbers[0] = count
			first += rows
		}
		for i, t := range ids {
			copy(places[i].Int64s(), ranks)
			ranks = ranks[t.Len():]
		}
		return nil
	}, nil
}

// splitKeys is split_ids for n keys of a table of so many rows.
func splitKeys(b *ops.Binding, n int, height int64) ops.Kernel {
	ids, outs, places, sections := b.Ins("Ids"), b.Outs("Out"), b.Outs("Places"), b.Ints("sections")
	all, order, spare, different := b.Scratch(tensor.Int64, n), b.Scratch(tensor.Int64, n), b.Scratch(tensor.Int64, n), b.Scratch(tensor.Int64, n)
	region := height / kernel.KeyRegions
	return func(context.Context) error {
		mixed := all.Int64s()[:0]
		for _, t := range ids {
			for _, id := range t.Int64s() {
				mixed = append(mixed, kernel.MixKey(id))
			}
		}
		ordered, count := kernel.OrderKeys(order.Int64s(), spare.Int64s(), different.Int64s(), mixed)
		keys, none := different.Int64s()[:count], int64(0)
		if count > 0 && keys[0] == 0 { // that of NoKey has no row
			keys, none = keys[1:], 1
		}
		for _, entry := range ordered {
			rank, place := kernel.RowAndPlace(entry, n)
			mixed[place] = max(rank-none, 0)
		}
		end := int64(0)
		for i, rows := range sections {
			end += rows
			own := kernel.KeysBefore(keys, int(end/region))
			numbers := outs[i].Int64s()
			numbers[0] = int64(own)
			copy(numbers[1:], keys[:own])
			keys = keys[own:]
		}
		for i, t := range ids {
			copy(places[i].Int64s(), mixed)
			mixed = mixed[t.Len():]
		}
		return nil
	}
}

// A source is where prefetch finds one X.
type source struct {
	destination
	out int
}

// sources reads the attributes of prefetch.
func sources(a attributes, variables []string, outs int) ([]source, []int64, error) {
	to, err := destinations(a, variables, "table_names")
	if err != nil {
		return nil, nil, err
	}
	of, widths := a.Ints("outs"), a.Ints("widths")
	if len(of) != len(to) || len(widths) != outs || !slices.IsSorted(of) {
		return nil, nil, fault.E(fault.InvalidProgram, fault.Gotf("outs %v and widths %v", of, widths), fault.Want("an index for each X, ascending, and a width for each Out"))
	}
	all := make([]source, len(to))
	for i, d := range to {
		if of[i] < 0 || of[i] >= int64(outs) || widths[of[i]] < 1 {
			return nil, nil, fault.E(fault.InvalidProgram, fault.Gotf("the table %d of %d", of[i], outs), fault.Want("one of Out, with a width of at least 1"))
		}
		all[i] = source{d, int(of[i])}
	}
	return all, widths, nil
}

func inferPrefetch(s *ops.Shapes) error {
	from, widths, err := sources(s, s.Op().Inputs["X"], len(s.Outs("Out")))
	if err != nil {
		return err
	}
	rows := make([]int64, len(widths))
	for i, m := range s.Ins("X") {
		if m.Kind != program.LoDTensor || m.DType != tensor.Int32 && m.DType != tensor.Int64 || len(m.Dims) != 1 || m.Dims[0] == 0 {
			return s.Errorf("X", "rows as split_ids gives them")
		}
		rows[from[i].out] = max(m.Dims[0]-1, program.Unknown) // of all X of a table together: each has room for all
	}
	for i, width := range widths {
		s.SetAt("Out", i, ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{rows[i], width}})
	}
	return nil
}

func bindPrefetch(b *ops.Binding) (ops.Kernel, error) {
	wire, err := wire(b)
	if err != nil {
		return nil, err
	}
	fetcher, ok := wire.(ops.RowFetcher)
	if !ok {
		return nil, needsCluster("a connection that brings no rows of tables")
	}
	xs, outs := b.Ins("X"), b.Outs("Out")
	from, widths, err := sources(b, b.Op().Inputs["X"], len(outs))
	if err != nil {
		return nil, err
	}
	for i, x := range xs {
		if x.DType() != tensor.Int32 && x.DType() != tensor.Int64 || x.Len() < 1 || outs[from[i].out] == nil || outs[from[i].out].DType() != tensor.Float32 {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v for %v", outs[from[i].out], x), fault.Want("rows as split_ids gives them"))
		}
	}
	messages := make([]ops.RowsMessage, 0, len(xs))
	return func(ctx context.Context) error {
		messages = messages[:0]
		used, out := 0, 0
		for i, x := range xs {
			if from[i].out != out {
				used, out = 0, from[i].out
			}
			into := outs[out].Float32s()[used:]
			m := ops.RowsMessage{Name: from[i].name, Server: from[i].server}
			n := 0
			if x.DType() == tensor.Int64 {
				m.Keys = inFront(x.Int64s())
				n = len(m.Keys)
			} else {
				m.Rows = inFront(x.Int32s())
				n = len(m.Rows)
			}
			if n*int(widths[out]) > len(into) {
				return fault.E(fault.Corrupt, fault.Var(b.Op().Inputs["X"][i]), fault.Gotf("%d rows", n), fault.Wantf("at most %d", len(into)/int(widths[out])))
			}
			if n > 0 {
				m.Into = into[:n*int(widths[out])]
				messages = append(messages, m)
				used += len(m.Into)
			}
		}
		return fetcher.FetchRows(ctx, messages)
	}, nil
}

// inFront returns the numbers behind their count, as split_ids gives them, none if there cannot be so many.
func inFront[N int32 | int64](numbers []N) []N {
	if n := int(numbers[0]); n > 0 && n < len(numbers) {
		return numbers[1 : 1+n]
	}
	return nil
}

func inferMergeIDs(s *ops.Shapes) error {
	x, shape := s.In("X"), s.Ints("shape")
	if x.Kind != program.LoDTensor || x.DType != tensor.Float32 || len(x.Dims) != 2 {
		return s.Errorf("X", "a float32 table of rank 2")
	}
	ids := s.In("Ids")
	if ids.DType != tensor.Int64 || s.In("Places").DType != tensor.Int64 {
		return s.Errorf("Ids", "int64, and Places like it")
	}
	if s.Str("combiner") != seqpool.None {
		dims, err := seqpool.Dims(s, x.Dims[1])
		if err != nil || len(shape) == 0 || !opkit.Agree(x.Dims[1], shape[len(shape)-1]) {
			return cmp.Or(err, opkit.BadAttr(s, "shape", "the width of X as last extent"))
		}
		s.SetAt("Out", 0, ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: dims})
		s.PoolLoD("Out", "Ids")
		return nil
	}
	dims := slices.Clone(shape)
	if len(dims) == 0 || len(dims)-1 > len(ids.Dims) || !opkit.Agree(x.Dims[1], dims[len(dims)-1]) {
		return opkit.BadAttr(s, "shape", "dims of Ids, maybe without a last 1, and the width of X")
	}
	for i := range dims[:len(dims)-1] {
		if !opkit.Agree(ids.Dims[i], dims[i]) {
			return opkit.BadAttr(s, "shape", "dims of Ids, maybe without a last 1, and the width of X")
		}
		dims[i] = ids.Dims[i]
	}
	if rest := ids.Dims[len(dims)-1:]; ops.Product(rest) != 1 {
		return opkit.BadAttr(s, "shape", "dims of Ids, maybe without a last 1, and the width of X")
	}
	s.SetAt("Out", 0, ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: dims})
	s.ShareLoD("Out", "Ids")
	return nil
}

func bindMergeIDs(b *ops.Binding) (ops.Kernel, error) {
	table, places, ids, to, padding, grown := b.In("X"), b.In("Places"), b.In("Ids"), b.Out("Out"), b.Int("padding_idx"), b.Bool("auto_grown_table")
	width, pools := int(table.Dims()[1]), b.Str("combiner") != seqpool.None
	if places.Len() != ids.Len() || !pools && to.Len() != ids.Len()*width {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v for %v", to, ids), fault.Wantf("a row of %d for each id", width))
	}
	rows, n := table.Dims()[0], places.Len()
	lookUp := func(out []float32, from, till int) error {
		some := places.Int64s()[from:till]
		if at := kernel.FirstBadID(some, rows); at >= 0 {
			return fault.E(fault.Corrupt, fault.Gotf("place %d", some[at]), fault.Wantf("0 to %d", rows-1))
		}
		kernel.Embedding(out, table.Float32s(), some, width, kernel.NoPadding)
		if padding != kernel.NoPadding {
			kernel.ClearRowsOf(out, ids.Int64s()[from:till], width, padding)
		}
		if grown {
			kernel.ClearRowsOf(out, ids.Int64s()[from:till], width, kernel.NoKey)
		}
		return nil
	}
	if pools {
		return seqpool.Lookup(b, width, []string{"X", "Places", "Ids"}, lookUp)
	}
	return b.Loops(ops.Loop{N: n, Whole: []string{"X"}, Run: func(_, from, till int) error {
		return lookUp(to.Float32s()[from*width:till*width], from, till)
	}})
}
