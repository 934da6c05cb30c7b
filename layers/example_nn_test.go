package layers_test

import (
	"fmt"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// A filter of ones adds up each window of 2 x 2 pixels.
func ExampleConv2D() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 9, 1, 2, 3, 4, 5, 6, 7, 8, 9), []int64{0, 1, 3, 3})
	ones := layers.Param(layers.ParamAttr{Initializer: layers.Constant(1)})
	s.print(layers.Conv2D(image, 1, 2, ones, layers.NoBias()))
	s.print(layers.Conv2D(image, 1, 2, ones, layers.NoBias(), layers.Padding(1, 1), layers.Stride(2, 2)))
	// Output:
	// [1 1 2 2] [12 16 24 28]
	// [1 1 2 2] [1 5 11 28]
}

func ExamplePool2D() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16), []int64{0, 1, 4, 4})
	s.print(
		layers.Pool2D(image, 2, layers.Stride(2, 2)),
		layers.Pool2D(image, 0, layers.AvgPool(), layers.GlobalPooling()),
	)
	// Output:
	// [1 1 2 2] [6 8 14 16]
	// [1 1 1 1] [8.5]
}

// Windows of 2 x 2 at every pixel: padding on the right and below keeps the size.
func ExamplePaddingSame() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 9, 1, 2, 3, 4, 5, 6, 7, 8, 9), []int64{0, 1, 3, 3})
	s.print(layers.Pool2D(image, 2, layers.PaddingSame()))
	// Output: [1 1 3 3] [5 6 6 8 9 9 8 9 9]
}

// Four windows, each of two rows and two columns: they overlap in the middle of three.
func ExampleAdaptivePool2D() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 9, 1, 2, 3, 4, 5, 6, 7, 8, 9), []int64{0, 1, 3, 3})
	s.print(layers.AdaptivePool2D(image, 2, 2, layers.AvgPool()))
	// Output: [1 1 2 2] [3 4 6 7]
}

// One filter over images whose two channels come last.
func ExampleChannelsLast() {
	s := newSketch()
	image := layers.Reshape(s.numbers("pixels", 8, 1, 10, 2, 20, 3, 30, 4, 40), []int64{0, 2, 2, 2})
	ones := layers.Param(layers.ParamAttr{Initializer: layers.Constant(1)})
	s.print(layers.Conv2D(image, 1, 2, ones, layers.ChannelsLast()))
	// Output: [1 1 1 1] [110]
}

// Each channel of the batch gets mean 0 and variance 1.
func ExampleBatchNorm() {
	s := newSketch()
	s.print(layers.BatchNorm(s.numbers("x", 2, 1, 10, 3, 30)))
	// Output: [2 2] [-1 -1 1 1]
}

// Each record gets mean 0 and variance 1.
func ExampleLayerNorm() {
	s := newSketch()
	s.print(layers.LayerNorm(s.numbers("x", 2, 1, 3, 10, 30)))
	// Output: [2 2] [-1 1 -1 1]
}

// A clone for testing drops nothing; the scale makes up for what training drops.
func ExampleDropout() {
	s := newSketch()
	layers.Dropout(s.numbers("x", 2, 1, 2), 0.5, layers.UpscaleInTrain())
	p, err := s.Program()
	if err != nil {
		fmt.Println(err)
		return
	}
	op := p.CloneForTest().Global().Ops[0]
	testing, _ := op.Bool("is_test")
	fmt.Println(op.Type, testing)
	// Output: dropout true
}

func ExampleSimpleImgConvPool() {
	m := layers.NewModel()
	image := layers.Data(m, "image", layers.Dims(1, 28, 28))
	h := layers.SimpleImgConvPool(image, 20, 5, 2, 2, layers.Act("relu"))
	h = layers.BatchNorm(h)
	fmt.Println(layers.SimpleImgConvPool(h, 50, 5, 2, 2, layers.Act("relu")))
	// Output: pool2d_1.tmp_0 float32[-1 50 4 4]
}

func ExampleSquareErrorCost() {
	s := newSketch()
	s.print(layers.SquareErrorCost(s.numbers("prediction", 1, 1, 2), s.numbers("label", 1, 1, 5)))
	// Output: [2 1] [0 9]
}

func ExampleSoftmax() {
	s := newSketch()
	s.print(layers.Softmax(s.numbers("logits", 3, 0, 1, 2)))
	// Output: [1 3] [0.09 0.245 0.665]
}

func ExampleCrossEntropy() {
	s := newSketch()
	probabilities := s.numbers("probabilities", 2, 0.5, 0.5, 0.1, 0.9)
	s.print(layers.CrossEntropy(probabilities, s.classes("label", 0, 1)))
	// Output: [2 1] [0.693 0.105]
}

func ExampleLogLoss() {
	s := newSketch()
	s.print(layers.LogLoss(s.numbers("probability", 1, 0.5, 0.9), s.numbers("label", 1, 0, 1)))
	// Output: [2 1] [0.693 0.105]
}

