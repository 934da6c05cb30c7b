package sequence

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var filterExempt = map[ops.Check]string{ops.CheckLaw: "it leaves out sequences of a batch, and the transpiler refuses a loss that depends on it"}

func init() {
	ops.Register(ops.Def{
		Type: "filter_by_instag",
		Doc:  "Keeps the instances of Ins that have one of the tags of Filter_tag: a row, or with is_lod a sequence of rows. If none has, Out is one row of out_val_if_empty that does not count.",
		Inputs: []ops.Slot{
			{Name: "Ins", Doc: "numbers [rows, columns], with is_lod of one LoD level"},
			{Name: "Ins_tag", Doc: "int64 [tags, 1], the tags of an instance a sequence", Decides: true},
			{Name: "Filter_tag", Doc: "int64 [tags]", Decides: true}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "the rows of the instances that are kept, those of an instance a sequence"},
			{Name: "LossWeight", Doc: "float32 [instances, 1]: 1, and 0 for the row of an empty Out"},
			{Name: "IndexMap", Doc: "int64 [instances, 3]: the first row in Out, the first row in Ins, and the number of rows"}},
		Attrs: []ops.Attr{
			{Name: "is_lod", Doc: "whether an instance is a sequence", Default: true},
			{Name: "out_val_if_empty", Doc: "what Out holds if no instance is kept", Default: int64(0)}},
		Infer:     inferFilter,
		MakesLoD:  always,
		MixesRows: opkit.Mixes,
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			made, err := ops.StandardGrad([]string{"Ins"}, []string{"LossWeight", "IndexMap"}, []string{"Ins"})(g)
			if err == nil {
				delete(made[0].Inputs, program.GradName("LossWeight"))
			}
			return made, err
		},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindNumbers("Ins", bindFilter[float32], bindFilter[float64], bindFilter[int32], bindFilter[int64]),
		Exempt: filterExempt,
	})
	dout, dins := program.GradName("Out"), program.GradName("Ins")
	ops.Register(ops.Def{
		Type:  "filter_by_instag_grad",
		Class: ops.Backward,
		Doc:   "The gradient of filter_by_instag: dIns is dOut in the rows that were kept, and 0 in the others.",
		Inputs: []ops.Slot{
			{Name: "Ins", Doc: "of the forward op; only its dims count"},
			{Name: "LossWeight", Doc: "float32 [instances, 1]"},
			{Name: "IndexMap", Doc: "int64 [instances, 3]"},
			{Name: dout, Doc: "gradient of Out"}},
		Outputs: []ops.Slot{{Name: dins, Doc: "gradient of Ins", Dispensable: true}},
		Attrs: []ops.Attr{
			{Name: "is_lod", Doc: "whether an instance is a sequence", Default: true},
			{Name: "out_val_if_empty", Doc: "what Out held if no instance was kept", Default: int64(0)}},
		Infer: func(s *ops.Shapes) error {
			if err := checkInstances(s); err != nil {
				return err
			}
			ins, map3 := s.In("Ins"), s.In("IndexMap")
			if err := s.SameType("Ins", dout); err != nil {
				return err
			}
			if d := s.In(dout).Dims; len(d) != 2 || !opkit.Agree(d[1], ins.Dims[1]) {
				return s.Errorf(dout, "rows of %d columns, as Ins has", ins.Dims[1])
			}
			if map3.DType != tensor.Int64 || !ops.Compatible(map3.Dims, []int64{program.Unknown, 3}) {
				return s.Errorf("IndexMap", "int64 [instances, 3]")
			}
			if w := s.In("LossWeight"); w.DType != tensor.Float32 || len(w.Dims) == 0 || !opkit.Agree(w.Dims[0], map3.Dims[0]) || ops.Product(w.Dims[1:]) > 1 {
				return s.Errorf("LossWeight", "float32 [instances, 1]")
			}
			s.Like(dins, "Ins")
			return s.IsFloat("Ins")
		},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindFloats(dout, bindFilterGrad[float32], bindFilterGrad[float64]),
		Exempt: filterExempt,
	})
}

