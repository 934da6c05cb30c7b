package nn

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// gatesOf says how many numbers of the width of the state a step of each kind of network computes.
var gatesOf = map[string]int{"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}

// mostLayers bounds the layers of a network.
const mostLayers = 64

func init() {
	opkit.Register(ops.Def{
		Type: "rnn",
		Doc: "Reads sequences of one length, or of lengths that SequenceLength gives, with layers of a recurrent network. With a = Wi*x + bi and b = Wh*h + bh, RNN_TANH and RNN_RELU compute " +
			"h = f(a + b). LSTM has the gates i, f, o = sigmoid(a + b) and g = tanh(a + b), in the order i, f, g, o, and computes c = f*c + i*g and h = o*tanh(c). GRU has r, z = sigmoid(a + b) and " +
			"n = tanh(a + r*b), in this order, and computes h = z*h + (1 - z)*n. Steps beyond the length of a sequence give 0 and leave the state. In training, a layer reads what the layer before gives with " +
			"a share of dropout_prob set to 0 at random, and the rest divided by 1 - dropout_prob.",
		Inputs: []ops.Slot{{Name: "Input", Doc: "float [steps, N, input_size]"},
			{Name: "PreState", Doc: "the first states [layers*directions, N, hidden_size]: h, and for LSTM c", Duplicable: true},
			{Name: "WeightList", Doc: "for each layer and direction Wi [gates*hidden_size, width] and Wh [gates*hidden_size, hidden_size], and after all of them bi and bh [gates*hidden_size] of each", Duplicable: true},
			{Name: "SequenceLength", Doc: "int32 or int64 [N]: the steps of each sequence", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "h of each step of the last layer, [steps, N, directions*hidden_size]"},
			{Name: "State", Doc: "the last states, as PreState", Duplicable: true},
			{Name: "Reserve", Doc: "what the gradient reads", Intermediate: true},
			{Name: "DropoutState", Doc: "[1]: nothing", Dispensable: true, Intermediate: true}},
		Attrs: []ops.Attr{{Name: "mode", Doc: "LSTM, GRU, RNN_TANH or RNN_RELU", Kind: "", Check: func(op *program.Op) error {
			if mode, _ := op.Str("mode"); gatesOf[mode] == 0 {
				return errors.New("LSTM, GRU, RNN_TANH or RNN_RELU")
			}
			return nil
		}},
			{Name: "hidden_size", Doc: "width of the state, from 1", Default: int32(100)}, {Name: "input_size", Doc: "width of Input", Default: int32(10)},
			{Name: "num_layers", Doc: "layers, from 1", Default: int32(1)},
			{Name: "is_bidirec", Doc: "whether each layer reads backwards too: the halves of what it gives are those of both directions", Default: false},
			{Name: "dropout_prob", Doc: "share of what a layer gives to the next that is dropped in training", Default: float32(0)},
			{Name: "is_test", Doc: "whether nothing is dropped", Default: false}, {Name: "seed", Doc: "key of what is dropped", Default: int32(0)}},
		Infer: func(s *ops.Shapes) error {
			s.Set("DropoutState", s.In("Input").DType, 1)
			return rnnForm.infer(s)
		},
		MixesRows:    opkit.Mixes,
		RecordsAlong: map[string]int{"Input": 1, "PreState": 1, "SequenceLength": 0, "Out": 1, "State": 1},
		Cost:         rnnForm.cost,
		Bind:         opkit.BindFloats("Input", bindRNN[float32](rnnForm), bindRNN[float64](rnnForm)),
	}, opkit.Gradient{
		Doc:    "backpropagation through the steps of each layer, the last one first.",
		Inputs: []string{"Input", "PreState", "WeightList", "SequenceLength"}, Outputs: []string{"Out", "Reserve"}, From: []string{"Out", "State"},
		Wrt:  []string{"Input", "PreState", "WeightList"},
		Bind: opkit.BindFloats("Input", bindRNNGrad[float32](rnnForm), bindRNNGrad[float64](rnnForm)),
	})
}

// A network is what the attributes and dims of an rnn say.
type network struct {
	mode                               string
	steps, batch, input, hidden, gates int // gates counts numbers: gates*hidden_size
	layers, directions                 int
	drops                              float64 // share of what a layer gives to the next that is dropped; 0 where nothing is
}

func networkOf(a interface {
	Int(string) int64
	Bool(string) bool
	Float(string) float64
}, mode string, input []int64) network {
	n := network{mode: mode, steps: int(input[0]), batch: int(input[1]), input: int(input[2]), hidden: int(a.Int("hidden_size")), layers: int(a.Int("num_layers")), directions: 1}
	n.gates = gatesOf[n.mode] * n.hidden
	if a.Bool("is_bidirec") {
		n.directions = 2
	}
	if !a.Bool("is_test") && n.layers > 1 {
		n.drops = a.Float("dropout_prob")
	}
	return n
}

// width is the width of what a layer reads.
func (n *network) width(layer int) int {
	if layer == 0 {
		return n.input
	}
	return n.directions * n.hidden
}

// states is how many kinds of state the network has.
func (n *network) states() int {
	if n.mode == "LSTM" {
		return 2
	}
	return 1
}

// each is the part of Reserve of a layer and direction: the gates and one more number for each element of the state, the cell of LSTM, and b of n of GRU.
func (n *network) each() int { return n.steps * n.batch * (n.gates + n.hidden) }

// between is the part of Reserve of what a layer gives to the next.
func (n *network) between() int { return n.steps * n.batch * n.directions * n.hidden }

// betweens is how many parts of that size Reserve has: one for each layer but the last, and where numbers are dropped one more for the mask and one for what is left.
func (n *network) betweens() int {
	if n.drops > 0 {
		return 3 * (n.layers - 1)
	}
	return n.layers - 1
}

// A networkForm is how an op names what all networks have.
type networkForm struct {
	mode        string   // "" where an attribute says it
	first, last []string // slots of the states: one for all kinds, or one for each
	weights     []string // slots of the weights
}

var rnnForm = &networkForm{first: []string{"PreState"}, last: []string{"State"}, weights: []string{"WeightList"}}

func (f *networkForm) modeOf(a interface{ Str(string) string }) string {
	if f.mode != "" {
		return f.mode
	}
	return a.Str("mode")
}

// checkStates checks the first states, and that there are no more last states than kinds.
func (f *networkForm) checkStates(s *ops.Shapes, n *network, state []int64) error {
	var have, names []string
	for _, slot := range f.first {
		names = append(names, s.Op().Inputs[slot]...)
	}
	for _, slot := range f.last {
		have = append(have, s.Op().Outputs[slot]...)
	}
	if len(names) != n.states() || len(have) > n.states() {
		return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Gotf("%d first states and %d last ones", len(names), len(have)), fault.Wantf("%d for %s", n.states(), n.mode))
	}
	for _, slot := range f.first {
		for i, m := range s.Ins(slot) {
			if !ops.Compatible(m.Dims, state) {
				return fault.E(fault.ShapeMismatch, fault.On(s.Op()), fault.Var(s.Op().Inputs[slot][i]), fault.Gotf("%s %v", slot, m), fault.Wantf("dims %v", state))
			}
		}
	}
	return nil
}