// Large logits lose no precision.
func ExampleSigmoidCrossEntropyWithLogits() {
	s := newSketch()
	s.print(layers.SigmoidCrossEntropyWithLogits(s.numbers("logit", 1, 0, 100), s.numbers("label", 1, 1, 0)))
	// Output: [2 1] [0.693 100]
}

func ExampleAccuracy() {
	s := newSketch()
	probabilities := s.numbers("probabilities", 3, 0.7, 0.2, 0.1, 0.1, 0.6, 0.3)
	label := s.classes("label", 0, 2)
	s.print(layers.Accuracy(probabilities, label), layers.Accuracy(probabilities, label, layers.K(2)))
	// Output:
	// [1] [0.5]
	// [1] [1]
}

// Of the four pairs of a record of label 1 and one of label 0, three are in the right order.
func ExampleAUC() {
	s := newSketch()
	s.print(layers.AUC(s.numbers("probability", 1, 0.9, 0.8, 0.3, 0.1), s.classes("label", 1, 0, 1, 0)))
	// Output: [1] [0.75]
}

func ExampleSoftmaxWithCrossEntropy() {
	m := layers.NewModel()
	logits := layers.Data(m, "logits", layers.Dims(10))
	label := layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
	loss, probabilities := layers.SoftmaxWithCrossEntropy(logits, label)
	fmt.Println(layers.Mean(loss))
	fmt.Println(layers.Accuracy(probabilities, label, layers.K(5)))
	// Output:
	// mean_0.tmp_0 float32[1]
	// accuracy_0.tmp_2 float32[1]
}

// sequences declares a variable of rows of the given width that are cut into sequences of these lengths, and feeds these values.
func (s *sketch) sequences(name string, width int64, lengths []int64, values ...float32) layers.Variable {
	offsets := []int64{0}
	for _, n := range lengths {
		offsets = append(offsets, offsets[len(offsets)-1]+n)
	}
	rows, _ := tensor.FromSlice(values, int64(len(values))/width, width)
	rows.SetLoD([][]int64{offsets})
	s.feed[name] = rows
	return layers.Data(s.Model, name, layers.Dims(width), layers.LoD(1))
}

// Two sequences, of three rows and of one.
func ExampleSequencePool() {
	s := newSketch()
	x := s.sequences("x", 2, []int64{3, 1}, 1, 8, 3, -2, 5, 0, 7, 7)
	s.print(
		layers.SequencePool(x, "max"),
		layers.SequencePool(x, "average"),
		layers.SequencePool(x, "sum"),
	)
	// Output:
	// [2 2] [5 8 7 7]
	// [2 2] [3 2 7 7]
	// [2 2] [9 6 7 7]
}

func ExampleSequenceFirstStep() {
	s := newSketch()
	s.print(layers.SequenceFirstStep(s.sequences("x", 2, []int64{3, 1}, 1, 8, 3, -2, 5, 0, 7, 7)))
	// Output: [2 2] [1 8 7 7]
}

func ExampleSequenceLastStep() {
	s := newSketch()
	s.print(layers.SequenceLastStep(s.sequences("x", 2, []int64{3, 1}, 1, 8, 3, -2, 5, 0, 7, 7)))
	// Output: [2 2] [5 0 7 7]
}

// With weights of 0 nothing is remembered of the steps before but the cell, which gates that are open at 100 add up.
func ExampleDynamicLSTM() {
	s := newSketch()
	gates := s.sequences("gates", 4, []int64{3, 1},
		1, 100, 100, 100,
		2, 100, 100, 100,
		3, 100, 100, 100,
		4, 100, 100, 100)
	hidden, cell := layers.DynamicLSTM(gates, 4, layers.NoPeepholes(), layers.LSTMActs("sigmoid", "tanh", "identity"),
		layers.Param(layers.ParamAttr{Initializer: layers.Constant(0)}))
	s.print(cell, layers.SequenceLastStep(hidden))
	// Output:
	// [4 1] [1 3 6 4]
	// [2 1] [1 0.999]
}

// Two cells that gates at 100 leave open become one number, which only a bound of 3 keeps from growing.
func ExampleDynamicLSTMP() {
	s := newSketch()
	gates := s.sequences("gates", 8, []int64{2, 1},
		1, 1, 100, 100, 100, 100, 100, 100,
		1, 1, 100, 100, 100, 100, 100, 100,
		0.5, 0.5, 100, 100, 100, 100, 100, 100)
	projected, cell := layers.DynamicLSTMP(gates, 8, 1, layers.NoPeepholes(), layers.LSTMActs("sigmoid", "identity", "identity"), layers.ProjectionClip(3),
		layers.Param(layers.ParamAttr{Initializer: layers.Constant(1)}))
	s.print(projected, cell) // the second step adds 1 and the projection 2 of the first
	// Output:
	// [3 1] [2 3 1]
	// [3 2] [1 1 4 4 0.5 0.5]
}
