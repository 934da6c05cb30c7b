package sequence

import (
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "lstm",
		Doc: "Runs long short-term memory over sequences whose elements are projected already. With x the row of Input, h' and " +
			"c' Hidden and Cell of the step before (H0 and C0, or zeros, at the first), and p = x + h'*Weight + Bias[:4D] in four parts of " +
			"D elements c, i, f and o: candidate = cand(p_c), i = gate(p_i + w_i*c'), f = gate(p_f + w_f*c'), Cell = candidate*i + c'*f, " +
			"o = gate(p_o + w_o*Cell), Hidden = o*cell(Cell). The peepholes w_i, w_f and w_o are Bias[4D:7D].",
		Inputs: []ops.Slot{
			{Name: "Input", Doc: "float [rows, 4D], sequences of one LoD level"},
			{Name: "H0", Doc: "[sequences, D]; zeros when absent", Dispensable: true},
			{Name: "C0", Doc: "[sequences, D], beside H0", Dispensable: true},
			{Name: "Weight", Doc: "[D, 4D]: the columns of c, i, f and o"},
			{Name: "Bias", Doc: "[1, 4D], or with use_peepholes [1, 7D]"}},
		Outputs: []ops.Slot{
			{Name: "Hidden", Doc: "[rows, D], sequences as in Input"},
			{Name: "Cell", Doc: "[rows, D], sequences as in Input"},
			{Name: "BatchGate", Doc: "[rows, 4D]: candidate, i, f and o. The rows stand as in Input, where Fluid sorts them by step", Intermediate: true},
			{Name: "BatchCellPreAct", Doc: "[rows, D]: cell(Cell)", Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "use_peepholes", Doc: "whether gates see the cell", Default: true},
			{Name: "is_reverse", Doc: "whether a sequence is read from its last row to its first", Default: false},
			activation("gate_activation", "function of the gates", "sigmoid"),
			activation("cell_activation", "function of the cell that goes into Hidden", "tanh"),
			activation("candidate_activation", "function of the candidate", "tanh")},
		Infer:   inferLSTM,
		Cost:    lstmCost(2),
		Bind:    opkit.BindFloats("Input", bindLSTM[float32], bindLSTM[float64]),
		InPlace: map[string]string{"BatchGate": "Input"},
	}, opkit.Gradient{
		Doc:     "the steps from the last to the first; dWeight = transpose(h')*dInput, dBias is the sum of dInput over rows.",
		Inputs:  []string{"H0", "C0", "Weight", "Bias"},
		Outputs: []string{"Hidden", "Cell", "BatchGate", "BatchCellPreAct"},
		Wrt:     []string{"Input", "H0", "C0", "Weight", "Bias"},
		StandIn: map[string]string{"Input": "BatchGate"},
		Cost:    lstmCost(4),
		Bind:    opkit.BindFloats("BatchGate", bindLSTMGrad[float32], bindLSTMGrad[float64]),
		InPlace: map[string]string{"Input@GRAD": "BatchGate"},
	})
}

var activations = []string{"sigmoid", "tanh", "relu", "identity"}

func activation(name, doc, byDefault string) ops.Attr {
	return ops.Attr{Name: name, Doc: doc + ": sigmoid, tanh, relu or identity", Default: byDefault, Check: func(op *program.Op) error {
		if value, _ := op.Str(name); !slices.Contains(activations, value) {
			return fault.New(fault.InvalidArgument, "sigmoid, tanh, relu or identity")
		}
		return nil
	}}
}

func inferLSTM(s *ops.Shapes) error {
	if err := s.Rank("Weight", 2); err != nil {
		return err
	}
	width := s.In("Weight").Dims[0]
	return inferCells(s, width, width, "Hidden", "Cell", "BatchCellPreAct")
}