// checkWeights checks the list of weights, or one vector of all.
func (f *networkForm) checkWeights(s *ops.Shapes, n *network) error {
	all, open := n.layers*n.directions, s.In("Input").Dims[2]
	dimsOf := func(i int) []int64 {
		want := []int64{int64(n.gates)}
		if i < 2*all {
			want = []int64{int64(n.gates), int64(n.hidden)}
			if layer := i / 2 / n.directions; i%2 == 0 {
				want[1] = int64(n.width(layer))
				if layer == 0 {
					want[1] = open
				}
			}
		}
		return want
	}
	if len(f.weights) > 1 && s.Has(f.weights[1]) {
		if s.Has(f.weights[0]) {
			return s.Errorf(f.weights[1], "weights in %s or in %s", f.weights[0], f.weights[1])
		}
		size := int64(0)
		for i := range 4 * all {
			if each := ops.Product(dimsOf(i)); each < 0 || size < 0 {
				size = program.Unknown
			} else {
				size += each
			}
		}
		if !opkit.Agree(ops.Product(s.In(f.weights[1]).Dims), size) {
			return s.Errorf(f.weights[1], "%d numbers", size)
		}
		return nil
	}
	list := f.weights[0]
	if len(s.Ins(list)) != 4*all {
		return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Gotf("%d variables in %s", len(s.Ins(list)), list), fault.Wantf("%d, four for each layer and direction", 4*all))
	}
	for i, m := range s.Ins(list) {
		if want := dimsOf(i); !ops.Compatible(m.Dims, want) {
			return fault.E(fault.ShapeMismatch, fault.On(s.Op()), fault.Var(s.Op().Inputs[list][i]), fault.Gotf("weight %d %v", i, m), fault.Wantf("dims %v", want))
		}
	}
	return nil
}

