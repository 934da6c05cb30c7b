package sparse

import (
	"cmp"
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// tableSlots are the variables of a table, of which an update changes some.
var tableSlots = slices.Concat([]ops.Slot{{Name: "Param", Doc: "float32 or bfloat16, the table", Stored: true}, {Name: "Keys", Doc: keysDoc}, indexSlot}, ruleSlots,
	[]ops.Slot{{Name: "Grad", Doc: "its gradient, with keys", Rows: true}})

// outSlots are they after the update.
var outSlots = []ops.Slot{{Name: "ParamOut", Doc: "the table, the variable of Param"}, {Name: "KeysOut", Doc: "the variable of Keys"},
	{Name: "IndexOut", Doc: "the variable of Index"}, {Name: "CountsOut", Doc: "the variable of Counts", Dispensable: true}}

func init() {
	ops.Register(ops.Def{
		Type:  "lookup_sparse_table_insert",
		Class: ops.Optimize,
		Doc: "Gives each key of a sparse gradient a row of a table that grows, with its initial values, unless it has one or its entry does not allow it yet. Keys " +
			"get rows in the order of their mixed keys. In Paddle 2, this is part of lookup_sparse_table_write.",
		Inputs: append(slices.Clone(tableSlots), ops.Slot{Name: "Moments", Doc: "the state of the optimizer that has a row for each row of Param: its memory comes into use " +
			"with the rows", Duplicable: true, Dispensable: true}),
		Outputs:   outSlots,
		Attrs:     slices.Concat(regionAttrs, initialAttrs),
		Infer:     inferInsert,
		Cost:      opkit.PerElement(1),
		Bind:      bindInsert,
		RowSliced: true,
		InPlace:   map[string]string{"ParamOut": "Param", "KeysOut": "Keys", "IndexOut": "Index", "CountsOut": "Counts"},
		TellsRows: []string{"Param", "Keys", "Index", "Counts"},
	})
}

func inferInsert(s *ops.Shapes) error {
	param, grad := s.In("Param"), s.In("Grad")
	if err := inferRegions(s, param); err != nil {
		return err
	}
	if err := checkInitial(s); err != nil {
		return err
	}
	if grad.Kind != program.SelectedRows || grad.DType != tensor.Float32 || !ops.Compatible(grad.Dims, param.Dims) {
		return s.Errorf("Grad", "a sparse gradient of Param %v", param)
	}
	r, err := checkRule(s, param)
	if err != nil {
		return err
	}
	for _, m := range s.Ins("Moments") { // float32 also where Param is bfloat16
		if m.DType != tensor.Float32 || !ops.Compatible(m.Dims, param.Dims) {
			return s.Errorf("Moments", "variables like Param %v", param)
		}
	}
	for _, name := range []string{"Param", "Keys", "Index"} {
		s.Like(name+"Out", name)
	}
	if r.counts() {
		s.Like("CountsOut", "Counts")
	}
	return nil
}

// An update is what the ops have in common that change a table by a gradient.
type update struct {
	rule
	op     *program.Op
	name   string // of the whole table: a server has slices of it, with names of their own
	param  *tensor.Tensor
	grad   *tensor.Tensor
	height int64
	width  int
	table  func() kernel.KeyTable
	rounds *tensor.Tensor  // nil for a table that does not count them
	hours  *tensor.Tensor  // nil for a table that counts no days
	step   *ops.Step       // that runs
	fresh  *tensor.Tensor  // room for the keys of the gradient
	watch  ops.RowWatcher  // nil: nobody is told which rows change
	values []string        // variables with a row for each key, of which the op changes rows
	told   []func(row int) // about these, in this run
}

func bindUpdate(b *ops.Binding) (*update, error) {
	u := &update{op: b.Op(), name: cmp.Or(b.Str("table_name"), b.Op().In("Param")), param: b.Out("ParamOut"), grad: b.In("Grad"), rounds: b.In("Rounds"), hours: b.In("Hours"), step: b.Env.Step, watch: b.Env.Rows}
	u.values = append([]string{u.op.In("Param")}, u.op.Outputs["MomentsOut"]...)
	var err error
	if u.rule, err = ruleOf(b); err != nil {
		return nil, err
	}
	var counts *tensor.Tensor
	if u.counts() {
		counts = b.Out("CountsOut")
	}
	if u.table, err = viewOf(b.Out("KeysOut"), b.Out("IndexOut"), counts, int(b.Int("first_region")), int(b.Int("region_rows"))); err != nil {
		return nil, err
	}
	if u.days > 0 && (u.hours == nil || u.hours.Len() != 2 || u.step == nil) {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("Hours %v", u.hours), fault.Want("int64 [2], and a step that has an hour"))
	}
	rows, height := u.grad.Selected()
	if rows == nil || !sameMemory(u.param, b.In("Param")) || b.Out("KeysOut").Len() != int(u.param.Dims()[0]) || height != u.param.Dims()[0] {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v of %v", u.grad, u.param), fault.Want("a sparse gradient of Param, which the op updates in place"))
	}
	u.height, u.width, u.fresh = height, int(u.param.Dims()[1]), b.Scratch(tensor.Int64, rows.Len())
	return u, nil
}

// sameMemory reports whether two tensors share their elements.
func sameMemory(a, b *tensor.Tensor) bool {
	if a.DType() != b.DType() || a.Len() != b.Len() || a.Len() == 0 {
		return a.DType() == b.DType() && a.Len() == b.Len()
	}
	if a.DType() == tensor.BFloat16 {
		return &tensor.Data[uint16](a)[0] == &tensor.Data[uint16](b)[0]
	}
	return a.DType() == tensor.Float32 && &a.Float32s()[0] == &b.Float32s()[0]
}

