package kernel

import (
	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

// The functions of this file make one row of a sequence: out has width elements and x has as many for each of the rows of
// the sequence, at least one.

// SequenceSum computes out = scale times the sum of the rows, added in their order.
func SequenceSum[T tensor.Float](out, x []T, width int, scale T) {
	copy(out, x[:width])
	for x = x[width:]; len(x) > 0; x = x[width:] {
		addVectors(out, out, x[:width])
	}
	if scale != 1 {
		mulScalar(out, out, scale)
	}
}

// SequenceSumGrad computes dx = scale*dout in every row.
func SequenceSumGrad[T tensor.Float](dx, dout []T, width int, scale T) {
	mulScalar(dx[:width], dout, scale)
	for row := dx[width:]; len(row) > 0; row = row[width:] {
		copy(row[:width], dx[:width])
	}
}

// SequenceMax computes out = the largest element of each column, and in which row it stands, where the first row is
// number first; of equal ones it is the first. A NaN is larger than every number.
func SequenceMax[T tensor.Float](out []T, index []int32, x []T, width int, first int32) {
	out, index = out[:width], index[:width]
	copy(out, x[:width])
	for j := range index {
		index[j] = first
	}
	row := first
	for x = x[width:]; len(x) > 0; x = x[width:] {
		row++
		for j, v := range x[:width] {
			if best := out[j]; !(v <= best) && best == best {
				out[j], index[j] = v, row
			}
		}
	}
}

// SequenceMaxGrad computes dx = dout in the rows that index names, where the first row of dx is number first, and 0
// elsewhere.
func SequenceMaxGrad[T tensor.Float](dx, dout []T, index []int32, width int, first int32) {
	clear(dx)
	for j, row := range index[:width] {
		dx[int(row-first)*width+j] = dout[j]
	}
}

// An Activation is a function of single elements whose derivative is a function of its value. Grad computes dx = dout*f'(x) from out = f(x). x may
// be nil, and dx may be dout.
type Activation[T tensor.Float] struct {
	Func func(out, x []T)
	Grad func(dx, x, out, dout []T)
}

// Activations returns the functions of Fluid's recurrent ops, by name.
func Activations[T tensor.Float]() map[string]Activation[T] {
	return map[string]Activation[T]{
		"sigmoid":  {Sigmoid[T], SigmoidGrad[T]},
		"tanh":     {Tanh[T], TanhGrad[T]},
		"relu":     {Relu[T], ReluGrad[T]},
		"identity": {func(out, x []T) { copy(out, x) }, func(dx, _, _, dout []T) { copy(dx, dout) }},
	}
}

// An LSTM computes steps of long short-term memory (Hochreiter and Schmidhuber 1997; peepholes: Gers and Schmidhuber 2000) for one sequence at a
// time. A row of gates has the four parts of Fluid's lstm, Width elements each: candidate c~, input gate i, forget gate f and output gate o.
// Peepholes has the weights of i, f and o; nil means no peepholes. With c' the cell of the previous step:
//
//	c~ = Candidate(..)   i = Gate(.. + wi*c')   f = Gate(.. + wf*c')
//	c  = c~*i + c'*f     o = Gate(.. + wo*c)    h = o*Cell(c)
type LSTM[T tensor.Float] struct {
	Width                 int
	Gate, Cell, Candidate Activation[T]
	Peepholes             []T
	Clip                  T // a cell lies within [-Clip, Clip]; 0 for no bound

	usual bool // sigmoid gates, tanh for candidate and cell: without peepholes one loop does the whole step
}

// NewLSTM takes functions by the names of Activations, which these are.
func NewLSTM[T tensor.Float](width int, gate, cell, candidate string, peepholes []T) LSTM[T] {
	known := Activations[T]()
	return LSTM[T]{Width: width, Gate: known[gate], Cell: known[cell], Candidate: known[candidate], Peepholes: peepholes,
		usual: gate == "sigmoid" && cell == "tanh" && candidate == "tanh"}
}

// vectors returns the vector loops of a whole step, with the bits of the loops over single arrays. It returns nil if there are none.
func (l *LSTM[T]) vectors(previous []T) *simd.Vectors {
	if !l.usual || l.Peepholes != nil || l.Clip > 0 || previous == nil || l.Width == 0 || l.Width%8 != 0 {
		return nil
	}
	return vectorsOf[T]()
}

func (l *LSTM[T]) parts(row []T) (candidate, input, forget, output []T) {
	d := l.Width
	return row[:d], row[d : 2*d], row[2*d : 3*d], row[3*d : 4*d]
}

// Forward computes a step. The input of the activations, without peepholes, is (row+bias)+sums, each of 4*Width elements; Forward overwrites sums.
// It sets gates to the values of the gates, and writes cell, active = Cell(cell) and hidden. previous is the cell of the previous step, nil for
// zeros. gates may be row. Other slices do not overlap.
func (l *LSTM[T]) Forward(gates, cell, active, hidden, previous, row, bias, sums []T) {
	d := l.Width
	gates, cell, active, hidden, row, bias, sums = gates[:4*d], cell[:d], active[:d], hidden[:d], row[:4*d], bias[:4*d], sums[:4*d]
	if v := l.vectors(previous); v != nil {
		previous = previous[:d]
		v.LSTMForward(single(gates), single(cell), single(active), single(hidden), single(previous), single(row), single(bias), single(sums), d)
		return
	}
	addVectors(gates, row, bias)
	addVectors(sums, gates, sums)
	candidate, input, forget, output := l.parts(gates)
	l.Candidate.Func(candidate, sums[:d])
	if l.Peepholes == nil {
		l.Gate.Func(gates[d:], sums[d:])
	} else {
		if previous != nil {
			mulAdd(sums[d:2*d], previous, l.Peepholes[:d])
			mulAdd(sums[2*d:3*d], previous, l.Peepholes[d:2*d])
		}
		l.Gate.Func(gates[d:3*d], sums[d:3*d])
	}
	mulVectors(cell, candidate, input)
	if previous != nil {
		mulAdd(cell, previous, forget)
	}
	if l.Clip > 0 {
		Clip(cell, cell, -l.Clip, l.Clip)
	}
	if l.Peepholes != nil {
		mulAdd(sums[3*d:], cell, l.Peepholes[2*d:])
		l.Gate.Func(output, sums[3*d:])
	}
	l.Cell.Func(active, cell)
	mulVectors(hidden, output, active)
}

// Backward computes the gradient of a step. gates, cell, active and previous are those after Forward, and dhidden is the gradient of hidden. dcell
// is the gradient of cell from the next step; Backward replaces it by the gradient of previous. It sets dgates to the gradient of the input of the
// gates. dgates does not overlap gates.
func (l *LSTM[T]) Backward(dgates, dcell, dhidden, gates, cell, active, previous, work []T) {
	if v := l.vectors(previous); v != nil {
		d := l.Width
		dgates, dcell, dhidden, gates, active, previous = dgates[:4*d], dcell[:d], dhidden[:d], gates[:4*d], active[:d], previous[:d]
		v.LSTMBackward(single(dgates), single(dcell), single(dhidden), single(gates), single(active), single(previous), d)
		return
	}
	candidate, input, forget, output := l.parts(gates)
	dcandidate, dinput, dforget, doutput := l.parts(dgates)
	mulVectors(work, dhidden, active)
	l.Gate.Grad(doutput, nil, output, work)
	mulVectors(work, dhidden, output)
	l.Cell.Grad(work, nil, active, work)
	addVectors(dcell, dcell, work)
	if l.Peepholes != nil {
		mulAdd(dcell, doutput, l.Peepholes[2*l.Width:])
	}
	if l.Clip > 0 {
		ClipGrad(dcell, cell, dcell, -l.Clip, l.Clip)
	}
	mulVectors(work, dcell, input)
	l.Candidate.Grad(dcandidate, nil, candidate, work)
	mulVectors(work, dcell, candidate)
	l.Gate.Grad(dinput, nil, input, work)
	if previous == nil {
		clear(dforget)
	} else {
		mulVectors(work, dcell, previous)
		l.Gate.Grad(dforget, nil, forget, work)
	}
	mulVectors(dcell, dcell, forget)
	if l.Peepholes != nil {
		mulAdd(dcell, dinput, l.Peepholes[:l.Width])
		mulAdd(dcell, dforget, l.Peepholes[l.Width:2*l.Width])
	}
}

// PeepholeGrad adds the part of a step to the gradient of Peepholes. dgates is the result of Backward.
func (l *LSTM[T]) PeepholeGrad(dpeepholes, dgates, cell, previous []T) {
	_, dinput, dforget, doutput := l.parts(dgates)
	if previous != nil {
		mulAdd(dpeepholes[:l.Width], dinput, previous)
		mulAdd(dpeepholes[l.Width:2*l.Width], dforget, previous)
	}
	mulAdd(dpeepholes[2*l.Width:], doutput, cell)
}