func (f *networkForm) infer(s *ops.Shapes) error {
	if err := s.IsFloat("Input"); err != nil {
		return err
	}
	if err := s.SameType(slices.Concat([]string{"Input"}, f.first, f.weights)...); err != nil {
		return err
	}
	if err := s.Rank("Input", 3); err != nil {
		return err
	}
	x := s.In("Input")
	if h := s.Int("hidden_size"); h < 1 || h > math.MaxInt16*16 {
		return opkit.BadAttr(s, "hidden_size", "1 to %d", math.MaxInt16*16)
	}
	if l := s.Int("num_layers"); l < 1 || l > mostLayers {
		return opkit.BadAttr(s, "num_layers", "1 to %d", mostLayers)
	}
	if p := s.Float("dropout_prob"); !(p >= 0 && p <= 1) {
		return opkit.BadAttr(s, "dropout_prob", "0 to 1")
	}
	n := networkOf(s, f.modeOf(s), x.Dims)
	all, hidden := n.layers*n.directions, int64(n.hidden)
	state := []int64{int64(all), x.Dims[1], hidden}
	if err := f.checkStates(s, &n, state); err != nil {
		return err
	}
	if err := f.checkWeights(s, &n); err != nil {
		return err
	}
	if s.Has("SequenceLength") {
		length := s.In("SequenceLength")
		if err := opkit.CheckType(s, "SequenceLength", length.DType == tensor.Int32 || length.DType == tensor.Int64, "int32 or int64"); err != nil {
			return err
		}
		if !ops.Compatible(length.Dims, x.Dims[1:2]) {
			return s.Errorf("SequenceLength", "dims %v", x.Dims[1:2])
		}
	}
	s.Set("Out", x.DType, x.Dims[0], x.Dims[1], int64(n.directions)*hidden)
	for _, slot := range f.last {
		s.Set(slot, x.DType, state...)
	}
	reserve := int64(program.Unknown)
	if places := ops.Product(x.Dims[:2]); places >= 0 {
		reserve = ops.Product([]int64{places, int64(all)*(int64(n.gates)+hidden) + int64(n.betweens())*int64(n.directions)*hidden})
	}
	s.Set("Reserve", x.DType, reserve)
	return nil
}

func (f *networkForm) cost(s *ops.Shapes) ops.Cost {
	size := int64(0)
	for _, slot := range f.weights {
		for _, m := range s.Ins(slot) {
			size += opkit.Size(m.Dims)
		}
	}
	return ops.Cost{Flops: opkit.Size([]int64{2, opkit.Size(s.In("Input").Dims[:min(2, len(s.In("Input").Dims))]), size}), Bytes: opkit.Bytes(s)}
}

// tensorsOf returns the tensors of slots: of the one slot, or one of each.
func tensorsOf(slots []string, suffix string, of func(slot string) []*tensor.Tensor) []*tensor.Tensor {
	if len(slots) == 1 {
		return of(slots[0] + suffix)
	}
	list := make([]*tensor.Tensor, len(slots))
	for i, slot := range slots {
		if t := of(slot + suffix); len(t) > 0 {
			list[i] = t[0]
		}
	}
	return list
}