// inferCells checks the inputs of cells of so many elements, each step of which gets fed elements of the step before. It sets the dims of outputs, those of slots
// with an element for each of the cell.
func inferCells(s *ops.Shapes, width, fed int64, slots ...string) error {
	for _, slot := range []string{"Input", "Weight", "Bias"} {
		if err := s.Rank(slot, 2); err != nil {
			return err
		}
	}
	if err := s.IsFloat("Input"); err != nil {
		return err
	}
	if err := s.SameType("Input", "H0", "C0", "Weight", "ProjWeight", "Bias"); err != nil {
		return err
	}
	if width > math.MaxInt64/7 {
		return s.Errorf("Weight", "a width whose products do not overflow")
	}
	x := s.In("Input")
	if gates := times(4, width); !opkit.Agree(s.In("Weight").Dims[1], gates) || !opkit.Agree(x.Dims[1], gates) {
		return s.Errorf("Weight", "4D columns, as Input %v has, where D is %d", x.Dims, width)
	}
	parts := int64(4)
	if s.Bool("use_peepholes") {
		parts = 7
	}
	if bias := s.In("Bias").Dims; !ops.Compatible(bias, []int64{1, times(parts, width)}) {
		return s.Errorf("Bias", "dims [1, %d*%d]", parts, width)
	}
	if err := inferInitialState(s, width, fed); err != nil {
		return err
	}
	for _, slot := range slots {
		s.Set(slot, x.DType, x.Dims[0], width)
		s.ShareLoD(slot, "Input")
	}
	s.Like("BatchGate", "Input")
	return nil
}

// inferInitialState checks the sequences of Input, H0, which has fed columns, and C0.
func inferInitialState(s *ops.Shapes, width, fed int64) error {
	sequences, err := s.CountSequences("Input")
	if err != nil {
		return err
	}
	if levels := s.In("Input").LoDLevel; levels != 1 {
		return s.Errorf("Input", "one LoD level, not %d", levels)
	}
	if s.Has("H0") != s.Has("C0") {
		return s.Errorf("H0", "H0 and C0, or neither")
	}
	for slot, columns := range opkit.InOrder(map[string]int64{"H0": fed, "C0": width}) {
		if s.Has(slot) && !ops.Compatible(s.In(slot).Dims, []int64{sequences, columns}) {
			return s.Errorf(slot, "dims [%d, %d], a row for each sequence", sequences, columns)
		}
	}
	return nil
}

// times multiplies an extent, which may be open, by a number.
func times(n, extent int64) int64 {
	if extent == program.Unknown {
		return program.Unknown
	}
	return n * extent
}

func lstmCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		rows := append(s.Outs("Cell"), s.Ins("Cell")...)[0].Dims[0]
		weights := opkit.Size(s.In("Weight").Dims)
		if s.Has("ProjWeight") {
			weights += opkit.Size(s.In("ProjWeight").Dims)
		}
		return ops.Cost{Flops: flops * opkit.Size([]int64{rows, weights}), Bytes: opkit.Bytes(s)}
	}
}

// A network is what lstm, lstmp and their gradients share.
type network[T tensor.Float] struct {
	batch
	reverse      bool
	width        int // D
	fed          int // columns of what a step hands to the next: D, or those of the projection
	weight, bias *tensor.Tensor
	h0, c0       *tensor.Tensor // nil for zeros
	packed       *tensor.Tensor // Weight, or its transpose, as kernel.GemmPacked reads it

	cell      kernel.LSTM[T] // the values of peepholes are not set
	peepholes bool

	projection *projection[T] // nil for lstm
}

func newNetwork[T tensor.Float](b *ops.Binding, rows batch) *network[T] {
	weight := b.In("Weight")
	width := int(weight.Dims()[1] / 4)
	return &network[T]{batch: rows, reverse: b.Bool("is_reverse"), width: width, fed: int(weight.Dims()[0]), weight: weight, bias: b.In("Bias"),
		h0: b.In("H0"), c0: b.In("C0"),
		packed: b.Scratch(tensor.Of[T](), weight.Len()), peepholes: b.Bool("use_peepholes"),
		cell: kernel.NewLSTM[T](width, b.Str("gate_activation"), b.Str("cell_activation"), b.Str("candidate_activation"), nil)}
}

// pack is the loop that packs the weights once in a run.
func (n *network[T]) pack(transposed bool) ops.Loop {
	return ops.Loop{N: 1, Reads: []string{"Weight", "ProjWeight"}, Writes: []string{}, Apart: true, Run: func(int, int, int) error {
		packWeight[T](transposed, n.weight, 4*n.width, n.fed, n.packed)
		if p := n.projection; p != nil {
			packWeight[T](transposed, p.weight, n.fed, n.width, p.packed)
		}
		return nil
	}}
}

