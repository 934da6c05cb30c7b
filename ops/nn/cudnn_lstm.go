package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

var cudnnForm = &networkForm{mode: "LSTM", first: []string{"InitH", "InitC"}, last: []string{"LastH", "LastC"}, weights: []string{"WeightList", "W"}}

func init() {
	unread := func(name string, byDefault any) ops.Attr {
		return ops.Attr{Name: name, Doc: "has no effect", Default: byDefault}
	}
	opkit.Register(ops.Def{
		Type: "cudnn_lstm",
		Doc: "Reads sequences of one length, or of lengths that SequenceLength gives, with layers of lstm as rnn with the mode LSTM does. W has all weights of rnn in one vector, in the order of cuDNN: Wi and Wh of each " +
			"layer and direction, and after all of them bi and bh of each; the rows of a matrix are those of the gates i, f, g, o.",
		Inputs: []ops.Slot{{Name: "Input", Doc: "float [steps, N, width]"},
			{Name: "InitH", Doc: "the first h, [layers*directions, N, hidden_size]"}, {Name: "InitC", Doc: "the first c, as InitH"},
			{Name: "W", Doc: "all weights", Dispensable: true}, {Name: "WeightList", Doc: "the weights as rnn has them, in place of W", Duplicable: true, Dispensable: true},
			{Name: "SequenceLength", Doc: "int32 or int64 [N]: the steps of each sequence", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "h of each step of the last layer, [steps, N, directions*hidden_size]"},
			{Name: "LastH", Doc: "the last h, as InitH; Fluid before 2.0 calls it last_h", Dispensable: true}, {Name: "LastC", Doc: "the last c, as InitH; before, last_c", Dispensable: true},
			{Name: "Reserve", Doc: "what the gradient reads, which it computes again without", Dispensable: true, Intermediate: true},
			{Name: "StateOut", Doc: "[1]: 0", Dispensable: true, Intermediate: true}},
		Attrs: []ops.Attr{{Name: "hidden_size", Doc: "width of the state, from 1", Default: int32(100)}, {Name: "num_layers", Doc: "layers, from 1", Default: int32(1)},
			{Name: "is_bidirec", Doc: "whether each layer reads backwards too: the halves of what it gives are those of both directions", Default: false},
			{Name: "dropout_prob", Doc: "share of what a layer gives to the next that is dropped in training", Default: float32(0)},
			{Name: "is_test", Doc: "whether nothing is dropped", Default: false}, {Name: "seed", Doc: "key of what is dropped", Default: int32(0)},
			unread("max_len", int32(20)), unread("input_size", int32(10)), unread("batch_size", int32(10)), unread("fix_seed", false)},
		Infer: func(s *ops.Shapes) error {
			s.Set("StateOut", s.In("Input").DType, 1)
			return cudnnForm.infer(s)
		},
		MixesRows:    opkit.Mixes,
		RecordsAlong: map[string]int{"Input": 1, "InitH": 1, "InitC": 1, "SequenceLength": 0, "Out": 1, "LastH": 1, "LastC": 1},
		Cost:         cudnnForm.cost,
		Bind:         opkit.BindFloats("Input", bindCudnnLSTM[float32], bindCudnnLSTM[float64]),
	}, opkit.Gradient{
		Doc:    "backpropagation through the steps of each layer, the last one first.",
		Inputs: []string{"Input", "InitH", "InitC", "W", "WeightList", "SequenceLength"}, Outputs: []string{"Out", "Reserve"}, From: []string{"Out", "LastH", "LastC"},
		Wrt:  []string{"Input", "InitH", "InitC", "W", "WeightList"},
		Bind: opkit.BindFloats("Input", bindRNNGrad[float32](cudnnForm), bindRNNGrad[float64](cudnnForm)),
	})
}

func bindCudnnLSTM[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	r := readingOf[T](b, cudnnForm, b.Out("Out"), b.Out("Reserve"))
	loops := r.forward(tensorsOf(cudnnForm.last, "", b.Outs))
	if state := b.Out("StateOut"); state != nil {
		loops = append(loops, ops.Loop{N: 1, Apart: true, Reads: []string{}, Writes: []string{"StateOut"}, Run: func(int, int, int) error {
			clear(tensor.Data[T](state))
			return nil
		}})
	}
	return b.Loops(loops...)
}
