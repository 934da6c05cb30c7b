package detection

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// mostCounted bounds what detection_map keeps for each class.
const mostCounted = 1 << 20

func init() {
	ops.Register(ops.Def{
		Type: "detection_map", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "The mean average precision of detections. Of an image, the detections of a class are taken from the best on: one is right if the object of its class that it overlaps most " +
			"does so by more than overlap_threshold and no better one has taken it. Over all detections of a class by score, precision is the share of right ones so far, and recall what share of " +
			"the objects is found. Their average precision is the sum of precision times the step in recall (integral), or the mean over 0, 0.1, ... 1 of the best precision " +
			"from that recall on (11point). MAP is the mean over classes with objects.",
		Inputs: []ops.Slot{
			{Name: "DetectRes", Doc: "float [rows, 6], those of an image a sequence: class, score and the box; [1, 1] holds none"},
			{Name: "Label", Doc: "of the type of DetectRes, [rows, 6] or [rows, 5], those of an image a sequence: class, whether it is difficult, and the box, in shares of the image"},
			{Name: "HasState", Doc: "int32 [1]: whether the next three count", Dispensable: true},
			{Name: "PosCount", Doc: "int32 [class_num, 1]: objects before this step", Dispensable: true},
			{Name: "TruePos", Doc: "as AccumTruePos of the step before", Dispensable: true},
			{Name: "FalsePos", Doc: "as AccumFalsePos of the step before", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "AccumPosCount", Doc: "int32 [class_num, 1]: objects so far"},
			{Name: "AccumTruePos", Doc: "[detections, 2], those of a class a sequence: score, and 1 if it is right"},
			{Name: "AccumFalsePos", Doc: "[detections, 2], those of a class a sequence: score, and 1 if it is wrong"},
			{Name: "MAP", Doc: "[1]"}},
		Attrs: []ops.Attr{
			{Name: "class_num", Doc: "number of classes", Kind: int32(0), Check: func(op *program.Op) error {
				if n, ok := op.Int("class_num"); ok && (n < 1 || n > mostCounted) {
					return errors.New("1 to 1048576 classes")
				}
				return nil
			}},
			{Name: "background_label", Doc: "as in Fluid, a class with so many objects does not count", Default: int32(0)},
			{Name: "overlap_threshold", Doc: "the overlap that a right detection exceeds", Default: float32(0.5)},
			{Name: "evaluate_difficult", Doc: "whether difficult objects count; else neither they nor what finds them does", Default: true},
			{Name: "ap_type", Doc: "integral or 11point", Default: "integral", Check: func(op *program.Op) error {
				if kind, _ := op.Str("ap_type"); kind != "integral" && kind != "11point" {
					return errors.New("integral or 11point")
				}
				return nil
			}}},
		Infer:     inferDetectionMAP,
		Bind:      byFloat("DetectRes", bindDetectionMAP[float32], bindDetectionMAP[float64]),
		MixesRows: opkit.Mixes,
	})
}

func inferDetectionMAP(s *ops.Shapes) error {
	found, label, classes := s.In("DetectRes"), s.In("Label"), s.Int("class_num")
	if err := s.IsFloat("DetectRes"); err != nil {
		return err
	}
	if err := s.SameType("DetectRes", "Label", "TruePos", "FalsePos"); err != nil {
		return err
	}
	for _, slot := range []string{"DetectRes", "Label", "TruePos", "FalsePos"} {
		if s.Has(slot) && (s.In(slot).Kind != program.LoDTensor || len(s.In(slot).Dims) != 2) {
			return s.Errorf(slot, "a dense matrix")
		}
	}
	if c := found.Dims[1]; c >= 0 && c != 6 && c != 1 {
		return s.Errorf("DetectRes", "6 columns")
	}
	if c := label.Dims[1]; c >= 0 && c != 6 && c != 5 {
		return s.Errorf("Label", "6 columns, or 5")
	}
	for slot, n := range opkit.InOrder(map[string]int64{"HasState": 1, "PosCount": classes}) {
		if m := s.In(slot); s.Has(slot) && (m.Kind != program.LoDTensor || m.DType != tensor.Int32 || ops.Product(m.Dims) >= 0 && ops.Product(m.Dims) != n) {
			return s.Errorf(slot, "%d numbers int32", n)
		}
	}
	if s.Has("PosCount") != s.Has("TruePos") || s.Has("PosCount") != s.Has("FalsePos") {
		return s.Errorf("PosCount", "all of PosCount, TruePos and FalsePos, or none")
	}
	s.Set("AccumPosCount", tensor.Int32, classes, 1)
	s.SetAt("AccumTruePos", 0, rowsMeta(found.DType, 2))
	s.SetAt("AccumFalsePos", 0, rowsMeta(found.DType, 2))
	s.Set("MAP", found.DType, 1)
	return nil
}

