package math

import (
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// sendAttrs are what ops have that send rows to rows.
var sendAttrs = []ops.Attr{{Name: "reduce_op", Doc: "SUM, MEAN, MAX or MIN", Default: "SUM", Check: func(op *program.Op) error {
	if kind, _ := op.Str("reduce_op"); !slices.Contains([]string{"SUM", "MEAN", "MAX", "MIN"}, kind) {
		return errors.New("SUM, MEAN, MAX or MIN")
	}
	return nil
}}, {Name: "out_size", Doc: "one number, the rows of Out; 0 and less: as many as X", Default: []int64{0}, Tensor: "Out_size"}}

func init() {
	opkit.Register(ops.Def{
		Type: "graph_send_recv",
		Doc: "Sends rows of X along the edges of a graph: each row of Out is the sum, mean, largest or smallest elements of the rows X[Src_index[i]] for which Dst_index[i] is its number, and zeros where " +
			"nothing is sent.",
		Inputs: []ops.Slot{{Name: "X", Doc: "numbers, rank 1 or more"}, {Name: "Src_index", Doc: "int32 or int64 [N], rows of X"},
			{Name: "Dst_index", Doc: "of the type and dims of Src_index, rows of Out"}, tensorOf("Out_size", "out_size")},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the type of X"},
			{Name: "Dst_count", Doc: "int32 [rows of Out], how many rows each was sent", Intermediate: true, Dispensable: true}},
		Attrs:     sendAttrs,
		Infer:     inferSends,
		Cost:      opkit.PerElement(2),
		MixesRows: opkit.Mixes,
		Bind:      opkit.BindNumbers("X", bindSends[float32], bindSends[float64], bindSends[int32], bindSends[int64]),
	}, opkit.Gradient{
		Doc:    "dX[Src_index[i]] is the sum of dOut[Dst_index[i]]: with MEAN over the number of rows that were sent there, with MAX and MIN where the element is that of Out.",
		Inputs: []string{"X", "Src_index", "Dst_index"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(3),
		Bind:   opkit.BindFloats("X", bindSendsGrad[float32], bindSendsGrad[float64]),
	})
}

// areRows checks that a slot has rows of numbers, and that two others have a number for each edge.
func areRows(s *ops.Shapes, x, src, dst string) error {
	if err := opkit.CheckType(s, x, s.In(x).DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	if len(s.In(x).Dims) == 0 {
		return s.Errorf(x, "rank 1 or more")
	}
	if err := isIndex(s, src); err != nil {
		return err
	}
	if err := s.Rank(src, 1); err != nil {
		return err
	}
	return opkit.SameShape(s, src, dst)
}

func inferSends(s *ops.Shapes) error {
	x := s.In("X")
	if err := areRows(s, "X", "Src_index", "Dst_index"); err != nil {
		return err
	}
	size := s.Ints("out_size")
	if len(size) != 1 {
		return opkit.BadAttr(s, "out_size", "one number")
	}
	dims := slices.Clone(x.Dims)
	switch {
	case size[0] == ops.Open:
		dims[0] = program.Unknown
	case size[0] > 0:
		dims[0] = size[0]
	}
	if _, ok := tensor.Count(dims); !ok && !slices.Contains(dims, program.Unknown) {
		return opkit.BadAttr(s, "out_size", "a number of rows of X %v that fit into memory", x.Dims)
	}
	s.Set("Out", x.DType, dims...)
	s.Set("Dst_count", tensor.Int32, dims[0])
	return nil
}

// sending is what the loops of both ops share.
type sending struct {
	b             *ops.Binding
	x, src, dst   *tensor.Tensor
	first, counts *tensor.Tensor
	kind          string
	width         int
}

// sendingOf is the sending to a tensor of so many rows.
func sendingOf(b *ops.Binding, rows int) *sending {
	g := &sending{b: b, x: b.In("X"), src: b.In("Src_index"), dst: b.In("Dst_index"), kind: b.Str("reduce_op")}
	g.width, g.first, g.counts = opkit.Count(g.x.Dims()[1:]), b.Scratch(tensor.Int32, g.src.Len()), b.Scratch(tensor.Int32, rows)
	return g
}

func sendsOf[I int32 | int64](g *sending) kernel.Sends[I] {
	return kernel.Sends[I]{Src: tensor.Data[I](g.src), Dst: tensor.Data[I](g.dst), First: g.first.Int32s(), Counts: g.counts.Int32s()}
}

// count is the loop before those that use the edges. It looks at all of them, and counts them into to unless that is nil.
func (g *sending) count(to *tensor.Tensor) ops.Loop {
	return ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		rows, bad := int(g.x.Dims()[0]), -1
		if g.src.DType() == tensor.Int32 {
			bad = sendsOf[int32](g).Count(rows)
		} else {
			bad = sendsOf[int64](g).Count(rows)
		}
		if bad >= 0 {
			op := g.b.Op()
			return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("Src_index")), fault.Gotf("edge %d from row %d to row %d", bad, wholeAt(g.src, bad), wholeAt(g.dst, bad)),
				fault.Wantf("rows 0 to %d of X and 0 to %d of Out", rows-1, g.counts.Len()-1))
		}
		if to != nil {
			copy(to.Int32s(), g.counts.Int32s())
		}
		return nil
	}}
}

