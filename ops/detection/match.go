package detection

import (
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "bipartite_match",
		Doc: "Gives each object of an image a box of its own: takes the largest number of DistMat, whose row and column are a match, and goes on without them. With match_type " +
			"per_prediction a column without match then gets the row of its largest number, if that is at least dist_threshold.",
		Inputs: []ops.Slot{{Name: "DistMat", Doc: "float [rows, M]: the similarity of objects, those of an image a sequence, and boxes; without LoD those of one image"}},
		Outputs: []ops.Slot{{Name: "ColToRowMatchIndices", Doc: "int32 [N, M]: the object of each box, counted within its image, or -1"},
			{Name: "ColToRowMatchDist", Doc: "[N, M]: the similarity of each match, 0 for none"}},
		Attrs: []ops.Attr{
			{Name: "match_type", Doc: "bipartite or per_prediction", Default: "bipartite", Check: func(op *program.Op) error {
				if kind, _ := op.Str("match_type"); kind == "bipartite" || kind == "per_prediction" {
					return nil
				}
				return errors.New("bipartite or per_prediction")
			}},
			{Name: "dist_threshold", Doc: "the least similarity of a second match", Default: float32(0.5)}},
		Infer: func(s *ops.Shapes) error {
			if err := s.IsFloat("DistMat"); err != nil {
				return err
			}
			if err := s.Rank("DistMat", 2); err != nil {
				return err
			}
			m, images := s.In("DistMat"), int64(1)
			if m.LoDLevel > 0 {
				images, _ = s.CountSequences("DistMat")
			}
			s.Set("ColToRowMatchIndices", tensor.Int32, images, m.Dims[1])
			s.Set("ColToRowMatchDist", m.DType, images, m.Dims[1])
			return nil
		},
		Bind:      opkit.BindFloats("DistMat", bindMatch[float32], bindMatch[float64]),
		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool { return s.In("DistMat").LoDLevel == 0 },
	})

	ops.Register(ops.Def{
		Type: "target_assign",
		Doc: "Takes what each box should become: Out[i, j] is row MatchIndices[i, j] of the rows of X of image i, with weight 1, and mismatch_value with weight 0 where the index is " +
			"-1. Boxes that NegIndices names get mismatch_value with weight 1.",
		Inputs: []ops.Slot{{Name: "X", Doc: "[rows, P, K], those of an image a sequence; P is 1 or the number of boxes"},
			{Name: "MatchIndices", Doc: "int32 [N, M]: a row of each image for each box, or -1"},
			{Name: "NegIndices", Doc: "int32 [rows, 1]: boxes of each image, a sequence", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[N, M, K]"}, {Name: "OutWeight", Doc: "float32 [N, M, 1]"}},
		Attrs:   []ops.Attr{{Name: "mismatch_value", Doc: "of boxes without match", Default: int32(0)}},
		Infer:   inferTargetAssign,
		Bind:    opkit.BindNumbers("X", bindTarget[float32], bindTarget[float64], bindTarget[int32], bindTarget[int64]),
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return !divided("X") || !divided("MatchIndices") || s.Has("NegIndices") && !divided("NegIndices")
		},
	})
}

func bindMatch[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dist, indices, similarities := b.In("DistMat"), b.Out("ColToRowMatchIndices"), b.Out("ColToRowMatchDist")
	made := indices
	if made == nil {
		made = similarities
	}
	images, boxes := int(made.Dims()[0]), int(made.Dims()[1])
	if indices == nil {
		indices = b.Scratch(tensor.Int32, images*boxes)
	}
	if similarities == nil {
		similarities = b.Scratch(dist.DType(), images*boxes)
	}
	rows := int(dist.Dims()[0])
	taken := b.Scratch(tensor.Bool, rows)
	second, threshold := b.Str("match_type") == "per_prediction", T(b.Float("dist_threshold"))
	return b.Loops(ops.Loop{N: images, Apart: true, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			first, end := 0, rows
			if len(dist.LoD()) > 0 {
				offsets, err := offsetsOf(b, "DistMat", images)
				if err != nil {
					return err
				}
				first, end = int(offsets[i]), int(offsets[i+1])
			}
			match(tensor.Data[T](dist)[first*boxes:end*boxes], taken.Bools()[first:end], indices.Int32s()[i*boxes:][:boxes], tensor.Data[T](similarities)[i*boxes:][:boxes],
				second, threshold)
		}
		return nil
	}})
}

