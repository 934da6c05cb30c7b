package bench

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// ctr guesses from 26 ids and 13 numbers whether an advertisement is clicked, by a factorization machine beside a network (DeepFM, Guo et
// al. 2017). The ids are rows of two tables, whose gradients are sparse. Small ids are frequent, as in logs of clicks.
func ctr(b *builder, _ string) layers.Variable {
	const batch, slots, width, vocabulary, numbers, hidden = 512, 26, 10, 1000001, 13, 400
	feed(b, "ids", batch, []int64{slots, 1}, func() int64 {
		u := b.random.Float64()
		return int64(u * u * u * (vocabulary - 1))
	})
	ids := layers.Data(b.Model, "ids", layers.Dims(slots, 1), layers.DType(tensor.Int64))
	dense := b.numbers("numbers", batch, numbers)

	embedding := b.table(ids, "embedding", vocabulary, width, batch*slots, layers.Uniform(-1e-3, 1e-3))
	weights := b.table(ids, "weights", vocabulary, 1, batch*slots, layers.Constant(0))
	linear := layers.Add(layers.ReduceSum(weights, layers.Axes(1)), layers.FC(dense, 1))

	sum := layers.ReduceSum(embedding, layers.Axes(1))
	pairs := layers.Sub(layers.Square(sum), layers.ReduceSum(layers.Square(embedding), layers.Axes(1)))
	machine := layers.Scale(layers.ReduceSum(pairs, layers.Axes(1), layers.KeepDims()), 0.5, 0)

	h := layers.Concat([]layers.Variable{layers.Reshape(embedding, []int64{-1, slots * width}), dense}, 1)
	for range 3 {
		h = layers.FC(h, hidden, layers.Act("relu"))
	}
	b.multiplies(batch*((slots*width+numbers)*hidden+2*hidden*hidden+hidden), false)

	logit := layers.Sums([]layers.Variable{linear, machine, layers.FC(h, 1)})
	feed(b, "clicked", batch, []int64{1}, func() float32 { return float32(b.random.IntN(2)) })
	clicked := layers.Data(b.Model, "clicked", layers.Dims(1))
	return layers.Mean(layers.SigmoidCrossEntropyWithLogits(logit, clicked), layers.Name("loss"))
}