// A hit is a detection of a class, with its numbers in TruePos and FalsePos.
type hit[T tensor.Float] struct {
	score        T
	right, wrong int32
}

// A precision is a bound detection_map. It reuses its memory from run to run.
type precision[T tensor.Float] struct {
	b          *ops.Binding
	threshold  T
	difficult  bool
	eleven     bool
	background int32

	objects []int32    // of each class
	hits    [][]hit[T] // of each class
	rows    []int      // of detections of an image, by class and score
	truth   []int      // of objects of an image, by class
	taken   []bool     // of truth
	ordered []hit[T]
	box     [4]T
}

func bindDetectionMAP[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	classes := int(b.Int("class_num"))
	p := &precision[T]{b: b, threshold: T(b.Float("overlap_threshold")), difficult: b.Bool("evaluate_difficult"), eleven: b.Str("ap_type") == "11point",
		background: int32(b.Int("background_label")), objects: make([]int32, classes), hits: make([][]hit[T], classes)}
	found, label, has := b.In("DetectRes"), b.In("Label"), b.In("HasState")
	counts, right, wrong := b.In("PosCount"), b.In("TruePos"), b.In("FalsePos")
	nextCounts, nextRight, nextWrong, mean := b.Out("AccumPosCount"), b.Out("AccumTruePos"), b.Out("AccumFalsePos"), b.Out("MAP")
	var foundAt, labelAt, starts, stops []int64
	var values [2][]T
	var out maker
	return func(context.Context) error {
		clear(p.objects)
		for i := range p.hits {
			p.hits[i] = p.hits[i][:0]
		}
		var err error
		if counts != nil && has != nil && has.Len() > 0 && has.Int32s()[0] != 0 {
			if starts, err = offsetsFrom(b, "TruePos", right, nil, starts); err != nil {
				return err
			}
			if stops, err = offsetsFrom(b, "FalsePos", wrong, nil, stops); err != nil {
				return err
			}
			if err := p.restore(counts, right, wrong, starts, stops); err != nil {
				return err
			}
		}
		if labelAt, err = offsetsFrom(b, "Label", label, nil, labelAt); err != nil {
			return err
		}
		if foundAt, err = offsetsFrom(b, "DetectRes", found, nil, foundAt); err != nil {
			return err
		}
		if dims := found.Dims(); len(dims) != 2 || dims[1] != 6 { // without detections
			foundAt = append(foundAt[:0], labelAt...)
			clear(foundAt)
		}
		if len(foundAt) != len(labelAt) {
			return fault.E(fault.ShapeMismatch, fault.On(b.Op()), fault.Gotf("detections of %d images", len(foundAt)-1), fault.Wantf("%d, as many as Label has", len(labelAt)-1))
		}
		for i := range len(labelAt) - 1 {
			if err := p.image(tensor.Data[T](found), tensor.Data[T](label), int(label.Dims()[1]), foundAt[i:i+2], labelAt[i:i+2]); err != nil {
				return err
			}
		}
		if mean != nil {
			tensor.Data[T](mean)[0] = p.mean()
		}
		if nextCounts != nil {
			copy(nextCounts.Int32s(), p.objects)
		}
		starts, values[0], values[1] = append(starts[:0], 0), values[0][:0], values[1][:0]
		for _, hits := range p.hits {
			for _, h := range hits {
				values[0], values[1] = append(values[0], h.score, T(h.right)), append(values[1], h.score, T(h.wrong))
			}
			starts = append(starts, int64(len(values[0])/2))
		}
		return errors.Join(makeRows(&out, nextRight, values[0], 2, starts), makeRows(&out, nextWrong, values[1], 2, starts))
	}, nil
}

// restore takes what the step before has counted.
func (p *precision[T]) restore(counts, right, wrong *tensor.Tensor, starts, others []int64) error {
	if counts.Len() != len(p.objects) || !slices.Equal(starts, others) || len(starts) != len(p.hits)+1 || right.Len() != 2*int(starts[len(starts)-1]) || wrong.Len() != right.Len() {
		return fault.E(fault.ShapeMismatch, fault.On(p.b.Op()), fault.Gotf("PosCount %v, TruePos %v and FalsePos %v in %d and %d sequences", counts.Dims(), right.Dims(), wrong.Dims(), len(starts)-1, len(others)-1),
			fault.Wantf("rows [detections, 2] of %d classes, the same in both", len(p.hits)))
	}
	copy(p.objects, counts.Int32s())
	for class := range p.hits {
		for i := int(starts[class]); i < int(starts[class+1]); i++ {
			p.hits[class] = append(p.hits[class], hit[T]{tensor.Data[T](right)[2*i], int32(tensor.Data[T](right)[2*i+1]), int32(tensor.Data[T](wrong)[2*i+1])})
		}
	}
	return nil
}

