package sequence

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// A gruBackward is a bound gru_grad.
type gruBackward[T tensor.Float] struct {
	batch
	*gruWeights[T]
	reverse              bool
	h0                   *tensor.Tensor // nil for zeros
	hidden, gates, reset *tensor.Tensor
	dhidden, dinput      *tensor.Tensor
	dh0, dweight, dbias  *tensor.Tensor // nil when nobody wants them

	states  *tensor.Tensor // [rows, D]: Hidden of the previous step, for dWeight
	carried *tensor.Tensor // [sequences, D]: gradient of Hidden from the next step, sequences sorted
	dgates  *tensor.Tensor // [sequences, 3D+gap]: dInput of a step
	dreset  *tensor.Tensor // [sequences, D]: gradient of r.h'
	work    *tensor.Tensor
	each    int // elements of work that each part has
	parts   []steps
}

func bindGRUGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	w, x, of := newGRUWeights[T](b, b.Str("gate_activation"), b.Str("activation")), batchIn(b, "BatchGate"), tensor.Of[T]()
	rows, d := int(x.value.Dims()[0]), w.width
	k := &gruBackward[T]{batch: x, gruWeights: w, reverse: b.Bool("is_reverse"), h0: b.In("H0"),
		hidden: b.In("Hidden"), gates: x.value, reset: b.In("BatchResetHiddenPrev"), dhidden: b.In("Hidden@GRAD"),
		dinput: orScratch[T](b, "Input@GRAD", rows*3*d), dh0: b.Out("H0@GRAD"), dweight: b.Out("Weight@GRAD"), dbias: b.Out("Bias@GRAD"),
		carried: b.Scratch(of, x.n*d), dgates: b.Scratch(of, x.n*(3*d+gap)), dreset: b.Scratch(of, x.n*d), parts: make([]steps, b.Parts())}
	k.each = max(w.workspace(x.n), kernel.GemmWorkspace(d, 2*d, rows)) + d
	k.work = b.Scratch(of, b.Parts()*k.each)
	loops := []ops.Loop{w.pack(true), {N: x.n, Least: leastSequences, Whole: []string{"Weight", "Bias"}, Apart: true, Run: k.run}}
	if k.dweight != nil {
		k.states = b.Scratch(of, rows*d)
		loops = append(loops, ops.Loop{N: d, Least: leastSequences, Reads: []string{"BatchResetHiddenPrev"}, Apart: true, Run: k.weights})
	}
	if k.dbias != nil {
		loops = append(loops, ops.Loop{N: 1, Reads: []string{}, Apart: true, Run: func(int, int, int) error {
			kernel.AddGrad(nil, tensor.Data[T](k.dbias), nil, nil, nil, tensor.Data[T](k.dinput), rows, 3*d, 1)
			return nil
		}})
	}
	return b.Loops(loops...)
}

// run computes dInput and dH0 of sequences [from, to).
func (k *gruBackward[T]) run(part, from, to int) error {
	offsets, err := k.offsets()
	if err != nil {
		return err
	}
	s := &k.parts[part]
	s.arrange(offsets, k.reverse, from, to)
	d, far := k.width, 3*k.width+gap
	work := ops.Part(tensor.Data[T](k.work), part, k.each)
	carried, dreset := tensor.Data[T](k.carried)[from*d:to*d], tensor.Data[T](k.dreset)[from*d:to*d]
	dgates := tensor.Data[T](k.dgates)[from*far:]
	clear(carried)
	active := 0
	for step := s.longest() - 1; step >= 0; step-- {
		for active < len(s.order) && s.length(s.order[active]) > step {
			active++
		}
		for j, sequence := range s.order[:active] {
			at, dh := s.row(sequence, step), row(carried, j, d)
			kernel.Add(dh, dh, row(tensor.Data[T](k.dhidden), at, d), 1, d, 1)
			k.cell.BackwardCandidate(dgates[j*far:], dh, dh, row(tensor.Data[T](k.gates), at, 3*d), before(tensor.Data[T](k.hidden), k.h0, d, s, sequence, step), work)
		}
		kernel.GemmPacked(active, d, d, 1, dgates[2*d:], far, tensor.Data[T](k.candidate), 0, dreset, d, work[d:])
		for j, sequence := range s.order[:active] {
			k.finish(s, sequence, step, dgates[j*far:][:3*d], row(carried, j, d), row(dreset, j, d))
		}
		if step > 0 || k.dh0 != nil {
			kernel.GemmPacked(active, d, 2*d, 1, dgates, far, tensor.Data[T](k.gruWeights.gates), 1, carried, d, work[d:])
		}
	}
	if k.dh0 != nil {
		for j, sequence := range s.order {
			copy(row(tensor.Data[T](k.dh0), sequence, d), row(carried, j, d))
		}
	}
	return nil
}

// finish computes the rest of dInput of one step of one sequence, and keeps what dWeight needs.
func (k *gruBackward[T]) finish(s *steps, sequence, step int, dgates, carried, dreset []T) {
	at, previous := s.row(sequence, step), before(tensor.Data[T](k.hidden), k.h0, k.width, s, sequence, step)
	k.cell.BackwardGates(dgates, carried, dreset, row(tensor.Data[T](k.gates), at, 3*k.width), previous)
	copy(row(tensor.Data[T](k.dinput), at, 3*k.width), dgates)
	if k.states == nil {
		return
	}
	state := row(tensor.Data[T](k.states), at, k.width)
	if previous == nil {
		clear(state)
	} else {
		copy(state, previous)
	}
}

// weights computes rows [from, to) of both parts of dWeight.
func (k *gruBackward[T]) weights(part, from, to int) error {
	d, rows := k.width, int(k.value.Dims()[0])
	work, dinput, dweight := ops.Part(tensor.Data[T](k.work), part, k.each), tensor.Data[T](k.dinput), tensor.Data[T](k.dweight)
	kernel.Gemm(true, false, to-from, 2*d, rows, 1, tail(tensor.Data[T](k.states), from), d, dinput, 3*d, 0, dweight[from*2*d:], 2*d, work)
	kernel.Gemm(true, false, to-from, d, rows, 1, tail(tensor.Data[T](k.reset), from), d, tail(dinput, 2*d), 3*d, 0, dweight[2*d*d+from*d:], d, work)
	return nil
}

// tail returns the elements from the given one on. There are none if there are no rows.
func tail[T any](values []T, from int) []T { return values[min(from, len(values)):] }