// wholeAt returns an element of whole numbers.
func wholeAt(t *tensor.Tensor, i int) int64 {
	if t.DType() == tensor.Int32 {
		return int64(t.Int32s()[i])
	}
	return t.Int64s()[i]
}

// send makes columns of what is sent.
func send[T kernel.Number](g *sending, to *tensor.Tensor, from, till int) {
	if g.src.DType() == tensor.Int32 {
		kernel.SendRows(tensor.Data[T](to), tensor.Data[T](g.x), sendsOf[int32](g), g.kind, g.width, from, till)
	} else {
		kernel.SendRows(tensor.Data[T](to), tensor.Data[T](g.x), sendsOf[int64](g), g.kind, g.width, from, till)
	}
}

func bindSends[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	to, counts := b.Out("Out"), b.Out("Dst_count")
	if to == nil && counts == nil {
		return b.Loops()
	}
	sized := counts
	if to != nil {
		sized = to
	}
	g := sendingOf(b, int(sized.Dims()[0]))
	loops := []ops.Loop{g.count(counts)}
	if to != nil {
		loops = append(loops, ops.Loop{N: g.width, Apart: true, Writes: []string{"Out"}, Run: func(_, from, till int) error {
			send[T](g, to, from, till)
			return nil
		}})
	}
	return b.Loops(loops...)
}

func bindSendsGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx := b.In("Out"+program.GradSuffix), b.Out("X"+program.GradSuffix)
	g := sendingOf(b, int(dout.Dims()[0]))
	sent := dout // MAX and MIN compare with what was sent
	if g.kind == "MAX" || g.kind == "MIN" {
		sent = b.Scratch(tensor.Of[T](), dout.Len())
	}
	return b.Loops(g.count(nil), ops.Loop{N: g.width, Apart: true, Run: func(_, from, till int) error {
		if sent != dout {
			send[T](g, sent, from, till)
		}
		if g.src.DType() == tensor.Int32 {
			kernel.SendRowsGrad(tensor.Data[T](dx), tensor.Data[T](g.x), tensor.Data[T](sent), tensor.Data[T](dout), sendsOf[int32](g), g.kind, g.width, from, till)
		} else {
			kernel.SendRowsGrad(tensor.Data[T](dx), tensor.Data[T](g.x), tensor.Data[T](sent), tensor.Data[T](dout), sendsOf[int64](g), g.kind, g.width, from, till)
		}
		return nil
	}})
}
