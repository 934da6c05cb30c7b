package sequence

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// A network is what lstm and its gradient have in common.
type network[T tensor.Float] struct {
	batch
	reverse      bool
	width        int
	weight, bias *tensor.Tensor
	h0, c0       *tensor.Tensor // nil for zeros
	packed       *tensor.Tensor // Weight, or its transpose, as kernel.GemmPacked reads it

	cell      kernel.LSTM[T] // without the values of peepholes
	peepholes bool
}

func newNetwork[T tensor.Float](b *ops.Binding, rows batch) *network[T] {
	weight := b.In("Weight")
	return &network[T]{batch: rows, reverse: b.Bool("is_reverse"), width: int(weight.Dims()[0]), weight: weight, bias: b.In("Bias"),
		h0: b.In("H0"), c0: b.In("C0"),
		packed: b.Scratch(tensor.Of[T](), weight.Len()), peepholes: b.Bool("use_peepholes"),
		cell: kernel.NewLSTM[T](int(weight.Dims()[0]), b.Str("gate_activation"), b.Str("cell_activation"), b.Str("candidate_activation"), nil)}
}

// pack is the loop that packs Weight, once in a run.
func (n *network[T]) pack(transposed bool) ops.Loop {
	return ops.Loop{N: 1, Reads: []string{"Weight"}, Writes: []string{}, Apart: true, Run: func(int, int, int) error {
		columns, depth := 4*n.width, n.width
		if transposed {
			columns, depth = depth, columns
		}
		kernel.PackGemm(transposed, columns, depth, tensor.Data[T](n.weight), 4*n.width, tensor.Data[T](n.packed))
		return nil
	}}
}

// cells returns the arithmetic of a step.
func (n *network[T]) cells() kernel.LSTM[T] {
	l := n.cell
	if n.peepholes {
		l.Peepholes = tensor.Data[T](n.bias)[4*n.width:]
	}
	return l
}

// before returns the row of values, which has a row for each step, that stands before a step of a sequence: that of the initial ones at the first
// step, nil when there are none.
func (n *network[T]) before(values []T, initial *tensor.Tensor, s *steps, sequence, step int) []T {
	switch {
	case step > 0:
		return row(values, s.row(sequence, step-1), n.width)
	case initial != nil:
		return row(tensor.Data[T](initial), sequence, n.width)
	}
	return nil
}

func row[T any](values []T, i, width int) []T { return values[i*width:][:width] }

// A forward is a bound lstm.
type forward[T tensor.Float] struct {
	*network[T]
	input, hidden, cells, gates, active *tensor.Tensor

	state     *tensor.Tensor // [sequences, D+gap]: Hidden of the step before, in the order of the steps
	sums      *tensor.Tensor // [sequences, 4D]: its product with Weight
	work      *tensor.Tensor
	workspace int // elements of work for each part
	parts     []steps
}

func bindLSTM[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	n := newNetwork[T](b, batchIn(b, "Input"))
	rows := int(n.value.Dims()[0])
	f := &forward[T]{network: n, input: n.value, hidden: orScratch[T](b, "Hidden", rows*n.width), cells: orScratch[T](b, "Cell", rows*n.width),
		gates: orScratch[T](b, "BatchGate", rows*4*n.width), active: orScratch[T](b, "BatchCellPreAct", rows*n.width),
		state: b.Scratch(tensor.Of[T](), n.n*(n.width+gap)), sums: b.Scratch(tensor.Of[T](), n.n*4*n.width),
		workspace: kernel.GemmPackedWorkspace(n.n, 4*n.width, n.width), parts: make([]steps, b.Parts())}
	f.work = b.Scratch(tensor.Of[T](), b.Parts()*f.workspace)
	return b.Loops(n.pack(false), ops.Loop{N: n.n, Least: leastSequences, Whole: []string{"Weight", "Bias"}, Apart: true, Run: f.run})
}

// gap is how many elements lie between the rows of a factor, so that rows of a power of two do not fall into few sets of the cache.
const gap = 16

// leastSequences is how many sequences are worth a goroutine: for fewer, reading Weight in every step takes a good part of the time.
const leastSequences = 16

// orScratch returns the output of a slot, or n elements of scratch memory when nobody wants it.
func orScratch[T tensor.Float](b *ops.Binding, slot string, n int) *tensor.Tensor {
	if t := b.Out(slot); t != nil {
		return t
	}
	return b.Scratch(tensor.Of[T](), n)
}

// run computes sequences [from, to).
func (f *forward[T]) run(part, from, to int) error {
	offsets, err := f.offsets()
	if err != nil {
		return err
	}
	s := &f.parts[part]
	s.arrange(offsets, f.reverse, from, to)
	work := ops.Part(tensor.Data[T](f.work), part, f.workspace)
	wide, far := 4*f.width, f.width+gap
	state, sums := tensor.Data[T](f.state)[from*far:], tensor.Data[T](f.sums)[from*wide:to*wide]
	if f.h0 == nil {
		clear(sums)
	} else {
		for j, sequence := range s.order {
			copy(state[j*far:], row(tensor.Data[T](f.h0), sequence, f.width))
		}
	}
	l := f.network.cells()
	input, bias := tensor.Data[T](f.input), tensor.Data[T](f.bias)[:wide]
	for step, active := 0, len(s.order); step < s.longest(); step++ {
		active = s.active(step, active)
		if step > 0 || f.h0 != nil {
			kernel.GemmPacked(active, wide, f.width, 1, state, far, tensor.Data[T](f.packed), 0, sums, wide, work)
		}
		for j, sequence := range s.order[:active] {
			f.step(&l, s, sequence, step, state[j*far:], input, bias, row(sums, j, wide))
		}
	}
	return nil
}

// step computes one step of one sequence and leaves its hidden value in state.
func (f *forward[T]) step(l *kernel.LSTM[T], s *steps, sequence, step int, state, input, bias, sums []T) {
	at, cells, wide := s.row(sequence, step), tensor.Data[T](f.cells), 4*f.width
	hidden := row(tensor.Data[T](f.hidden), at, f.width)
	l.Forward(row(tensor.Data[T](f.gates), at, wide), row(cells, at, f.width), row(tensor.Data[T](f.active), at, f.width), hidden,
		f.before(cells, f.c0, s, sequence, step), row(input, at, wide), bias, sums)
	copy(state, hidden)
}