// writer returns what changes the table in a round.
func (u *update) writer() (w kernel.KeyWriter, round int64) {
	w = kernel.KeyWriter{KeyTable: u.table(), Stamp: 1}
	if u.rounds != nil {
		round = u.rounds.Int64s()[0]
		w.Stamp = u.stamp(round)
	}
	if u.days > 0 {
		_, span := u.at(u.hours.Int64s(), u.step.Hour)
		w.Stamp = stampOf(span)
	}
	u.told = u.told[:0]
	if u.watch == nil {
		return w, round
	}
	for _, name := range u.values {
		if tell := u.watch.Changing(name); tell != nil {
			u.told = append(u.told, tell)
		}
	}
	w.KeyChanges, w.IndexChanges = u.watch.Changing(u.op.In("Keys")), u.watch.Changing(u.op.In("Index"))
	if u.counts() {
		w.CountChanges = u.watch.Changing(u.op.In("Counts"))
	}
	return w, round
}

// changes says that a row of values is about to change.
func (u *update) changes(row int) {
	for _, tell := range u.told {
		tell(row)
	}
}

// someKeys are keys of a gradient that are looked up at once, and their rows, -1 for those that have none.
type someKeys struct {
	keys, rows [64]int64
	n          int
}

// take looks the first keys of a gradient up, and returns its other numbers.
func (s *someKeys) take(t kernel.KeyTable, numbers []int64, height int64) (left []int64) {
	s.n = min(len(s.keys), len(numbers))
	for i, number := range numbers[:s.n] {
		s.keys[i] = kernel.KeyOfRow(number, height)
	}
	t.FindRows(s.rows[:s.n], s.keys[:s.n])
	return numbers[s.n:]
}

// without returns the keys of the gradient that have no row, in order and each once. With see it stamps those that the table knows.
func (u *update) without(w *kernel.KeyWriter, see bool) []int64 {
	keys := u.fresh.Int64s()[:0]
	see = see && u.remembers()
	var some someKeys
	for numbers := tensor.UsedRows(u.grad); len(numbers) > 0; {
		numbers = some.take(w.KeyTable, numbers, u.height) // for See as well: it finds in a cache what was found
		for i, row := range some.rows[:some.n] {
			if see {
				at, _ := w.See(some.keys[i])
				row = int64(at)
			}
			if row < 0 {
				keys = append(keys, some.keys[i])
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// checkRoom refuses a gradient with more different keys than the table, or the part of it that is here, has rows. One machine refuses it because trainers of a
// cluster have room for so many and no more.
func (u *update) checkRoom() error {
	numbers := tensor.UsedRows(u.grad)
	if int64(len(numbers)) <= u.height {
		return nil
	}
	keys := append(u.fresh.Int64s()[:0], numbers...)
	slices.Sort(keys)
	if n := int64(len(slices.Compact(keys))); n > u.height {
		return ops.At(u.op, fault.E(fault.TooLarge, fault.Var(u.name), fault.Gotf("%d keys in one step", n), fault.Wantf("at most %d, the rows of the table", u.height),
			fault.Hint("give the table more rows, or take smaller batches")))
	}
	return nil
}

// full is the error of a key for which there is no room.
func (u *update) full(key int64) error {
	return ops.At(u.op, fault.E(fault.TooLarge, fault.Var(u.name), fault.Gotf("a new key %d, and %d rows of its region in use", kernel.KeyOf(key), u.table().Room()),
		fault.Want("a table with room for its keys"), fault.Hint("give layers.SparseEmbedding more rows, layers.EvictOldest() or layers.Refuse()")))
}

func bindInsert(b *ops.Binding) (ops.Kernel, error) {
	u, err := bindUpdate(b)
	if err != nil {
		return nil, err
	}
	initial, fails := initialRow(b), b.Str("at_bound") == "error"
	for _, m := range b.Ins("Moments") {
		if m == nil || m.Len() != u.param.Len() {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("Moments %v", m), fault.Wantf("%v, like Param", u.param))
		}
	}
	fill := func(row int, key int64) { initial.Fill(u.param.Float32s()[row*u.width:][:u.width], key) }
	if u.param.DType() == tensor.BFloat16 {
		room := b.Scratch(tensor.Float32, u.width)
		fill = func(row int, key int64) {
			initial.Fill(room.Float32s(), key)
			kernel.ToBFloat16(tensor.Data[uint16](u.param)[row*u.width:][:u.width], room.Float32s())
		}
	}
	pages := &pages{tensors: append([]*tensor.Tensor{u.param, b.Out("KeysOut")}, b.Ins("Moments")...), region: int(b.Int("region_rows"))}
	return func(context.Context) error {
		if err := u.checkRoom(); err != nil {
			return err
		}
		w, round := u.writer()
		pages.begin(w.KeyTable)
		for _, key := range u.without(&w, true) {
			if _, seen := w.See(key); seen+1 < u.count || u.probability < 1 && !initial.Admits(key, round, u.probability) {
				continue
			}
			row, added := w.Insert(key)
			switch {
			case added:
				u.changes(row)
				fill(row, key)
				pages.uses(row)
			case row < 0 && fails:
				return u.full(key)
			}
		}
		return nil
	}, nil
}