// A reading is a network bound to tensors.
type reading[T tensor.Float] struct {
	network
	b             *ops.Binding
	input, length *tensor.Tensor
	first         []*tensor.Tensor // states of each kind
	weights       []*tensor.Tensor // one for each weight, or one of all where they are packed
	packed        string           // the slot of the vector of all weights, "" for a list
	out, reserve  *tensor.Tensor
}

func readingOf[T tensor.Float](b *ops.Binding, f *networkForm, out, reserve *tensor.Tensor) *reading[T] {
	r := &reading[T]{network: networkOf(b, f.modeOf(b), b.In("Input").Dims()), b: b, input: b.In("Input"), length: b.In("SequenceLength"), first: tensorsOf(f.first, "", b.Ins),
		weights: b.Ins(f.weights[0]), out: out, reserve: reserve}
	if len(f.weights) > 1 && b.In(f.weights[1]) != nil {
		r.packed, r.weights = f.weights[1], b.Ins(f.weights[1])
	}
	if r.out == nil {
		r.out = b.Scratch(tensor.Of[T](), r.between())
	}
	if r.reserve == nil {
		r.reserve = b.Scratch(tensor.Of[T](), r.layers*r.directions*r.each()+r.betweens()*r.between())
	}
	return r
}

// lengthOf returns the steps of a sequence, and checks what comes from outside.
func (r *reading[T]) lengthOf(row int) (int, error) {
	if r.length == nil {
		return r.steps, nil
	}
	n := int64(0)
	if r.length.DType() == tensor.Int32 {
		n = int64(r.length.Int32s()[row])
	} else {
		n = r.length.Int64s()[row]
	}
	if n < 0 || n > int64(r.steps) {
		return 0, fault.E(fault.InvalidArgument, fault.On(r.b.Op()), fault.Var(r.b.Op().In("SequenceLength")), fault.Gotf("%d steps of sequence %d", n, row), fault.Wantf("0 to %d", r.steps))
	}
	return int(n), nil
}

// at returns the step that a direction reads as its k-th.
func (r *reading[T]) at(direction, k, length int) int {
	if direction == 1 {
		return length - 1 - k
	}
	return k
}

// gatesAt and moreAt are the parts of Reserve of a layer and direction.
func (r *reading[T]) gatesAt(index int) []T {
	return tensor.Data[T](r.reserve)[index*r.each():][:r.steps*r.batch*r.gates]
}

func (r *reading[T]) moreAt(index int) []T {
	return tensor.Data[T](r.reserve)[index*r.each()+r.steps*r.batch*r.gates:][:r.steps*r.batch*r.hidden]
}

// given returns what a layer gives.
func (r *reading[T]) given(layer int) []T {
	if layer == r.layers-1 {
		return tensor.Data[T](r.out)
	}
	return r.part(layer)
}

// part returns a part of Reserve behind those of the layers and directions.
func (r *reading[T]) part(i int) []T {
	return tensor.Data[T](r.reserve)[r.layers*r.directions*r.each()+i*r.between():][:r.between()]
}

// mask holds 0 where what a layer gives is dropped, else 1; left is what the next layer reads: left = given*mask/(1 - dropout_prob).
func (r *reading[T]) mask(layer int) []T { return r.part(r.layers - 1 + layer) }

func (r *reading[T]) left(layer int) []T { return r.part(2*(r.layers-1) + layer) }