// class returns the class in the first column of a row.
func (p *precision[T]) class(slot string, values []T, row, columns int) (int, error) {
	v := values[row*columns]
	if !(v >= 0 && v < T(len(p.hits))) {
		return 0, fault.E(fault.InvalidArgument, fault.On(p.b.Op()), fault.Var(p.b.Op().In(slot)), fault.Gotf("class %v in row %d", v, row), fault.Wantf("0 to %d", len(p.hits)-1))
	}
	return int(v), nil
}

// image counts the objects and detections of one image, in the rows that the offsets say.
func (p *precision[T]) image(found, label []T, columns int, foundAt, labelAt []int64) error {
	p.rows, p.truth = p.rows[:0], p.truth[:0]
	for i := int(labelAt[0]); i < int(labelAt[1]); i++ {
		class, err := p.class("Label", label, i, columns)
		if err != nil {
			return err
		}
		if p.counts(label, i, columns) {
			p.objects[class]++
		}
		p.truth = append(p.truth, i)
	}
	for i := int(foundAt[0]); i < int(foundAt[1]); i++ {
		if _, err := p.class("DetectRes", found, i, 6); err != nil {
			return err
		}
		p.rows = append(p.rows, i)
	}
	slices.SortStableFunc(p.rows, func(i, j int) int {
		return cmp.Or(cmp.Compare(int(found[6*i]), int(found[6*j])), cmp.Compare(found[6*j+1], found[6*i+1]))
	})
	p.taken = grow(p.taken, len(p.truth))
	clear(p.taken)
	for _, i := range p.rows {
		p.detection(found[6*i:][:6], label, columns)
	}
	return nil
}

// counts reports whether an object counts.
func (p *precision[T]) counts(label []T, row, columns int) bool {
	return p.difficult || columns == 5 || math.Abs(float64(label[row*columns+1])) < 1e-6
}

// detection compares a detection with the objects of its class in the image.
func (p *precision[T]) detection(d, label []T, columns int) {
	for i, v := range d[2:] {
		p.box[i] = min(max(v, 0), 1)
	}
	best, most := -1, T(-1)
	for k, row := range p.truth {
		object := label[row*columns:][:columns]
		if int(object[0]) != int(d[0]) {
			continue
		}
		if shared := overlap(p.box[:], object[columns-4:], true); shared > most {
			best, most = k, shared
		}
	}
	h := hit[T]{score: d[1], wrong: 1}
	if best >= 0 && most > p.threshold {
		if !p.counts(label, p.truth[best], columns) {
			return
		}
		if !p.taken[best] {
			h.right, h.wrong = 1, 0
		}
		p.taken[best] = true
	}
	p.hits[int(d[0])] = append(p.hits[int(d[0])], h)
}

// mean returns the mean over classes of their average precision.
func (p *precision[T]) mean() T {
	sum, classes := T(0), 0
	for class, objects := range p.objects {
		if objects <= 0 || objects == p.background {
			continue
		}
		classes++
		p.ordered = append(p.ordered[:0], p.hits[class]...)
		slices.SortStableFunc(p.ordered, func(a, b hit[T]) int { return cmp.Compare(b.score, a.score) })
		sum += p.average(objects)
	}
	if classes == 0 {
		return 0
	}
	return sum / T(classes)
}

// average returns the average precision of the ordered detections of a class with so many objects.
func (p *precision[T]) average(objects int32) T {
	var best [11]T // precision from a recall of 0, 0.1, ... 1 on
	area, before := T(0), T(0)
	right, wrong := int32(0), int32(0)
	for _, h := range p.ordered {
		right, wrong = right+h.right, wrong+h.wrong
		share, recall := T(0), T(right)/T(objects)
		if right+wrong > 0 {
			share = T(right) / T(right+wrong)
		}
		if step := T(math.Abs(float64(recall - before))); step > 1e-6 {
			area += share * step
		}
		before = recall
		for j := range best {
			if float64(recall) >= float64(j)/10 {
				best[j] = max(best[j], share)
			}
		}
	}
	if !p.eleven {
		return area
	}
	sum := T(0)
	for j := len(best) - 1; j >= 0; j-- {
		sum += best[j] / 11
	}
	return sum
}