// checkInstances checks Ins.
func checkInstances(s *ops.Shapes) error {
	ins := s.In("Ins")
	if len(ins.Dims) != 2 {
		return s.Errorf("Ins", "rank 2")
	}
	if _, err := s.CountSequences("Ins"); s.Bool("is_lod") && (err != nil || ins.LoDLevel != 1) {
		return s.Errorf("Ins", "one LoD level, with is_lod")
	}
	return nil
}

func inferFilter(s *ops.Shapes) error {
	if err := checkInstances(s); err != nil {
		return err
	}
	for _, slot := range []string{"Ins_tag", "Filter_tag"} {
		m := s.In(slot)
		if err := opkit.CheckType(s, slot, m.DType == tensor.Int64, "int64"); err != nil {
			return err
		}
		if len(m.Dims) == 0 || !ops.Compatible(m.Dims[1:], ones(len(m.Dims)-1)) {
			return s.Errorf(slot, "one tag in each row")
		}
	}
	instances, err := s.CountSequences("Ins_tag")
	if err != nil {
		return err
	}
	if s.In("Ins_tag").LoDLevel != 1 {
		return s.Errorf("Ins_tag", "one LoD level")
	}
	ins := s.In("Ins")
	count := ins.Dims[0]
	if s.Bool("is_lod") {
		count, _ = s.CountSequences("Ins")
	}
	if !opkit.Agree(instances, count) {
		return s.Errorf("Ins_tag", "%d sequences, one for each instance of Ins", count)
	}
	rows, kept, lod, single := int64(program.Unknown), int64(program.Unknown), [][]int64(nil), [][]int64(nil)
	tags, filter, offsets := ops.Decide(s, "Ins_tag"), ops.Decide(s, "Filter_tag"), ops.Offsets(s, "Ins_tag", 0)
	starts := ops.Offsets(s, "Ins", 0)
	if tags != nil && filter != nil && offsets != nil && (starts != nil || !s.Bool("is_lod")) {
		var lengths []int64
		for i := range len(offsets) - 1 {
			if !hasTag(tags[offsets[i]:offsets[i+1]], filter) {
				continue
			}
			n := int64(1)
			if s.Bool("is_lod") {
				n = starts[i+1] - starts[i]
			}
			lengths = append(lengths, n)
		}
		if len(lengths) == 0 {
			lengths = []int64{1}
		}
		all := offsetsOf(lengths)
		rows, kept, lod = all[len(lengths)], int64(len(lengths)), [][]int64{all}
		for i := range lengths {
			lengths[i] = 1
		}
		single = [][]int64{offsetsOf(lengths)}
	}
	s.Set("Out", ins.DType, withRows(rows, ins.Dims)...)
	s.Set("LossWeight", tensor.Float32, kept, 1)
	s.Set("IndexMap", tensor.Int64, kept, 3)
	ops.MakeLoD(s, "Out", "", 1, lod)
	ops.MakeLoD(s, "LossWeight", "", 1, single)
	ops.MakeLoD(s, "IndexMap", "", 1, single)
	return nil
}

// hasTag reports whether two lists of tags have one in common.
func hasTag(tags, filter []int64) bool {
	return slices.ContainsFunc(tags, func(tag int64) bool { return slices.Contains(filter, tag) })
}

// A filtering finds the instances that are kept, on every run.
type filtering struct {
	ins, tags batch
	filter    *tensor.Tensor
	lod       bool
	found     *tensor.Tensor // int64 [instances, 3], as IndexMap
}

// find returns the rows of IndexMap: none if no instance is kept.
func (f filtering) find() ([]int64, error) {
	offsets, err := f.tags.offsets()
	if err != nil {
		return nil, err
	}
	var starts []int64
	if f.lod {
		if starts, err = f.ins.offsets(); err != nil {
			return nil, err
		}
	}
	if n := f.ins.value.Dims()[0]; f.lod && len(starts) != len(offsets) || !f.lod && n != int64(len(offsets)-1) {
		return nil, otherRows(f.ins.op, len(offsets)-1, int(n))
	}
	tags, filter, found := f.tags.value.Int64s(), f.filter.Int64s(), f.found.Int64s()[:0]
	at := int64(0)
	for i := range len(offsets) - 1 {
		if !hasTag(tags[offsets[i]:offsets[i+1]], filter) {
			continue
		}
		first, rows := int64(i), int64(1)
		if f.lod {
			first, rows = starts[i], starts[i+1]-starts[i]
		}
		found = append(found, at, first, rows)
		at += rows
	}
	return found, nil
}

