package sequence

import (
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "sequence_conv",
		Doc: "Convolves sequences along their rows: Out of row t is the product of rows t+contextStart to t+contextStart+contextLength-1 of its sequence, one " +
			"beside the other, with Filter. Rows beyond the ends of the sequence are zeros, or with paddingTrainable rows of PaddingData.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [rows, D], sequences of one LoD level"},
			{Name: "PaddingData", Doc: "[before+after, D], the rows before and after each sequence: before is -contextStart, after is " +
				"contextStart+contextLength-1, neither below 0; with paddingTrainable", Dispensable: true},
			{Name: "Filter", Doc: "[contextLength*D, M]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[rows, M], sequences as in X"}},
		Attrs: []ops.Attr{
			{Name: "contextLength", Doc: "how many rows a window has, at least 1", Kind: int32(0), Check: func(op *program.Op) error {
				if n, _ := op.Int("contextLength"); n < 1 {
					return fault.New(fault.InvalidArgument, "at least 1")
				}
				return nil
			}},
			{Name: "contextStart", Doc: "where the window of a row begins, counted from the row", Default: int32(0)},
			{Name: "contextStride", Doc: "1: a window for each row", Default: int32(1), Check: func(op *program.Op) error {
				if n, ok := op.Int("contextStride"); ok && n != 1 {
					return fault.New(fault.Unsupported, "1, as in Fluid")
				}
				return nil
			}},
			{Name: "paddingTrainable", Doc: "whether rows beyond the ends are those of PaddingData", Default: false}},
		Infer:     inferSequenceConv,
		Cost:      sequenceConvCost(2),
		MixesRows: opkit.RowsOnlyIn("X"),
		Bind:      opkit.BindFloats("X", bindSequenceConv[float32], bindSequenceConv[float64]),
	}, opkit.Gradient{
		Doc:    "dX is the convolution of dOut with the filter turned around; dFilter is the sum over rows of transpose(window)*dOut.",
		Inputs: []string{"X", "PaddingData", "Filter"},
		Wrt:    []string{"X", "PaddingData", "Filter"},
		Cost:   sequenceConvCost(4),
		Bind:   opkit.BindFloats("X", bindSequenceConvGrad[float32], bindSequenceConvGrad[float64]),
	})
}

// padding returns how many rows of a window may lie before and after a sequence.
func padding(start, length int64) (before, after int64) {
	return max(0, -start), max(0, start+length-1)
}

func inferSequenceConv(s *ops.Shapes) error {
	for _, slot := range []string{"X", "Filter"} {
		if err := s.Rank(slot, 2); err != nil {
			return err
		}
	}
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "PaddingData", "Filter"); err != nil {
		return err
	}
	if _, err := s.CountSequences("X"); err != nil {
		return err
	}
	x, filter, length, start := s.In("X"), s.In("Filter"), s.Int("contextLength"), s.Int("contextStart")
	if x.LoDLevel != 1 {
		return s.Errorf("X", "one LoD level, not %d", x.LoDLevel)
	}
	if x.Dims[1] > math.MaxInt32 || filter.Dims[1] > math.MaxInt32 {
		return s.Errorf("Filter", "fewer columns")
	}
	if !opkit.Agree(filter.Dims[0], times(length, x.Dims[1])) || filter.Dims[0] == 0 || filter.Dims[1] == 0 {
		return s.Errorf("Filter", "dims [%d*%d, M], none of which is 0", length, x.Dims[1])
	}
	if s.Has("PaddingData") {
		if !s.Bool("paddingTrainable") {
			return s.Errorf("PaddingData", "none without paddingTrainable")
		}
		before, after := padding(start, length)
		if !ops.Compatible(s.In("PaddingData").Dims, []int64{before + after, x.Dims[1]}) {
			return s.Errorf("PaddingData", "dims [%d+%d, %d]", before, after, x.Dims[1])
		}
	} else if s.Bool("paddingTrainable") {
		return opkit.BadAttr(s, "paddingTrainable", "false without PaddingData")
	}
	s.Set("Out", x.DType, x.Dims[0], filter.Dims[1])
	s.ShareLoD("Out", "X")
	return nil
}

func sequenceConvCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		return ops.Cost{Flops: flops * opkit.Size([]int64{s.In("X").Dims[0], opkit.Size(s.In("Filter").Dims)}), Bytes: opkit.Bytes(s)}
	}
}

// windowRows is how many windows are gathered at a time, so that they stay in cache for the product.
const windowRows = 32

// A windows multiplies the windows of sequences with a packed matrix.
type windows[T tensor.Float] struct {
	batch
	width         int // of a row of X
	columns       int // of the matrix
	length, start int
	padding       *tensor.Tensor // rows beyond the ends; nil for zeros
	before        int            // how many of them lie before a sequence

	packed, work *tensor.Tensor
	each         int // elements of work that a part has
}