// drop returns the loop that drops numbers of what a layer gives. The gradient, which may compute them again, drops the same. What a record loses depends on its place in the batch of all
// trainers, the layer and the step.
func (r *reading[T]) drop(layer int) ops.Loop {
	seed, name, step := r.b.Int("seed"), kernel.StreamOf("dropout", r.b.Op().In("Input"), r.b.Op().In(cmp.Or(r.packed, "WeightList"))), r.b.Env.Step
	width := r.directions * r.hidden
	return ops.Loop{N: r.steps * r.batch, Apart: true, Run: func(_, from, to int) error {
		mask, stream := r.mask(layer), opkit.StreamAt(name, step)
		for row := from; row < to; row++ {
			record := uint64(step.RowOffset) + uint64(row%r.batch)
			first := (record*uint64(r.layers)+uint64(layer))*uint64(r.steps) + uint64(row/r.batch)
			kernel.DropoutMask(mask[row*width:][:width], r.drops, seed, stream, first*uint64(width))
		}
		kernel.DropoutUpscale(r.left(layer)[from*width:to*width], r.given(layer)[from*width:to*width], mask[from*width:to*width], r.drops)
		return nil
	}}
}

// read returns what a layer reads.
func (r *reading[T]) read(layer int) []T {
	switch {
	case layer == 0:
		return tensor.Data[T](r.input)
	case r.drops > 0:
		return r.left(layer - 1)
	}
	return r.given(layer - 1)
}

func (r *reading[T]) weight(index, k int) []T { return r.weightIn(r.weights, index, k) }

// weightIn returns weight k of a layer and direction in tensors that are ordered as the weights are. It is nil if there is none.
func (r *reading[T]) weightIn(list []*tensor.Tensor, index, k int) []T {
	if r.packed != "" {
		if len(list) == 0 || list[0] == nil {
			return nil
		}
		from, size := r.placeOf(index, k)
		return tensor.Data[T](list[0])[from:][:size]
	}
	at := 2*index + k
	if k >= 2 {
		at = 2*r.layers*r.directions + 2*index + k - 2
	}
	if at >= len(list) || list[at] == nil {
		return nil
	}
	return tensor.Data[T](list[at])
}

// placeOf returns where a weight begins in the vector of all, and how many numbers it has: the matrices of all layers and directions come first, and then all biases.
func (r *reading[T]) placeOf(index, k int) (from, size int) {
	matrices := func(until int) (n int) {
		for i := range until {
			n += r.gates * (r.width(i/r.directions) + r.hidden)
		}
		return n
	}
	if k >= 2 {
		return matrices(r.layers*r.directions) + (2*index+k-2)*r.gates, r.gates
	}
	from, size = matrices(index), r.gates*r.hidden
	if k == 1 {
		return from + r.gates*r.width(index/r.directions), size
	}
	return from, r.gates * r.width(index/r.directions)
}

// hidden0 returns the first state of kind k.
func (r *reading[T]) hidden0(index, k int) []T {
	return tensor.Data[T](r.first[k])[index*r.batch*r.hidden:][:r.batch*r.hidden]
}

func sigmoid[T tensor.Float](x T) T { return T(1 / (1 + math.Exp(-float64(x)))) }

func tanh[T tensor.Float](x T) T { return T(math.Tanh(float64(x))) }

// step computes one step of a row. g holds a and becomes the gates, b is Wh*h without bh, and h and c are the state.
func (r *reading[T]) step(g, b, bias, more, h, c []T) {
	n := r.hidden
	switch r.mode {
	case "LSTM":
		for k := range n {
			i, f, w, o := sigmoid(g[k]+b[k]+bias[k]), sigmoid(g[n+k]+b[n+k]+bias[n+k]), tanh(g[2*n+k]+b[2*n+k]+bias[2*n+k]), sigmoid(g[3*n+k]+b[3*n+k]+bias[3*n+k])
			g[k], g[n+k], g[2*n+k], g[3*n+k] = i, f, w, o
			c[k] = T(f*c[k]) + T(i*w)
			more[k] = c[k]
			h[k] = o * tanh(c[k])
		}
	case "GRU":
		for k := range n {
			reset, z := sigmoid(g[k]+b[k]+bias[k]), sigmoid(g[n+k]+b[n+k]+bias[n+k])
			more[k] = b[2*n+k] + bias[2*n+k]
			w := tanh(g[2*n+k] + T(reset*more[k]))
			g[k], g[n+k], g[2*n+k] = reset, z, w
			h[k] = T(z*h[k]) + T((1-z)*w)
		}
	default:
		for k := range n {
			v := g[k] + b[k] + bias[k]
			if r.mode == "RNN_RELU" {
				v = max(v, 0)
			} else {
				v = tanh(v)
			}
			g[k], h[k], more[k] = v, v, 0
		}
	}
}