// match matches the objects of one image. taken has a place for each object.
func match[T tensor.Float](dist []T, taken []bool, indices []int32, similarities []T, second bool, threshold T) {
	boxes := len(indices)
	for j := range indices {
		indices[j], similarities[j] = -1, 0
	}
	clear(taken)
	for range taken {
		best := -1
		for k, v := range dist {
			if !taken[k/boxes] && indices[k%boxes] < 0 && v > 0 && (best < 0 || v > dist[best]) {
				best = k
			}
		}
		if best < 0 {
			break
		}
		taken[best/boxes] = true
		indices[best%boxes], similarities[best%boxes] = int32(best/boxes), dist[best]
	}
	if !second {
		return
	}
	for j := range indices {
		if indices[j] >= 0 {
			continue
		}
		for i := range taken {
			if v := dist[i*boxes+j]; v >= threshold && v > similarities[j] {
				indices[j], similarities[j] = int32(i), v
			}
		}
	}
}

func inferTargetAssign(s *ops.Shapes) error {
	x, indices := s.In("X"), s.In("MatchIndices")
	if err := s.Rank("X", 3); err != nil {
		return err
	}
	if err := opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	if err := opkit.CheckType(s, "MatchIndices", indices.DType == tensor.Int32, "int32"); err != nil {
		return err
	}
	if err := s.Rank("MatchIndices", 2); err != nil {
		return err
	}
	images, err := s.CountSequences("X")
	if err != nil {
		return err
	}
	if !opkit.Agree(images, indices.Dims[0]) {
		return s.Errorf("MatchIndices", "%d rows, one for each sequence of X", images)
	}
	if x.Dims[1] != 1 && !opkit.Agree(x.Dims[1], indices.Dims[1]) {
		return s.Errorf("X", "1 or %d on axis 1, the number of boxes", indices.Dims[1])
	}
	if s.Has("NegIndices") {
		if err := opkit.CheckType(s, "NegIndices", s.In("NegIndices").DType == tensor.Int32, "int32"); err != nil {
			return err
		}
		if n, err := s.CountSequences("NegIndices"); err != nil {
			return err
		} else if !opkit.Agree(n, indices.Dims[0]) {
			return s.Errorf("NegIndices", "%d sequences, one for each image", indices.Dims[0])
		}
		if dims := s.In("NegIndices").Dims; len(dims) < 1 || !opkit.Agree(ops.Product(dims[1:]), 1) {
			return s.Errorf("NegIndices", "one column")
		}
	}
	s.Set("Out", x.DType, indices.Dims[0], indices.Dims[1], x.Dims[2])
	s.Set("OutWeight", tensor.Float32, indices.Dims[0], indices.Dims[1], 1)
	return nil
}

func bindTarget[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, indices, negative, out, weight := b.In("X"), b.In("MatchIndices"), b.In("NegIndices"), b.Out("Out"), b.Out("OutWeight")
	images, boxes := int(indices.Dims()[0]), int(indices.Dims()[1])
	perRow, width := int(x.Dims()[1]), int(x.Dims()[2])
	mismatch := T(b.Int("mismatch_value"))
	set := func(at int, from []T, w float32) {
		if out != nil {
			to := tensor.Data[T](out)[at*width:][:width]
			for k := range to {
				if to[k] = mismatch; from != nil {
					to[k] = from[k]
				}
			}
		}
		if weight != nil {
			weight.Float32s()[at] = w
		}
	}
	return b.Loops(ops.Loop{N: images, Apart: true, Run: func(_, from, to int) error {
		offsets, err := offsetsOf(b, "X", images)
		if err != nil {
			return err
		}
		var within []int64
		if negative != nil {
			if within, err = offsetsOf(b, "NegIndices", images); err != nil {
				return err
			}
		}
		for i := from; i < to; i++ {
			for j := range boxes {
				at := i*boxes + j
				row := int64(indices.Int32s()[at])
				if row < 0 {
					set(at, nil, 0)
					continue
				}
				if row >= offsets[i+1]-offsets[i] {
					return badIndex(b, "MatchIndices", row, offsets[i+1]-offsets[i])
				}
				set(at, tensor.Data[T](x)[((int(offsets[i]+row))*perRow+j%perRow)*width:][:width], 1)
			}
			if negative == nil {
				continue
			}
			for _, j := range negative.Int32s()[within[i]:within[i+1]] {
				if j < 0 || int(j) >= boxes {
					return badIndex(b, "NegIndices", int64(j), int64(boxes))
				}
				set(i*boxes+int(j), nil, 1)
			}
		}
		return nil
	}})
}

// badIndex is the error of an index from outside that names nothing.
func badIndex(b *ops.Binding, slot string, index, count int64) error {
	return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In(slot)), fault.Gotf("index %d", index), fault.Wantf("less than %d", count))
}