// packWeight packs a matrix of depth rows, or its transpose.
func packWeight[T tensor.Float](transposed bool, weight *tensor.Tensor, columns, depth int, packed *tensor.Tensor) {
	far := columns
	if transposed {
		columns, depth = depth, columns
	}
	kernel.PackGemm(transposed, columns, depth, tensor.Data[T](weight), far, tensor.Data[T](packed))
}

// cells returns the arithmetic of a step.
func (n *network[T]) cells() kernel.LSTM[T] {
	l := n.cell
	if n.peepholes {
		l.Peepholes = tensor.Data[T](n.bias)[4*n.width:]
	}
	return l
}

// before returns the row of values, of so many columns, before a step of a sequence. values has a row for each step. For the first step it is the row of the
// initial values, nil if there are none.
func before[T tensor.Float](values []T, initial *tensor.Tensor, width int, s *steps, sequence, step int) []T {
	switch {
	case step > 0:
		return row(values, s.row(sequence, step-1), width)
	case initial != nil:
		return row(tensor.Data[T](initial), sequence, width)
	}
	return nil
}

func row[T any](values []T, i, width int) []T { return values[i*width:][:width] }

// A forward is a bound lstm or lstmp.
type forward[T tensor.Float] struct {
	*network[T]
	input, hidden, cells, gates, active *tensor.Tensor

	state     *tensor.Tensor // [sequences, fed+gap]: what the previous step has handed on, sequences sorted
	sums      *tensor.Tensor // [sequences, 4D]: its product with Weight
	work      *tensor.Tensor
	workspace int // elements of work that each part has
	parts     []steps
}

func bindLSTM[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	return bindNetwork(b, newNetwork[T](b, batchIn(b, "Input")), "Hidden")
}

// bindNetwork binds lstm, or lstmp. hidden is the slot of what the gates let out.
func bindNetwork[T tensor.Float](b *ops.Binding, n *network[T], hidden string) (ops.Kernel, error) {
	rows := int(n.value.Dims()[0])
	f := &forward[T]{network: n, input: n.value, hidden: orScratch[T](b, hidden, rows*n.width), cells: orScratch[T](b, "Cell", rows*n.width),
		gates: orScratch[T](b, "BatchGate", rows*4*n.width), active: orScratch[T](b, "BatchCellPreAct", rows*n.width),
		state: b.Scratch(tensor.Of[T](), n.n*(n.fed+gap)), sums: b.Scratch(tensor.Of[T](), n.n*4*n.width),
		workspace: max(kernel.GemmPackedWorkspace(n.n, 4*n.width, n.fed), kernel.GemmPackedWorkspace(n.n, n.fed, n.width)), parts: make([]steps, b.Parts())}
	f.work = b.Scratch(tensor.Of[T](), b.Parts()*f.workspace)
	return b.Loops(n.pack(false), ops.Loop{N: n.n, Least: leastSequences, Whole: []string{"Weight", "ProjWeight", "Bias"}, Apart: true, Run: f.run})
}

// gap is the number of unused elements between rows. Without it, rows whose length is a power of two would fall into few sets of the cache.
const gap = 16

// leastSequences is how many sequences are worth a goroutine. With fewer, reading Weight in every step takes much of the time.
const leastSequences = 16

// orScratch returns the output of a slot, or n elements of scratch memory if nobody wants the output.
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
	wide, far := 4*f.width, f.fed+gap
	state, sums := tensor.Data[T](f.state)[from*far:], tensor.Data[T](f.sums)[from*wide:to*wide]
	if f.h0 == nil {
		clear(sums)
	} else {
		for j, sequence := range s.order {
			copy(state[j*far:], row(tensor.Data[T](f.h0), sequence, f.fed))
		}
	}
	l := f.network.cells()
	input, bias := tensor.Data[T](f.input), tensor.Data[T](f.bias)[:wide]
	for step, active := 0, len(s.order); step < s.longest(); step++ {
		active = s.active(step, active)
		if step > 0 || f.h0 != nil {
			kernel.GemmPacked(active, wide, f.fed, 1, state, far, tensor.Data[T](f.packed), 0, sums, wide, work)
		}
		next, distance := f.next(state, from)
		for j, sequence := range s.order[:active] {
			f.step(&l, s, sequence, step, next[j*distance:], input, bias, row(sums, j, wide))
		}
		if f.projection != nil {
			f.projection.step(s, step, s.order[:active], next, distance, state, far, work)
		}
	}
	return nil
}

