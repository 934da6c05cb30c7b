package math

import (
	"context"
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	grad := program.GradSuffix
	ids := ops.Slot{Name: "SegmentIds", Doc: "int32 or int64 [N], the row of Out that each row of X is part of, in ascending order from 0"}
	kinds := []ops.Attr{{Name: "pooltype", Doc: "SUM, MEAN, MAX or MIN", Default: "SUM", Check: func(op *program.Op) error {
		if kind, _ := op.Str("pooltype"); !slices.Contains([]string{"SUM", "MEAN", "MAX", "MIN"}, kind) {
			return errors.New("SUM, MEAN, MAX or MIN")
		}
		return nil
	}}}
	ops.Register(ops.Def{
		Type: "segment_pool", Class: ops.Control,
		Doc: "Makes one row of all rows of X with the same number: their sum, mean, largest or smallest elements, and zeros for a number that no row has. The last number, which is known only " +
			"when the op has run, says how many rows Out has.",
		Inputs: []ops.Slot{{Name: "X", Doc: "numbers [N, ...]"}, ids},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the type of X, a row for each number"},
			{Name: "SummedIds", Doc: "of the type of X, [rows of Out, 1]: how many rows of X each has", Intermediate: true, Dispensable: true}},
		Attrs:     kinds,
		MixesRows: opkit.Mixes,
		Infer:     inferSegments,
		Gradient:  ops.StandardGrad([]string{"X", "SegmentIds"}, []string{"Out"}, []string{"X"}),
		Bind:      byElement("X", bindSegments[float32], bindSegments[float64], bindSegments[int32], bindSegments[int64], nil),
	})
	ops.Register(ops.Def{
		Type: "segment_pool_grad", Class: ops.Control,
		Doc: "Gives each row of X the gradient of the row of Out that it is part of: with MEAN divided by their number, with MAX and MIN where the element is that of Out.",
		Inputs: []ops.Slot{{Name: "X", Doc: "of the forward op"}, ids, {Name: "Out", Doc: "of the forward op"},
			{Name: "Out" + grad, Doc: "the gradient of Out"}},
		Outputs:   out("X"+grad, "of the dims of X"),
		Attrs:     kinds,
		MixesRows: opkit.Mixes,
		Infer: func(s *ops.Shapes) error {
			if err := checkSegments(s); err != nil {
				return err
			}
			s.Like("X"+grad, "X")
			if err := dense(s, "Out", "Out"+grad); err != nil {
				return err
			}
			return s.SameType("X", "Out", "Out"+grad)
		},
		Bind: byElement("X", bindSegmentsGrad[float32], bindSegmentsGrad[float64], nil, nil, nil),
	})
}

func checkSegments(s *ops.Shapes) error {
	if err := dense(s, "X", "SegmentIds"); err != nil {
		return err
	}
	x := s.In("X")
	if err := opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	if len(x.Dims) == 0 {
		return s.Errorf("X", "rank 1 or more")
	}
	if !ops.Compatible(s.In("SegmentIds").Dims, x.Dims[:1]) {
		return s.Errorf("SegmentIds", "dims %v, a number for each row of X", x.Dims[:1])
	}
	return isIndex(s, "SegmentIds")
}

func inferSegments(s *ops.Shapes) error {
	if err := checkSegments(s); err != nil {
		return err
	}
	x := s.In("X")
	dims := slices.Clone(x.Dims)
	dims[0] = program.Unknown
	s.Set("Out", x.DType, dims...)
	s.Set("SummedIds", x.DType, program.Unknown, 1)
	return nil
}

// segments are the rows of X with the same number.
type segments struct {
	b     *ops.Binding
	x     *tensor.Tensor
	ids   *tensor.Tensor
	width int // elements of a row, as of the last call of check
}

func segmentsOf(b *ops.Binding) *segments {
	return &segments{b: b, x: b.In("X"), ids: b.In("SegmentIds")}
}

