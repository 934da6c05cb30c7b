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

// The ops of this file make a message of each edge of a graph: the sum or the product of two rows, which repeat where extents are 1.

func init() {
	message := ops.Attr{Name: "message_op", Doc: "ADD or MUL: what the two rows of an edge become", Default: "ADD", Check: func(op *program.Op) error {
		if kind, _ := op.Str("message_op"); kind != "ADD" && kind != "MUL" {
			return errors.New("ADD or MUL")
		}
		return nil
	}}
	opkit.Register(ops.Def{
		Type: "graph_send_uv",
		Doc:  "Makes a message of the rows at both ends of each edge of a graph: row i of out is the sum or the product of x[src_index[i]] and y[dst_index[i]].",
		Inputs: []ops.Slot{{Name: "x", Doc: "numbers, rank 1 or more"}, {Name: "y", Doc: "of the type of x; its rows have the extents of those of x, or 1"},
			{Name: "src_index", Doc: "int32 or int64 [N], rows of x"}, {Name: "dst_index", Doc: "of the type and dims of src_index, rows of y"}},
		Outputs:   out("out", "of the type of x, N rows"),
		Attrs:     []ops.Attr{message},
		Infer:     inferEdges,
		Cost:      opkit.PerElement(1),
		MixesRows: opkit.Mixes,
		Bind:      opkit.BindNumbers("x", bindEdges[float32], bindEdges[float64], bindEdges[int32], bindEdges[int64]),
	}, opkit.Gradient{
		Doc:    "dx[src_index[i]] and dy[dst_index[i]] are the sums of dout[i], with MUL times the other row.",
		Inputs: []string{"x", "y", "src_index", "dst_index"}, Wrt: []string{"x", "y"}, Cost: opkit.PerElement(3),
		Bind: opkit.BindFloats("x", bindEdgesGrad[float32], bindEdgesGrad[float64]),
	})
	opkit.Register(ops.Def{
		Type: "graph_send_ue_recv",
		Doc: "Sends messages along the edges of a graph: that of edge i is the sum or the product of X[Src_index[i]] and Y[i], and each row of Out is the sum, mean, largest or smallest elements of " +
			"those for which Dst_index[i] is its number, and zeros where nothing is sent.",
		Inputs: []ops.Slot{{Name: "X", Doc: "numbers, rank 1 or more"}, {Name: "Y", Doc: "of the type of X, a row for each edge; its rows have the extents of those of X, or 1"},
			{Name: "Src_index", Doc: "int32 or int64 [N], rows of X"}, {Name: "Dst_index", Doc: "of the type and dims of Src_index, rows of Out"}, tensorOf("Out_size", "out_size")},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the type of X"},
			{Name: "Dst_count", Doc: "int32 [rows of Out], how many messages each was sent", Intermediate: true, Dispensable: true}},
		Attrs:     append([]ops.Attr{message}, sendAttrs...),
		Infer:     inferMessages,
		Cost:      opkit.PerElement(3),
		MixesRows: opkit.Mixes,
		Bind:      opkit.BindNumbers("X", bindMessages[float32], bindMessages[float64], bindMessages[int32], bindMessages[int64]),
	}, opkit.Gradient{
		Doc: "The gradient of a message is dOut[Dst_index[i]]: with MEAN over the number of messages that were sent there, with MAX and MIN where its element is that of Out. dX[Src_index[i]] and dY[i] are " +
			"the sums of it, with MUL times the other row.",
		Inputs: []string{"X", "Y", "Src_index", "Dst_index"}, Wrt: []string{"X", "Y"}, Cost: opkit.PerElement(6),
		Bind: opkit.BindFloats("X", bindMessagesGrad[float32], bindMessagesGrad[float64]),
	})
}