func bindRNN[T tensor.Float](f *networkForm) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		return b.Loops(readingOf[T](b, f, b.Out("Out"), b.Out("Reserve")).forward(tensorsOf(f.last, "", b.Outs))...)
	}
}

// forward returns the loops that read the sequences. They write the last states of each kind to last.
func (r *reading[T]) forward(last []*tensor.Tensor) (loops []ops.Loop) {
	b := r.b
	dtype := tensor.Of[T]()
	size := r.batch * r.hidden
	h, c, product := b.Scratch(dtype, size), b.Scratch(dtype, size), b.Scratch(dtype, r.batch*r.gates)
	work := 0
	for layer := range r.layers {
		work = max(work, kernel.GemmWorkspace(max(r.steps, 1)*r.batch, r.gates, max(r.width(layer), r.hidden)))
	}
	memory := b.Scratch(dtype, b.Parts()*work)
	for index := range r.layers * r.directions {
		layer, direction := index/r.directions, index%r.directions
		width := r.width(layer)
		loops = append(loops, ops.Loop{N: r.steps * r.batch, Least: 16, Apart: true, Run: func(part, from, to int) error { // a of all steps
			g := r.gatesAt(index)[from*r.gates : to*r.gates]
			kernel.Gemm(false, true, to-from, r.gates, width, 1, r.read(layer)[from*width:to*width], width, r.weight(index, 0), width, 0, g, r.gates, ops.Part(tensor.Data[T](memory), part, work))
			for i := 0; i < len(g); i += r.gates {
				for k, v := range r.weight(index, 2) {
					g[i+k] += v
				}
			}
			return nil
		}}, ops.Loop{N: r.batch, Apart: true, Run: func(part, from, to int) error {
			states, cells, products := tensor.Data[T](h), tensor.Data[T](c), tensor.Data[T](product)
			copy(states[from*r.hidden:to*r.hidden], r.hidden0(index, 0)[from*r.hidden:])
			if r.states() > 1 {
				copy(cells[from*r.hidden:to*r.hidden], r.hidden0(index, 1)[from*r.hidden:])
			}
			given := r.given(layer)
			for k := range r.steps {
				kernel.Gemm(false, true, to-from, r.gates, r.hidden, 1, states[from*r.hidden:to*r.hidden], r.hidden, r.weight(index, 1), r.hidden, 0,
					products[from*r.gates:to*r.gates], r.gates, ops.Part(tensor.Data[T](memory), part, work))
				for row := from; row < to; row++ {
					length, err := r.lengthOf(row)
					if err != nil {
						return err
					}
					if k >= length {
						clear(given[((k*r.batch+row)*r.directions+direction)*r.hidden:][:r.hidden])
						clear(r.gatesAt(index)[(k*r.batch+row)*r.gates:][:r.gates])
						clear(r.moreAt(index)[(k*r.batch+row)*r.hidden:][:r.hidden])
						continue
					}
					place := r.at(direction, k, length)*r.batch + row
					state := states[row*r.hidden:][:r.hidden]
					r.step(r.gatesAt(index)[place*r.gates:][:r.gates], products[row*r.gates:][:r.gates], r.weight(index, 3), r.moreAt(index)[place*r.hidden:][:r.hidden], state, cells[row*r.hidden:][:r.hidden])
					copy(given[(place*r.directions+direction)*r.hidden:], state)
				}
			}
			for kind, t := range last {
				if t != nil {
					copy(tensor.Data[T](t)[(index*r.batch+from)*r.hidden:(index*r.batch+to)*r.hidden], [][]T{states, cells}[kind][from*r.hidden:])
				}
			}
			return nil
		}})
		if r.drops > 0 && direction == r.directions-1 && layer < r.layers-1 {
			loops = append(loops, r.drop(layer))
		}
	}
	return loops
}
