// Image_classification tells which of ten things a picture of 32x32 pixels shows, by VGG (Simonyan and Zisserman 2014, with batch normalization and
// dropout) or by a residual network of 32 layers (He et al. 2015).
//
//	go run ./examples/image_classification -net resnet -cifar cifar-10-batches-bin -out /tmp/images
//
// The folder of -cifar has the binary files of CIFAR-10: data_batch_1.bin to data_batch_5.bin, and test_batch.bin. Without -cifar it draws shapes of
// different forms and colours. -filters makes a network narrower or wider than the published one.
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

const classes = 10

// A network returns a score for each class. Its first layer has so many filters.
type network struct {
	build   func(image layers.Variable, filters int64) layers.Variable
	filters int64 // of the published network
}

var networks = map[string]network{"vgg": {vgg, 64}, "resnet": {resnet, 16}}

// vgg is five groups of convolutions, each followed by a pool that halves the picture, and three fully connected layers.
func vgg(image layers.Variable, filters int64) layers.Variable {
	h := image
	for i, convolutions := range []int{2, 2, 3, 3, 3} {
		for range convolutions {
			h = layers.BatchNorm(layers.Conv2D(h, filters<<min(i, 3), 3, layers.Padding(1, 1)), layers.Act("relu"))
		}
		h = layers.Pool2D(h, 2, layers.Stride(2, 2))
	}
	for range 2 {
		h = layers.BatchNorm(layers.FC(layers.Dropout(h, 0.5), filters<<3), layers.Act("relu"))
	}
	return layers.FC(h, classes)
}

// resnet is three groups of five blocks. A block adds what two convolutions compute to its input. The first block of a later group halves the picture and
// doubles the channels.
func resnet(image layers.Variable, filters int64) layers.Variable {
	convolution := func(x layers.Variable, filters, size int64, stride int, opts ...layers.Option) layers.Variable {
		pad := int(size-1) / 2
		return layers.BatchNorm(layers.Conv2D(x, filters, size, layers.Stride(stride, stride), layers.Padding(pad, pad), layers.NoBias()), opts...)
	}
	h := convolution(image, filters, 3, 1, layers.Act("relu"))
	for group := range 3 {
		for block := range 5 {
			stride, input := 1, h
			if group > 0 && block == 0 {
				stride, filters = 2, 2*filters
				input = convolution(h, filters, 1, stride)
			}
			inner := convolution(h, filters, 3, stride, layers.Act("relu"))
			h = layers.Add(convolution(inner, filters, 3, 1), input, layers.Act("relu"))
		}
	}
	return layers.FC(layers.Pool2D(h, 8, layers.AvgPool()), classes)
}

// evaluate reads a dataset and returns the loss and the share of pictures that are recognized.
func (n network) evaluate(m *layers.Model, data string) (loss, accuracy layers.Variable) {
	pictures := layers.OpenDataset(m, data, layers.Field("image", layers.Dims(imageDims...)),
		layers.Field("label", layers.Dims(1), layers.DType(tensor.Int64)))
	batch := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(pictures, 10000, 1), 128)))
	cost, probabilities := layers.SoftmaxWithCrossEntropy(n.build(batch[0], n.filters), batch[1])
	return layers.Mean(cost, layers.Name("loss")), layers.Accuracy(probabilities, batch[1], layers.Name("accuracy"))
}

func (n network) train() (*program.Program, error) {
	m := layers.NewModel().Seed(1)
	loss, _ := n.evaluate(m, "train")
	optimizer.Adam(0.001).Minimize(loss)
	return m.Program()
}

// test is the same network as it behaves after training.
func (n network) test() (*program.Program, error) {
	m := layers.NewModel()
	n.evaluate(m, "test")
	p, err := m.Program()
	if err != nil {
		return nil, err
	}
	return p.CloneForTest(), nil
}

var (
	net     = flag.String("net", "resnet", "network: vgg or resnet")
	filters = flag.Int64("filters", 0, "filters of the first layer (default: 64 of vgg, 16 of resnet)")
	cifar   = flag.String("cifar", "", "folder with the binary files of CIFAR-10")
)

func main() {
	os.Exit(page.Main(func(out string) error { return write(out, *net, *filters, *cifar, madeUp) }))
}

// write fills out with programs and data, and prints what to do with them. Without a folder it draws so many pictures.
func write(out, net string, filters int64, cifar string, drawn int) error {
	n, ok := networks[net]
	if !ok {
		return fmt.Errorf("-net %s: want vgg or resnet", net)
	}
	if filters < 0 || filters > 1024 {
		return fmt.Errorf("-filters %d: want 1 to 1024", filters)
	}
	if filters > 0 {
		n.filters = filters
	}
	if err := page.Save(out, "program.pb", n.train); err != nil {
		return err
	}
	if err := page.Save(out, "test.pb", n.test); err != nil {
		return err
	}
	if err := writePictures(out, cifar, drawn); err != nil {
		return err
	}
	page.Commands(out, "--passes 3 --fetch accuracy")
	page.Evaluation(out, "accuracy")
	return nil
}
