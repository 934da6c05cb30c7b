package sequence

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "viterbi_decode", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "Finds the tags of sequences that score most in a conditional random field: the sum of Input[n, t, tag] over the steps, and of Transition[tag, next tag] between them. With include_bos_eos_tag " +
			"the last row of Transition is added for the first tag, and the row before it for the last tag. Path is as long as the longest sequence, which only Length tells, and has 0 beyond the ends. Of " +
			"equal scores the first tag counts.",
		Inputs:    []ops.Slot{{Name: "Input", Doc: "float [N, steps, tags]"}, {Name: "Transition", Doc: "of the type of Input [tags, tags]"}, {Name: "Length", Doc: "int64 [N]: the steps of each sequence"}},
		Outputs:   []ops.Slot{{Name: "Scores", Doc: "[N], of the type of Input"}, {Name: "Path", Doc: "int64 [N, longest]"}},
		Attrs:     []ops.Attr{{Name: "include_bos_eos_tag", Doc: "whether two rows of Transition are those of begin and end", Default: true}},
		Infer:     inferViterbi,
		MixesRows: opkit.Mixes,
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			if b.In("Input").DType() == tensor.Float64 {
				return bindViterbi[float64](b)
			}
			return bindViterbi[float32](b)
		},
	})
}

func inferViterbi(s *ops.Shapes) error {
	x := s.In("Input")
	if err := s.IsFloat("Input"); err != nil {
		return err
	}
	if err := s.Rank("Input", 3); err != nil {
		return err
	}
	if err := s.SameType("Input", "Transition"); err != nil {
		return err
	}
	tags := x.Dims[2]
	if !ops.Compatible(s.In("Transition").Dims, []int64{tags, tags}) {
		return s.Errorf("Transition", "dims [%d, %d]", tags, tags)
	}
	if tags == 0 || x.Dims[1] == 0 || s.Bool("include_bos_eos_tag") && tags == 1 {
		return s.Errorf("Input", "steps and tags, two at least with those of begin and end")
	}
	if err := opkit.CheckType(s, "Length", s.In("Length").DType == tensor.Int64, "int64"); err != nil {
		return err
	}
	if !ops.Compatible(s.In("Length").Dims, x.Dims[:1]) {
		return s.Errorf("Length", "dims %v", x.Dims[:1])
	}
	s.Set("Scores", x.DType, x.Dims[0])
	s.Set("Path", tensor.Int64, x.Dims[0], program.Unknown)
	return nil
}

func bindViterbi[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, transition, length, scores, path, ends := b.In("Input"), b.In("Transition"), b.In("Length"), b.Out("Scores"), b.Out("Path"), b.Bool("include_bos_eos_tag")
	var best, next []T // scores of the sequences that end in each tag
	var from []int64   // the tag before, for each step and tag
	var size [2]int64
	return func(context.Context) error {
		n, steps, tags := int(x.Dims()[0]), int(x.Dims()[1]), int(x.Dims()[2])
		if length.Len() != n || transition.Len() != tags*tags || steps == 0 || tags < 2 && ends || tags == 0 {
			return fault.E(fault.ShapeMismatch, fault.On(b.Op()), fault.Gotf("Input %v, Transition %v and Length %v", x.Dims(), transition.Dims(), length.Dims()), fault.Want("[N, steps, tags], [tags, tags] and [N]"))
		}
		longest := int64(0)
		for i, l := range length.Int64s() {
			if l < 0 || l > int64(steps) {
				return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("Length")), fault.Gotf("%d steps of sequence %d", l, i), fault.Wantf("0 to %d", steps))
			}
			longest = max(longest, l)
		}
		if cap(best) < tags || cap(from) < steps*tags {
			best, next, from = make([]T, tags), make([]T, tags), make([]int64, steps*tags)
		}
		best, next, from = best[:tags], next[:tags], from[:steps*tags]
		size = [2]int64{int64(n), longest}
		if scores != nil {
			if err := tensor.Resize(scores, x.DType(), size[:1]...); err != nil {
				return err
			}
		}
		if path != nil {
			if err := tensor.Resize(path, tensor.Int64, size[:]...); err != nil {
				return err
			}
			clear(path.Int64s())
		}
		w := tensor.Data[T](transition)
		for i := range n {
			last := max(int(length.Int64s()[i])-1, 0)
			for t := 0; t <= last; t++ {
				for tag, v := range tensor.Data[T](x)[(i*steps+t)*tags:][:tags] {
					switch {
					case t > 0:
						most, at := best[0]+w[tag], 0
						for k := 1; k < tags; k++ {
							if s := best[k] + w[k*tags+tag]; s > most {
								most, at = s, k
							}
						}
						v += most
						from[t*tags+tag] = int64(at)
					case ends:
						v += w[(tags-1)*tags+tag]
					}
					if ends && t == last && length.Int64s()[i] > 0 {
						v += w[(tags-2)*tags+tag]
					}
					next[tag] = v
				}
				best, next = next, best
			}
			at := 0
			for tag, v := range best {
				if v > best[at] {
					at = tag
				}
			}
			if scores != nil {
				tensor.Data[T](scores)[i] = best[at]
			}
			for t := int(length.Int64s()[i]) - 1; path != nil && t >= 0; t-- {
				path.Int64s()[i*int(longest)+t] = int64(at)
				at = int(from[t*tags+at])
			}
		}
		return nil
	}, nil
}