func bindFilter[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	f := filtering{ins: batchIn(b, "Ins"), tags: batchIn(b, "Ins_tag"), filter: b.In("Filter_tag"), lod: b.Bool("is_lod")}
	f.found = b.Scratch(tensor.Int64, 3*f.tags.n)
	out, weights, places := b.Out("Out"), b.Out("LossWeight"), b.Out("IndexMap")
	var loops []ops.Loop
	if out != nil {
		fill, empty := b.Scratch(tensor.Of[T](), 1), T(b.Int("out_val_if_empty"))
		if _, err := bindPick[T](b, f.ins.value, out, fill, width(f.ins.value, 1), func(rows []int64) error {
			tensor.Data[T](fill)[0] = empty
			return f.pick(rows)
		}); err != nil {
			return nil, err
		}
		loops = b.Bound()
	}
	if weights != nil || places != nil {
		loops = append(loops, ops.Loop{N: 1, Apart: true, Writes: []string{"LossWeight", "IndexMap"}, Run: func(int, int, int) error {
			return f.describe(b.Op(), weights, places)
		}})
	}
	return b.Loops(loops...)
}

// pick is the picker of Out.
func (f filtering) pick(rows []int64) error {
	found, err := f.find()
	if err != nil {
		return err
	}
	if len(found) == 0 && len(rows) == 1 {
		rows[0] = -1
		return nil
	}
	n := int64(0)
	for ; len(found) > 0; found = found[3:] {
		for j := range found[2] {
			if n < int64(len(rows)) {
				rows[n] = found[1] + j
			}
			n++
		}
	}
	if n != int64(len(rows)) {
		return otherRows(f.ins.op, int(n), len(rows))
	}
	return nil
}

// nothingKept is the row of IndexMap that Fluid writes where no instance is kept.
var nothingKept = []int64{0, 1, 1}

// describe writes LossWeight and IndexMap; either may be nil.
func (f filtering) describe(op *program.Op, weights, places *tensor.Tensor) error {
	found, err := f.find()
	if err != nil {
		return err
	}
	weight := float32(1)
	if len(found) == 0 {
		found, weight = nothingKept, 0
	}
	if weights != nil && 3*weights.Len() != len(found) || places != nil && places.Len() != len(found) {
		return otherRows(op, len(found)/3, max(lenOf(weights), lenOf(places)/3))
	}
	if weights != nil {
		kernel.Fill(weights.Float32s(), weight)
	}
	if places != nil {
		copy(places.Int64s(), found)
	}
	return nil
}

// lenOf returns the elements of a tensor that may be nil.
func lenOf(t *tensor.Tensor) int {
	if t == nil {
		return 0
	}
	return t.Len()
}

func bindFilterGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, weights, places, dout, dins := b.Op(), b.In("LossWeight"), b.In("IndexMap"), b.In(program.GradName("Out")), b.Out(program.GradName("Ins"))
	columns := width(dins, 1)
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		to, from := tensor.Data[T](dins), tensor.Data[T](dout)
		clear(to)
		if w := weights.Float32s(); len(w) == 1 && w[0] == 0 {
			return nil
		}
		inside, outside := dins.Dims()[0], dout.Dims()[0]
		for i := range places.Len() / 3 {
			p := row(places.Int64s(), i, 3)
			at, first, rows := p[0], p[1], p[2]
			if at < 0 || first < 0 || rows < 0 || at > outside || first > inside || rows > min(outside-at, inside-first) {
				return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("IndexMap")), fault.Gotf("%d rows from %d on in row %d of Ins", rows, at, first),
					fault.Wantf("rows of the %d of Out and the %d of Ins", outside, inside))
			}
			copy(to[int(first)*columns:int(first+rows)*columns], from[int(at)*columns:int(at+rows)*columns])
		}
		return nil
	}})
}