func newWindows[T tensor.Float](b *ops.Binding, x batch, width, columns int, length, start int64) (*windows[T], error) {
	depth, ok := tensor.Count([]int64{length, int64(width)})
	total, fits := tensor.Count([]int64{length, int64(width), int64(columns)})
	if !ok || !fits {
		return nil, fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Gotf("contextLength %d", length), fault.Want("a window that memory holds"))
	}
	w := &windows[T]{batch: x, width: width, columns: columns, length: int(length), start: int(start),
		each: windowRows*depth + kernel.GemmPackedWorkspace(windowRows, columns, depth)}
	w.packed, w.work = b.Scratch(tensor.Of[T](), total), b.Scratch(tensor.Of[T](), b.Parts()*w.each)
	return w, nil
}

// multiply computes the products for sequences [from, to).
func (w *windows[T]) multiply(out []T, part, from, to int) error {
	offsets, err := w.offsets()
	if err != nil {
		return err
	}
	depth, work := w.length*w.width, ops.Part(tensor.Data[T](w.work), part, w.each)
	gathered, work := work[:windowRows*depth], work[windowRows*depth:]
	for i := from; i < to; i++ {
		first, end := int(offsets[i]), int(offsets[i+1])
		for at := first; at < end; at += windowRows {
			n := min(windowRows, end-at)
			for r := range n {
				w.gather(row(gathered, r, depth), at+r, first, end)
			}
			kernel.GemmPacked(n, w.columns, depth, 1, gathered, depth, tensor.Data[T](w.packed), 0, out[at*w.columns:], w.columns, work)
		}
	}
	return nil
}

// gather copies the window of row t of the sequence [first, end).
func (w *windows[T]) gather(window []T, t, first, end int) {
	x := tensor.Data[T](w.value)
	for j := range w.length {
		to, from := row(window, j, w.width), t+w.start+j
		switch {
		case from >= first && from < end:
			copy(to, row(x, from, w.width))
		case w.padding == nil:
			clear(to)
		default:
			copy(to, row(tensor.Data[T](w.padding), w.beyond(from, first, end), w.width))
		}
	}
}

// beyond returns the row of PaddingData that stands for a row beyond the ends of the sequence [first, end), and -1 for a row within.
func (w *windows[T]) beyond(t, first, end int) int {
	switch {
	case t < first:
		return w.before + t - first
	case t >= end:
		return w.before + t - end
	}
	return -1
}

// leastConvSequences is how many sequences are worth a goroutine.
const leastConvSequences = 1

func bindSequenceConv[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	filter, out := b.In("Filter"), b.Out("Out")
	w, err := filterWindows[T](b)
	if err != nil {
		return nil, err
	}
	pack := ops.Loop{N: 1, Reads: []string{"Filter"}, Writes: []string{}, Apart: true, Run: func(int, int, int) error {
		kernel.PackGemm(false, w.columns, w.length*w.width, tensor.Data[T](filter), w.columns, tensor.Data[T](w.packed))
		return nil
	}}
	return b.Loops(pack, ops.Loop{N: w.n, Least: leastConvSequences, Whole: []string{"Filter", "PaddingData"}, Apart: true, Run: func(part, from, to int) error {
		return w.multiply(tensor.Data[T](out), part, from, to)
	}})
}

// filterWindows returns the windows of X.
func filterWindows[T tensor.Float](b *ops.Binding) (*windows[T], error) {
	x, start, length := batchIn(b, "X"), b.Int("contextStart"), b.Int("contextLength")
	w, err := newWindows[T](b, x, int(x.value.Dims()[1]), int(b.In("Filter").Dims()[1]), length, start)
	if err != nil {
		return nil, err
	}
	before, _ := padding(start, length)
	w.padding, w.before = b.In("PaddingData"), int(before)
	return w, nil
}

// A convGrad is a bound sequence_conv_grad.
type convGrad[T tensor.Float] struct {
	forward       *windows[T] // of X, whose rows dFilter multiplies
	back          *windows[T] // of dOut; nil if nobody wants dX
	filter        *tensor.Tensor
	turned        *tensor.Tensor // the filter of back
	dout          *tensor.Tensor
	dfilter, dpad *tensor.Tensor
	work          *tensor.Tensor
	each          int
}

func bindSequenceConvGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	forward, err := filterWindows[T](b)
	if err != nil {
		return nil, err
	}
	g := &convGrad[T]{forward: forward, filter: b.In("Filter"), dout: b.In("Out@GRAD"), dfilter: b.Out("Filter@GRAD"), dpad: b.Out("PaddingData@GRAD")}
	rows := int(forward.value.Dims()[0])
	loops := make([]ops.Loop, 0, 4)
	if dx := b.Out("X@GRAD"); dx != nil {
		length, start := int64(forward.length), int64(forward.start)
		source := forward.batch
		source.value = g.dout
		if g.back, err = newWindows[T](b, source, forward.columns, forward.width, length, 1-start-length); err != nil {
			return nil, err
		}
		g.turned = b.Scratch(tensor.Of[T](), g.filter.Len())
		loops = append(loops, ops.Loop{N: 1, Reads: []string{"Filter"}, Writes: []string{}, Apart: true, Run: g.turn},
			ops.Loop{N: forward.n, Least: leastConvSequences, Whole: []string{"Filter"}, Writes: []string{"X@GRAD"}, Apart: true,
				Run: func(part, from, to int) error { return g.back.multiply(tensor.Data[T](dx), part, from, to) }})
	}
	g.each = max(kernel.GemmWorkspace(forward.width, forward.columns, rows), kernel.GemmWorkspace(1, forward.width, forward.columns))
	g.work = b.Scratch(tensor.Of[T](), b.Parts()*g.each)
	if g.dfilter != nil {
		loops = append(loops, ops.Loop{N: forward.length, Writes: []string{"Filter@GRAD"}, Apart: true, Run: g.filters})
	}
	if g.dpad != nil {
		loops = append(loops, ops.Loop{N: 1, Writes: []string{"PaddingData@GRAD"}, Apart: true, Run: g.pad})
	}
	return b.Loops(loops...)
}

// turn packs the filter of back: for each place in the window, the last first, the transpose of its rows of Filter.
func (g *convGrad[T]) turn(int, int, int) error {
	f := g.forward
	filter, turned := tensor.Data[T](g.filter), tensor.Data[T](g.turned)
	for j := range f.length {
		to, from := turned[j*f.columns*f.width:], filter[(f.length-1-j)*f.width*f.columns:]
		for d := range f.width {
			for m, v := range row(from, d, f.columns) {
				to[m*f.width+d] = v
			}
		}
	}
	kernel.PackGemm(false, f.width, f.length*f.columns, turned, f.width, tensor.Data[T](g.back.packed))
	return nil
}

// filters computes the gradient of places [from, to) of the window: sequence by sequence, the rows of X in this place times those of dOut.
func (g *convGrad[T]) filters(part, from, to int) error {
	f := g.forward
	offsets, err := f.offsets()
	if err != nil {
		return err
	}
	work, each := ops.Part(tensor.Data[T](g.work), part, g.each), f.width*f.columns
	x, dout := tensor.Data[T](f.value), tensor.Data[T](g.dout)
	for j := from; j < to; j++ {
		sum, shift := row(tensor.Data[T](g.dfilter), j, each), f.start+j
		clear(sum)
		for i := range f.n {
			first, end := int(offsets[i]), int(offsets[i+1])
			begin, stop := max(first, first-shift), min(end, end-shift)
			if begin < stop {
				kernel.Gemm(true, false, f.width, f.columns, stop-begin, 1, x[(begin+shift)*f.width:], f.width, dout[begin*f.columns:], f.columns, 1, sum,
					f.columns, work)
			}
			if f.padding != nil {
				g.padded(sum, j, first, end, work)
			}
		}
	}
	return nil
}

// padded adds what the rows of PaddingData in place j of the windows of the sequence [first, end) give to dFilter.
func (g *convGrad[T]) padded(sum []T, j, first, end int, work []T) {
	f := g.forward
	for t := first; t < end; t++ {
		if at := f.beyond(t+f.start+j, first, end); at >= 0 {
			kernel.Gemm(true, false, f.width, f.columns, 1, 1, row(tensor.Data[T](f.padding), at, f.width), f.width,
				row(tensor.Data[T](g.dout), t, f.columns), f.columns, 1, sum, f.columns, work)
		}
	}
}

// pad computes the gradient of PaddingData.
func (g *convGrad[T]) pad(part, _, _ int) error {
	f := g.forward
	offsets, err := f.offsets()
	if err != nil {
		return err
	}
	dpad, work := tensor.Data[T](g.dpad), ops.Part(tensor.Data[T](g.work), part, g.each)
	clear(dpad)
	for i := range f.n {
		first, end := int(offsets[i]), int(offsets[i+1])
		for t := first; t < end; t++ {
			for j := range f.length {
				if at := f.beyond(t+f.start+j, first, end); at >= 0 {
					kernel.Gemm(false, true, 1, f.width, f.columns, 1, row(tensor.Data[T](g.dout), t, f.columns), f.columns,
						tensor.Data[T](g.filter)[j*f.width*f.columns:], f.columns, 1, row(dpad, at, f.width), f.width, work)
				}
			}
		}
	}
	return nil
}