// next returns where steps leave their hidden values, and how far these lie apart: in state, or where the projection reads them.
func (f *forward[T]) next(state []T, from int) ([]T, int) {
	if f.projection == nil {
		return state, f.width + gap
	}
	return tensor.Data[T](f.projection.hidden)[from*(f.width+gap):], f.width + gap
}

// step computes one step of one sequence and leaves its hidden value in next.
func (f *forward[T]) step(l *kernel.LSTM[T], s *steps, sequence, step int, next, input, bias, sums []T) {
	at, cells, wide := s.row(sequence, step), tensor.Data[T](f.cells), 4*f.width
	hidden := row(tensor.Data[T](f.hidden), at, f.width)
	l.Forward(row(tensor.Data[T](f.gates), at, wide), row(cells, at, f.width), row(tensor.Data[T](f.active), at, f.width), hidden,
		before(cells, f.c0, f.width, s, sequence, step), row(input, at, wide), bias, sums)
	copy(next, hidden)
}

// A backward is a bound lstm_grad or lstmp_grad.
type backward[T tensor.Float] struct {
	*network[T]
	output                   *tensor.Tensor // Hidden, or Projection: what a step hands to the next
	cells, gates, active     *tensor.Tensor
	doutput, dcells          *tensor.Tensor // nil for zeros
	dinput                   *tensor.Tensor
	dh0, dc0, dweight, dbias *tensor.Tensor // nil when nobody wants them

	states    *tensor.Tensor // [rows, fed]: output of the previous step, for dWeight
	carried   *tensor.Tensor // [sequences, fed]: gradient of output from the next step, sequences sorted
	carriedC  *tensor.Tensor // [sequences, D]: gradient of Cell from the next step
	dgates    *tensor.Tensor // [sequences, 4D+gap]: dInput of a step, sequences sorted
	work      *tensor.Tensor
	workspace int // elements that a part of work gives to products of matrices
	parts     []steps
}

func bindLSTMGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	return b.Loops(newBackward(b, newNetwork[T](b, batchIn(b, "BatchGate")), "Hidden").loops(b)...)
}

// newBackward prepares the gradient of lstm, or of lstmp. output is the slot of what a step hands to the next.
func newBackward[T tensor.Float](b *ops.Binding, n *network[T], output string) *backward[T] {
	rows, of := int(n.value.Dims()[0]), tensor.Of[T]()
	k := &backward[T]{network: n, output: b.In(output), cells: b.In("Cell"), gates: n.value, active: b.In("BatchCellPreAct"),
		doutput: b.In(program.GradName(output)), dcells: b.In("Cell@GRAD"), dinput: orScratch[T](b, "Input@GRAD", rows*4*n.width),
		dh0: b.Out("H0@GRAD"), dc0: b.Out("C0@GRAD"), dweight: b.Out("Weight@GRAD"), dbias: b.Out("Bias@GRAD"),
		carried: b.Scratch(of, n.n*n.fed), carriedC: b.Scratch(of, n.n*n.width),
		dgates: b.Scratch(of, n.n*(4*n.width+gap)), parts: make([]steps, b.Parts())}
	k.workspace = max(kernel.GemmPackedWorkspace(n.n, n.fed, 4*n.width), kernel.GemmWorkspace(n.fed, 4*n.width, rows),
		kernel.GemmPackedWorkspace(n.n, n.width, n.fed), kernel.GemmWorkspace(n.width, n.fed, rows))
	k.work = b.Scratch(of, b.Parts()*(k.workspace+2*n.width))
	return k
}