func (g *segments) id(i int) int64 {
	if g.ids.DType() == tensor.Int32 {
		return int64(g.ids.Int32s()[i])
	}
	return g.ids.Int64s()[i]
}

// check looks at all numbers before anything is made of them, and returns how many rows they make.
func (g *segments) check() (rows int64, err error) {
	dims := g.x.Dims()
	if len(dims) == 0 || int64(g.ids.Len()) != dims[0] {
		return 0, fault.E(fault.ShapeMismatch, fault.On(g.b.Op()), fault.Var(g.b.Op().In("SegmentIds")), fault.Gotf("%v", g.ids.Dims()), fault.Wantf("a number for each row of X %v", dims))
	}
	g.width = opkit.Count(dims[1:])
	most, least := int64(max(mostBins, g.x.Len())/max(1, g.width)), int64(0)
	for i := range g.ids.Len() {
		id := g.id(i)
		if id < least || id >= most {
			return 0, fault.E(fault.InvalidArgument, fault.On(g.b.Op()), fault.Var(g.b.Op().In("SegmentIds")), fault.Gotf("%d at element %d", id, i),
				fault.Wantf("numbers in ascending order, here from %d to %d", least, most-1))
		}
		least = id
	}
	if g.ids.Len() > 0 {
		rows = least + 1
	}
	return rows, nil
}

// end returns the row behind the last one that has the number of row from.
func (g *segments) end(from int) int {
	till := from + 1
	for till < g.ids.Len() && g.id(till) == g.id(from) {
		till++
	}
	return till
}

func bindSegments[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	g, to, counts, kind := segmentsOf(b), b.Out("Out"), b.Out("SummedIds"), b.Str("pooltype")
	var dims []int64
	one := []int64{0, 1}
	return func(context.Context) error {
		rows, err := g.check()
		if err != nil {
			return err
		}
		if dims, one[0] = append(dims[:0], g.x.Dims()...), rows; to != nil {
			dims[0] = rows
			if err := tensor.Resize(to, g.x.DType(), dims...); err != nil {
				return err
			}
			tensor.Zero(to)
		}
		if counts != nil {
			if err := tensor.Resize(counts, g.x.DType(), one...); err != nil {
				return err
			}
			tensor.Zero(counts)
		}
		for from := 0; from < g.ids.Len(); {
			at, till := int(g.id(from)), g.end(from)
			if counts != nil {
				tensor.Data[T](counts)[at] = T(till - from)
			}
			if to != nil {
				kernel.PoolRows(tensor.Data[T](to)[at*g.width:(at+1)*g.width], tensor.Data[T](g.x)[from*g.width:till*g.width], kind)
			}
			from = till
		}
		return nil
	}, nil
}

func bindSegmentsGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	g, made, dout, dx, kind := segmentsOf(b), b.In("Out"), b.In("Out"+program.GradSuffix), b.Out("X"+program.GradSuffix), b.Str("pooltype")
	return func(context.Context) error {
		rows, err := g.check()
		if err != nil || dx == nil {
			return err
		}
		if n := int(rows) * g.width; made.Len() != n || dout.Len() != n {
			return fault.E(fault.ShapeMismatch, fault.On(b.Op()), fault.Var(b.Op().In("Out"+program.GradSuffix)), fault.Gotf("Out %v and its gradient %v", made.Dims(), dout.Dims()),
				fault.Wantf("%d rows of %d elements", rows, g.width))
		}
		if err := tensor.Resize(dx, g.x.DType(), g.x.Dims()...); err != nil {
			return err
		}
		tensor.CopyLoD(dx, g.x.LoD())
		for from := 0; from < g.ids.Len(); {
			at, till := int(g.id(from)), g.end(from)
			first, last := at*g.width, (at+1)*g.width
			kernel.PoolRowsGrad(tensor.Data[T](dx)[from*g.width:till*g.width], tensor.Data[T](g.x)[from*g.width:till*g.width], tensor.Data[T](made)[first:last],
				tensor.Data[T](dout)[first:last], kind)
			from = till
		}
		return nil
	}, nil
}