// met returns the extents of what rows of two slots become.
func met(s *ops.Shapes, x, y string) ([]int64, error) {
	if err := s.SameType(x, y); err != nil {
		return nil, err
	}
	left, right := s.In(x).Dims, s.In(y).Dims
	if len(right) == 0 {
		return nil, s.Errorf(y, "rank 1 or more")
	}
	dims, _, _, ok := layOver(left[1:], right[1:], -1)
	if !ok {
		return nil, s.Errorf(y, "rows whose extents are those of %s %v, or 1", x, left)
	}
	return dims, nil
}

func inferEdges(s *ops.Shapes) error {
	if err := areRows(s, "x", "src_index", "dst_index"); err != nil {
		return err
	}
	dims, err := met(s, "x", "y")
	if err != nil {
		return err
	}
	s.Set("out", s.In("x").DType, slices.Concat(s.In("src_index").Dims, dims)...)
	return nil
}

func inferMessages(s *ops.Shapes) error {
	if err := inferSends(s); err != nil {
		return err
	}
	dims, err := met(s, "X", "Y")
	if err != nil {
		return err
	}
	if y := s.In("Y").Dims; !opkit.Agree(y[0], s.In("Src_index").Dims[0]) {
		return s.Errorf("Y", "a row for each edge of Src_index %v", s.In("Src_index").Dims)
	}
	dims = slices.Concat(s.Outs("Out")[0].Dims[:1], dims)
	if _, ok := tensor.Count(dims); !ok && !slices.Contains(dims, program.Unknown) {
		return opkit.BadAttr(s, "out_size", "a number of rows of %v that fit into memory", dims[1:])
	}
	s.Set("Out", s.In("X").DType, dims...)
	return nil
}

// A meeting is how rows of two tensors meet, which its loop plans.
type meeting struct {
	kernel.Meeting
	dims, left, right []int64
	columns           *tensor.Tensor
	xWidth, yWidth    int
}

func meetingOf(b *ops.Binding, x, y *tensor.Tensor) *meeting {
	m := &meeting{xWidth: opkit.Count(x.Dims()[1:]), yWidth: opkit.Count(y.Dims()[1:])}
	m.dims, m.left, m.right, _ = layOver(x.Dims()[1:], y.Dims()[1:], -1)
	m.columns, m.Product = b.Scratch(tensor.Int64, 2*opkit.Count(m.dims)), b.Str("message_op") == "MUL"
	return m
}

func (m *meeting) width() int { return m.columns.Len() / 2 }

// plan is the loop before those that use the columns.
func (m *meeting) plan() ops.Loop {
	return ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		m.X, m.Y = m.columns.Int64s()[:m.width()], m.columns.Int64s()[m.width():]
		showColumns(m.X, m.dims, m.left)
		showColumns(m.Y, m.dims, m.right)
		return nil
	}}
}

// showColumns says of each element of dims which one of own it repeats.
func showColumns(columns []int64, dims, own []int64) {
	for i := range columns {
		rest, at, stride := int64(i), int64(0), int64(1)
		for axis := len(dims) - 1; axis >= 0; axis-- {
			if own[axis] > 1 {
				at += rest % dims[axis] * stride
			}
			stride *= own[axis]
			rest /= dims[axis]
		}
		columns[i] = at
	}
}

// edge returns the rows at both ends of an edge.
func edge(b *ops.Binding, i int) (from, to int, err error) {
	src, dst := wholeAt(b.In("src_index"), i), wholeAt(b.In("dst_index"), i)
	if x, y := b.In("x").Dims()[0], b.In("y").Dims()[0]; src < 0 || src >= x || dst < 0 || dst >= y {
		return 0, 0, fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("src_index")), fault.Gotf("edge %d from row %d to row %d", i, src, dst),
			fault.Wantf("rows 0 to %d of x and 0 to %d of y", x-1, y-1))
	}
	return int(src), int(dst), nil
}

