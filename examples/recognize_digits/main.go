// Recognize_digits tells which digit a picture of 28x28 pixels shows, by a network of fully connected layers or of convolutions.
//
//	go run ./examples/recognize_digits -net conv -out /tmp/digits
//
// Without -mnist-images FILE and -mnist-labels FILE it trains on digits rendered from Go's own fonts. Of MNIST's pictures the
// last 1,000 are the test set.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A network returns a score for each of the ten digits.
type network func(image layers.Variable) layers.Variable

var networks = map[string]network{"mlp": perceptron, "conv": convolutions}

func perceptron(image layers.Variable) layers.Variable {
	hidden := layers.FC(image, 128, layers.Act("relu"))
	hidden = layers.FC(hidden, 64, layers.Act("relu"))
	return layers.FC(hidden, 10)
}

func convolutions(image layers.Variable) layers.Variable {
	h := layers.SimpleImgConvPool(image, 20, 5, 2, 2, layers.Act("relu"))
	h = layers.SimpleImgConvPool(h, 50, 5, 2, 2, layers.Act("relu"))
	return layers.FC(h, 10)
}

// evaluate reads a dataset and returns the loss and the share of digits that are recognized.
func evaluate(m *layers.Model, data string, net network) (loss, accuracy layers.Variable) {
	pictures := layers.OpenDataset(m, data, layers.Field("image", layers.Dims(1, 28, 28)),
		layers.Field("label", layers.Dims(1), layers.DType(tensor.Int64)))
	batch := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(pictures, 10000, 1), 64)))
	image, label := batch[0], batch[1]
	ink := layers.Scale(image, 0.5, 0.5) // from -1..1 to 0..1: paper becomes 0, so most inputs are 0 and training is easier
	cost, probabilities := layers.SoftmaxWithCrossEntropy(net(ink), label)
	return layers.Mean(cost, layers.Name("loss")), layers.Accuracy(probabilities, label, layers.Name("accuracy"))
}

func train(net network) (*program.Program, error) {
	m := layers.NewModel().Seed(1)
	loss, _ := evaluate(m, "train", net)
	optimizer.Adam(0.002).Minimize(loss)
	return m.Program()
}

// test is the same network as it behaves after training.
func test(net network) (*program.Program, error) {
	m := layers.NewModel()
	evaluate(m, "test", net)
	p, err := m.Program()
	if err != nil {
		return nil, err
	}
	return p.CloneForTest(), nil
}

var (
	net    = flag.String("net", "mlp", "network: mlp or conv")
	images = flag.String("mnist-images", "", "images of MNIST, an idx file, gzipped or not")
	labels = flag.String("mnist-labels", "", "labels of MNIST, likewise")
)

func main() {
	os.Exit(page.Main(func(out string) error { return write(out, *net, *images, *labels) }))
}

func write(out, net, images, labels string) error {
	n, ok := networks[net]
	if !ok {
		return fmt.Errorf("-net %s: want mlp or conv", net)
	}
	if err := page.Save(out, "program.pb", func() (*program.Program, error) { return train(n) }); err != nil {
		return err
	}
	if err := page.Save(out, "test.pb", func() (*program.Program, error) { return test(n) }); err != nil {
		return err
	}
	if err := writePictures(out, images, labels); err != nil {
		return err
	}
	page.Commands(out, "--passes 3 --fetch accuracy")
	page.Evaluation(out, "accuracy")
	return nil
}
