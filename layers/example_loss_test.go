package layers_test

import (
	"fmt"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

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
