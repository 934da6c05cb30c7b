package bench

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// extents returns the numbers in the arguments of a model. It wants at least so many numbers, each at least 1.
func extents(text, separator string, least int) ([]int64, error) {
	parts := strings.Split(text, separator)
	all := make([]int64, len(parts))
	for i, part := range parts {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil || n < 1 || len(parts) < least {
			return nil, fault.E(fault.InvalidArgument, fault.Got("arguments "+strconv.Quote(text)),
				fault.Want("at least "+strconv.Itoa(least)+" numbers with "+separator+" between them"))
		}
		all[i] = n
	}
	return all, nil
}

// batchOf returns the batch of a model whose only argument, if it has one, is the batch.
func batchOf(b *builder, arguments string, otherwise int64) int64 {
	if arguments == "" {
		return otherwise
	}
	n, err := extents(arguments, ":", 1)
	if b.err = err; err != nil {
		return 1
	}
	return n[0]
}

// fitALine is linear regression from 13 numbers to 1. It is so small that it measures the cost of a step without its arithmetic.
func fitALine(b *builder, _ string) layers.Variable {
	const batch, width = 20, 13
	x, y := b.numbers("x", batch, width), b.numbers("y", batch, 1)
	b.multiplies(batch*width, true)
	return layers.Mean(layers.SquareErrorCost(layers.FC(x, 1), y), layers.Name("loss"))
}

// mlp is the network of handwritten digits with two hidden layers.
func mlp(b *builder, _ string) layers.Variable { return fullyConnected(b, "64:784-200-200-10") }

// fullyConnected is a classifier of fully connected layers with relu between them. Its arguments are BATCH:WIDTH-WIDTH-..., from the width of
// the input to the number of classes. Weights start as He et al. (2015) draw them, so that a network of any depth stays in the range of
// normal numbers.
func fullyConnected(b *builder, arguments string) layers.Variable {
	rows, sizes, _ := strings.Cut(arguments, ":")
	batch, err := extents(rows, "-", 1)
	widths, err2 := extents(sizes, "-", 2)
	if b.err = cmp.Or(err, err2); b.err != nil {
		return layers.Variable{}
	}
	last := len(widths) - 1
	h := b.numbers("image", batch[0], widths[0])
	for i, width := range widths[1:] {
		options := []layers.Option{layers.Param(layers.ParamAttr{Initializer: layers.MSRANormal()})}
		if i+1 < last {
			options = append(options, layers.Act("relu"))
		}
		h = layers.FC(h, width, options...)
		b.multiplies(batch[0]*widths[i]*width, i == 0)
	}
	return b.classify(h, batch[0], widths[last])
}

// conv is the convolutional network of handwritten digits: twice a convolution with relu and a maximum pool, then one
// fully connected layer. Its argument is the batch; without one it is 64.
func conv(b *builder, arguments string) layers.Variable {
	const filter, classes = 5, 10
	batch := batchOf(b, arguments, 64)
	h := b.numbers("image", batch, 1, 28, 28)
	for i, filters := range []int64{20, 50} {
		channels := h.Dims()[1]
		h = layers.Conv2D(h, filters, filter, layers.Act("relu"))
		b.multiplies(batch*elements(h.Dims()[1:])*channels*filter*filter, i == 0)
		h = layers.Pool2D(h, 2, layers.Stride(2, 2))
	}
	b.multiplies(batch*elements(h.Dims()[1:])*classes, false)
	return b.classify(layers.FC(h, classes), batch, classes)
}

// ctr predicts from 26 ids and 13 numbers whether somebody clicks on an advertisement, by a factorization machine and a network (DeepFM, Guo et al.
// 2017). The ids are rows of two tables with sparse gradients. Small ids are frequent, as in logs of clicks. Its argument is the batch; without one it
// is 512.
func ctr(b *builder, arguments string) layers.Variable {
	const slots, width, vocabulary, numbers, hidden = 26, 10, 1000001, 13, 400
	batch := batchOf(b, arguments, 512)
	feed(b, "ids", batch, []int64{slots, 1}, func() int64 {
		u := b.random.Float64()
		return int64(u * u * u * (vocabulary - 1))
	})
	ids := b.input("ids", tensor.Int64, layers.Dims(slots, 1))
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
	clicked := b.input("clicked", tensor.Float32, layers.Dims(1))
	return layers.Mean(layers.SigmoidCrossEntropyWithLogits(logit, clicked), layers.Name("loss"))
}

// word2vec predicts a word from the four before it (Bengio et al. 2003).
func word2vec(b *builder, _ string) layers.Variable {
	const batch, context, vocabulary, width, hidden = 100, 4, 2073, 32, 256
	words := b.choices("words", vocabulary, batch, context, 1)
	h := layers.FC(b.table(words, "vectors", vocabulary, width, batch*context, layers.Xavier()), hidden, layers.Act("sigmoid"))
	b.multiplies(batch*context*width*hidden, false)
	b.multiplies(batch*hidden*vocabulary, false)
	return b.classify(layers.FC(h, vocabulary), batch, vocabulary)
}

// sgemm is one product of float32 matrices M x K and K x N, which stay the same from step to step. Its arguments are MxKxN.
func sgemm(b *builder, arguments string) layers.Variable {
	sides, err := extents(arguments, "x", 3)
	if err != nil {
		b.err = err
		return layers.Variable{}
	}
	m, k, n := sides[0], sides[1], sides[2]
	b.feeds = make([]executor.Feed, 1)
	left, right := b.numbers("left", m, k), b.numbers("right", k, n)
	b.flops = 2 * m * k * n
	return layers.MatMul(left, right, layers.Name("product"))
}

// flatRows is the number of rows of a parameter of a flat model. It allows a parameter to be sliced over so many servers.
const flatRows = 16

// flat computes almost nothing: it has parameters of equal size, each multiplied by a row of 16 numbers, and minimizes the sum of the means. Its
// steps measure how parameters and gradients travel. Its arguments are BATCH:PARAMETERS:BYTES, where BYTES is the size of all parameters together.
func flat(b *builder, arguments string) layers.Variable {
	n, err := extents(arguments, ":", 3)
	if err == nil && n[2] < 4*flatRows*n[1] {
		err = fault.E(fault.InvalidArgument, fault.Got(strconv.FormatInt(n[2], 10)+" bytes of parameters"),
			fault.Wantf("at least %d for each of %d parameters", 4*flatRows, n[1]))
	}
	if b.err = err; err != nil {
		return layers.Variable{}
	}
	batch, parameters, columns := n[0], n[1], n[2]/(4*flatRows*n[1])
	x := b.numbers("x", batch, flatRows)
	means := make([]layers.Variable, parameters)
	for i := range means {
		b.multiplies(batch*flatRows*columns, true)
		means[i] = layers.Mean(layers.FC(x, columns, layers.NoBias(), layers.Param(layers.ParamAttr{Initializer: layers.Constant(0)})))
	}
	if len(means) == 1 {
		return means[0]
	}
	return layers.Sums(means, layers.Name("loss"))
}