// loops returns the loops of the gradient.
func (k *backward[T]) loops(b *ops.Binding) []ops.Loop {
	loops := []ops.Loop{k.pack(true), {N: k.n, Least: leastSequences, Whole: []string{"Weight", "ProjWeight", "Bias"}, Apart: true, Run: k.run}}
	if k.dweight != nil {
		k.states = b.Scratch(tensor.Of[T](), int(k.value.Dims()[0])*k.fed)
		loops = append(loops, ops.Loop{N: k.fed, Least: leastSequences, Reads: []string{}, Apart: true, Run: k.weights})
	}
	if k.dbias != nil {
		loops = append(loops, ops.Loop{N: 1, Reads: []string{"C0", "Cell"}, Apart: true, Run: k.biases})
	}
	return loops
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
	carried, carriedC := tensor.Data[T](k.carried)[from*k.fed:to*k.fed], tensor.Data[T](k.carriedC)[from*k.width:to*k.width]
	clear(carried)
	clear(carriedC)
	wide, far := 4*k.width, 4*k.width+gap
	dgates, l := tensor.Data[T](k.dgates)[from*far:], k.network.cells()
	active := 0
	for step := s.longest() - 1; step >= 0; step-- {
		for active < len(s.order) && s.length(s.order[active]) > step {
			active++
		}
		if k.doutput != nil {
			for j, sequence := range s.order[:active] {
				sum := row(carried, j, k.fed)
				kernel.Add(sum, sum, row(tensor.Data[T](k.doutput), s.row(sequence, step), k.fed), 1, k.fed, 1)
			}
		}
		dhidden := carried
		if k.projection != nil {
			dhidden = k.projection.stepGrad(s, step, s.order[:active], carried, from, work[2*k.width:])
		}
		for j, sequence := range s.order[:active] {
			k.step(&l, s, sequence, step, row(dhidden, j, k.width), row(carriedC, j, k.width), dgates[j*far:][:wide], work[:2*k.width])
		}
		if step > 0 || k.dh0 != nil {
			kernel.GemmPacked(active, k.fed, wide, 1, dgates, far, tensor.Data[T](k.packed), 0, carried, k.fed, work[2*k.width:])
		}
	}
	for j, sequence := range s.order {
		if k.dh0 != nil {
			copy(row(tensor.Data[T](k.dh0), sequence, k.fed), row(carried, j, k.fed))
		}
		if k.dc0 != nil {
			copy(row(tensor.Data[T](k.dc0), sequence, k.width), row(carriedC, j, k.width))
		}
	}
	return nil
}

// step computes the gradient of one step of one sequence from that of its hidden value: dInput, and carriedC for the step before.
func (k *backward[T]) step(l *kernel.LSTM[T], s *steps, sequence, step int, dhidden, carriedC, dgates, work []T) {
	at := s.row(sequence, step)
	if k.dcells != nil {
		kernel.Add(carriedC, carriedC, row(tensor.Data[T](k.dcells), at, k.width), 1, k.width, 1)
	}
	cells := tensor.Data[T](k.cells)
	l.Backward(dgates, carriedC, dhidden, row(tensor.Data[T](k.gates), at, 4*k.width), row(cells, at, k.width),
		row(tensor.Data[T](k.active), at, k.width),
		before(cells, k.c0, k.width, s, sequence, step), work[:k.width])
	copy(row(tensor.Data[T](k.dinput), at, 4*k.width), dgates)
	if k.states == nil {
		return
	}
	state := row(tensor.Data[T](k.states), at, k.fed)
	if previous := before(tensor.Data[T](k.output), k.h0, k.fed, s, sequence, step); previous != nil {
		copy(state, previous)
	} else {
		clear(state)
	}
}

// weights computes rows [from, to) of dWeight.
func (k *backward[T]) weights(part, from, to int) error {
	work := ops.Part(tensor.Data[T](k.work), part, k.workspace+2*k.width)
	kernel.Gemm(true, false, to-from, 4*k.width, int(k.value.Dims()[0]), 1, tail(tensor.Data[T](k.states), from), k.fed,
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
			l.PeepholeGrad(dbias[wide:], row(dinput, at, wide), row(cells, at, k.width), before(cells, k.c0, k.width, &s, sequence, step))
		}
	}
	return nil
}
