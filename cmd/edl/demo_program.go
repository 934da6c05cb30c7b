package main

import (
	"path/filepath"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// demoNetwork reads pictures of digits in batches, and returns the loss and the share of digits that it tells right.
func demoNetwork(m *layers.Model, dataset string, batch int) (loss layers.Variable) {
	pictures := layers.OpenDataset(m, dataset, layers.Field("image", layers.Dims(784)),
		layers.Field("label", layers.Dims(1), layers.DType(tensor.Int64)))
	read := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(pictures, 6000, 1), batch)))
	ink := layers.Scale(read[0], 0.5, 0.5) // 0 is paper, so that most inputs are silent
	hidden := layers.FC(ink, 256, layers.Act("relu"))
	hidden = layers.FC(hidden, 64, layers.Act("relu"))
	cost, probabilities := layers.SoftmaxWithCrossEntropy(layers.FC(hidden, 10), read[1])
	layers.Accuracy(probabilities, read[1], layers.Name("accuracy"))
	return layers.Mean(cost, layers.Name("loss"))
}

// writeDemoPrograms writes the program that learns and the one that is tested.
func writeDemoPrograms(dir string) error {
	learn := layers.NewModel().Seed(1)
	optimizer.Adam(0.001).Minimize(demoNetwork(learn, trainSet, 100))
	test := layers.NewModel()
	demoNetwork(test, testSet, 100)
	for name, m := range map[string]*layers.Model{"program.pb": learn, "test.pb": test} {
		p, err := m.Program()
		if err != nil {
			return err
		}
		if err := p.Save(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
