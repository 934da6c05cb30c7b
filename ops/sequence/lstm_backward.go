package sequence

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// A backward is a bound lstm_grad.
type backward[T tensor.Float] struct {
	*network[T]
	hidden, cells, gates, active *tensor.Tensor
	dhidden, dcells              *tensor.Tensor // nil for zeros
	dinput                       *tensor.Tensor
	dh0, dc0, dweight, dbias     *tensor.Tensor // nil when nobody wants them

	states    *tensor.Tensor // [rows, D]: Hidden of the step before, for dWeight
	carriedH  *tensor.Tensor // [sequences, D]: gradient of Hidden that comes from the step after, in the order of the steps
	carriedC  *tensor.Tensor // the same of Cell
	dgates    *tensor.Tensor // [sequences, 4D+gap]: dInput of a step, in that order
	work      *tensor.Tensor
	workspace int // elements that a part of work gives to products of matrices
	parts     []steps
}

func bindLSTMGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	n := newNetwork[T](b, batchIn(b, "BatchGate"))
	rows, of := int(n.value.Dims()[0]), tensor.Of[T]()
	k := &backward[T]{network: n, hidden: b.In("Hidden"), cells: b.In("Cell"), gates: n.value, active: b.In("BatchCellPreAct"),
		dhidden: b.In("Hidden@GRAD"), dcells: b.In("Cell@GRAD"), dinput: orScratch[T](b, "Input@GRAD", rows*4*n.width),
		dh0: b.Out("H0@GRAD"), dc0: b.Out("C0@GRAD"), dweight: b.Out("Weight@GRAD"), dbias: b.Out("Bias@GRAD"),
		carriedH: b.Scratch(of, n.n*n.width), carriedC: b.Scratch(of, n.n*n.width),
		dgates: b.Scratch(of, n.n*(4*n.width+gap)), parts: make([]steps, b.Parts())}
	k.workspace = max(kernel.GemmPackedWorkspace(n.n, n.width, 4*n.width), kernel.GemmWorkspace(n.width, 4*n.width, rows))
	k.work = b.Scratch(of, b.Parts()*(k.workspace+2*n.width))
	loops := []ops.Loop{n.pack(true), {N: n.n, Least: leastSequences, Whole: []string{"Weight", "Bias"}, Apart: true, Run: k.run}}
	if k.dweight != nil {
		k.states = b.Scratch(of, rows*n.width)
		loops = append(loops, ops.Loop{N: n.width, Least: leastSequences, Reads: []string{}, Apart: true, Run: k.weights})
	}
	if k.dbias != nil {
		loops = append(loops, ops.Loop{N: 1, Reads: []string{"C0", "Cell"}, Apart: true, Run: k.biases})
	}
	return b.Loops(loops...)
}

// run computes dInput, and the gradients of the initial state, of sequences [from, to).
func (k *backward[T]) run(part, from, to int) error {
	offsets, err := k.offsets()
	if err != nil {
		return err
	}
	s := &k.parts[part]
	s.arrange(offsets, k.reverse, from, to)
	work := ops.Part(tensor.Data[T](k.work), part, k.workspace+2*k.width)
	carriedH, carriedC := tensor.Data[T](k.carriedH)[from*k.width:to*k.width], tensor.Data[T](k.carriedC)[from*k.width:to*k.width]
	clear(carriedH)
	clear(carriedC)
	wide, far := 4*k.width, 4*k.width+gap
	dgates, l := tensor.Data[T](k.dgates)[from*far:], k.network.cells()
	active := 0
	for step := s.longest() - 1; step >= 0; step-- {
		for active < len(s.order) && s.length(s.order[active]) > step {
			active++
		}
		for j, sequence := range s.order[:active] {
			k.step(&l, s, sequence, step, row(carriedH, j, k.width), row(carriedC, j, k.width), dgates[j*far:][:wide], work[:2*k.width])
		}
		if step > 0 || k.dh0 != nil {
			kernel.GemmPacked(active, k.width, wide, 1, dgates, far, tensor.Data[T](k.packed), 0, carriedH, k.width, work[2*k.width:])
		}
	}
	for j, sequence := range s.order {
		if k.dh0 != nil {
			copy(row(tensor.Data[T](k.dh0), sequence, k.width), row(carriedH, j, k.width))
		}
		if k.dc0 != nil {
			copy(row(tensor.Data[T](k.dc0), sequence, k.width), row(carriedC, j, k.width))
		}
	}
	return nil
}

// step computes the gradient of one step of one sequence: dInput, and carriedC for the step before. carriedH becomes that of Hidden, which the
// product of dgates with Weight replaces.
func (k *backward[T]) step(l *kernel.LSTM[T], s *steps, sequence, step int, carriedH, carriedC, dgates, work []T) {
	at := s.row(sequence, step)
	if k.dhidden != nil {
		kernel.Add(carriedH, carriedH, row(tensor.Data[T](k.dhidden), at, k.width), 1, k.width, 1)
	}
	if k.dcells != nil {
		kernel.Add(carriedC, carriedC, row(tensor.Data[T](k.dcells), at, k.width), 1, k.width, 1)
	}
	cells := tensor.Data[T](k.cells)
	l.Backward(dgates, carriedC, carriedH, row(tensor.Data[T](k.gates), at, 4*k.width), row(cells, at, k.width),
		row(tensor.Data[T](k.active), at, k.width),
		k.before(cells, k.c0, s, sequence, step), work[:k.width])
	copy(row(tensor.Data[T](k.dinput), at, 4*k.width), dgates)
	if k.states == nil {
		return
	}
	state := row(tensor.Data[T](k.states), at, k.width)
	if before := k.before(tensor.Data[T](k.hidden), k.h0, s, sequence, step); before != nil {
		copy(state, before)
	} else {
		clear(state)
	}
}

// weights computes rows [from, to) of dWeight.
func (k *backward[T]) weights(part, from, to int) error {
	work := ops.Part(tensor.Data[T](k.work), part, k.workspace+2*k.width)
	kernel.Gemm(true, false, to-from, 4*k.width, int(k.value.Dims()[0]), 1, tensor.Data[T](k.states)[from:], k.width,
		tensor.Data[T](k.dinput), 4*k.width, 0, tensor.Data[T](k.dweight)[from*4*k.width:], 4*k.width, work)
	return nil
}

// biases computes dBias: the sum of dInput over rows, and the gradient of peepholes.
func (k *backward[T]) biases(int, int, int) error {
	wide := 4 * k.width
	dinput, dbias := tensor.Data[T](k.dinput), tensor.Data[T](k.dbias)
	kernel.AddGrad(nil, dbias[:wide], nil, nil, nil, dinput, int(k.value.Dims()[0]), wide, 1)
	if !k.peepholes {
		return nil
	}
	offsets, err := k.offsets()
	if err != nil {
		return err
	}
	clear(dbias[wide:])
	l, s, cells := k.network.cells(), steps{offsets: offsets, reverse: k.reverse}, tensor.Data[T](k.cells)
	for sequence := range k.n {
		for step := range s.length(sequence) {
			at := s.row(sequence, step)
			l.PeepholeGrad(dbias[wide:], row(dinput, at, wide), row(cells, at, k.width), k.before(cells, k.c0, &s, sequence, step))
		}
	}
	return nil
}