func bindEdges[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, y, to := b.In("x"), b.In("y"), b.Out("out")
	m := meetingOf(b, x, y)
	width := m.width()
	return b.Loops(m.plan(), ops.Loop{N: b.In("src_index").Len(), Apart: true, Run: func(_, from, till int) error {
		for i := from; i < till; i++ {
			src, dst, err := edge(b, i)
			if err != nil {
				return err
			}
			kernel.Meet(tensor.Data[T](to)[i*width:], tensor.Data[T](x)[src*m.xWidth:][:m.xWidth], tensor.Data[T](y)[dst*m.yWidth:][:m.yWidth], m.Meeting, 0, width)
		}
		return nil
	}})
}

func bindEdgesGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, dout, dx, dy := b.In("x"), b.In("y"), b.In("out@GRAD"), b.Out("x@GRAD"), b.Out("y@GRAD")
	m := meetingOf(b, x, y)
	width := m.width()
	return b.Loops(m.plan(), ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		clear(opkit.Data[T](dx))
		clear(opkit.Data[T](dy))
		for i := range b.In("src_index").Len() {
			src, dst, err := edge(b, i)
			if err != nil {
				return err
			}
			kernel.MeetGrad(kernel.RowAt(opkit.Data[T](dx), src, m.xWidth), kernel.RowAt(opkit.Data[T](dy), dst, m.yWidth), kernel.RowAt(tensor.Data[T](x), src, m.xWidth),
				kernel.RowAt(tensor.Data[T](y), dst, m.yWidth), tensor.Data[T](dout)[i*width:][:width], m.Meeting)
		}
		return nil
	}})
}

// sendMessages makes columns of what is sent.
func sendMessages[T kernel.Number](g *sending, m *meeting, to, y *tensor.Tensor, room []T, from, till int) {
	if g.src.DType() == tensor.Int32 {
		kernel.SendMessages(tensor.Data[T](to), tensor.Data[T](g.x), tensor.Data[T](y), room, sendsOf[int32](g), m.Meeting, g.kind, m.xWidth, m.yWidth, from, till)
	} else {
		kernel.SendMessages(tensor.Data[T](to), tensor.Data[T](g.x), tensor.Data[T](y), room, sendsOf[int64](g), m.Meeting, g.kind, m.xWidth, m.yWidth, from, till)
	}
}

func bindMessages[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
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
		m, y := meetingOf(b, g.x, b.In("Y")), b.In("Y")
		room := b.Scratch(tensor.Of[T](), b.Parts()*m.width())
		loops = append(loops, m.plan(), ops.Loop{N: m.width(), Apart: true, Writes: []string{"Out"}, Run: func(part, from, till int) error {
			sendMessages(g, m, to, y, ops.Part(tensor.Data[T](room), part, m.width()), from, till)
			return nil
		}})
	}
	return b.Loops(loops...)
}

func bindMessagesGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx, dy, y := b.In("Out@GRAD"), b.Out("X@GRAD"), b.Out("Y@GRAD"), b.In("Y")
	g := sendingOf(b, int(dout.Dims()[0]))
	m := meetingOf(b, g.x, y)
	room := b.Scratch(tensor.Of[T](), 2*m.width())
	sent := dout // MAX and MIN compare with what was sent
	if g.kind == "MAX" || g.kind == "MIN" {
		sent = b.Scratch(tensor.Of[T](), dout.Len())
	}
	return b.Loops(g.count(nil), m.plan(), ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		rows := tensor.Data[T](room)
		if sent != dout {
			sendMessages(g, m, sent, y, rows, 0, m.width())
		}
		x, messages := tensor.Data[T](g.x), tensor.Data[T](sent)
		if g.src.DType() == tensor.Int32 {
			kernel.SendMessagesGrad(opkit.Data[T](dx), opkit.Data[T](dy), x, tensor.Data[T](y), messages, tensor.Data[T](dout), rows, sendsOf[int32](g), m.Meeting, g.kind, m.xWidth, m.yWidth)
		} else {
			kernel.SendMessagesGrad(opkit.Data[T](dx), opkit.Data[T](dy), x, tensor.Data[T](y), messages, tensor.Data[T](dout), rows, sendsOf[int64](g), m.Meeting, g.kind, m.xWidth, m.yWidth)
		}
		return nil
	}})
}
