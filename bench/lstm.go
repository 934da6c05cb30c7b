package bench

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// lstm tells the sentiment of sentences of one length: long short-term memory over embedded words, and the largest of each of its outputs.
func lstm(b *builder, _ string) layers.Variable {
	const batch, length, vocabulary, width, hidden = 128, 100, 5147, 128, 512
	words := b.sentences("words", vocabulary, batch, length)
	gates := layers.FC(layers.Embedding(words, vocabulary, width), 4*hidden)
	state, _ := layers.DynamicLSTM(gates, 4*hidden, layers.NoPeepholes())
	b.multiplies(batch*length*width*4*hidden, false)
	b.multiplies(batch*(length-1)*hidden*4*hidden, false) // nothing comes before the first step
	b.multiplies(batch*hidden*2, false)
	return b.classify(layers.FC(layers.SequencePool(state, "max"), 2), batch, 2)
}

// sentences declares an input of words, with a value for every batch of so many sentences of a length.
func (b *builder) sentences(name string, vocabulary, batch, length int64) layers.Variable {
	feed(b, name, batch*length, []int64{1}, func() int64 { return b.random.Int64N(vocabulary) })
	offsets := make([]int64, batch+1)
	for i := range offsets {
		offsets[i] = int64(i) * length
	}
	for _, f := range b.feeds {
		f[name].SetLoD([][]int64{offsets})
	}
	return layers.Data(b.Model, name, layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
}
