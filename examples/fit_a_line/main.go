// Fit_a_line is linear regression: it predicts the price of a house from 13 numbers about it.
//
//	go run ./examples/fit_a_line -out /tmp/line
//
// Without -housing FILE, the table of Boston houses, it makes up houses whose price is a line with noise.
package main

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// network reads a dataset and returns the mean square error of its predictions.
func network(m *layers.Model, data string) layers.Variable {
	houses := layers.OpenDataset(m, data, layers.Field("x", layers.Dims(13)), layers.Field("y", layers.Dims(1)))
	batch := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(houses, 500, 1), 20)))
	x, y := batch[0], batch[1]
	price := layers.FC(x, 1)
	return layers.Mean(layers.SquareErrorCost(price, y), layers.Name("loss"))
}

func train() (*program.Program, error) {
	m := layers.NewModel().Seed(1)
	optimizer.SGD(0.01).Minimize(network(m, "train"))
	return m.Program()
}

// test is the same network without an optimizer, for evaluation.
func test() (*program.Program, error) {
	m := layers.NewModel()
	network(m, "test")
	return m.Program()
}

var housing = flag.String("housing", "", "the table housing.data")

func main() {
	os.Exit(page.Main(func(out string) error { return write(out, *housing) }))
}

func write(out, housing string) error {
	if err := page.Save(out, "program.pb", train); err != nil {
		return err
	}
	if err := page.Save(out, "test.pb", test); err != nil {
		return err
	}
	err := page.Dataset(out, "train", func(train dataset.RecordWriter) error {
		return page.Dataset(out, "test", func(test dataset.RecordWriter) error { return writeHouses(housing, train, test) })
	})
	if err != nil {
		return err
	}
	page.Commands(out, "--passes 20")
	page.Evaluation(out, "loss")
	return nil
}

func writeHouses(housing string, train, test dataset.RecordWriter) error {
	if housing != "" {
		f, err := os.Open(housing)
		if err != nil {
			return err
		}
		defer f.Close()
		_, _, err = convert.Housing(context.Background(), f, train, test)
		return err
	}
	chance := rand.New(rand.NewPCG(1, 2))
	if err := makeUpHouses(chance, train, 404); err != nil {
		return err
	}
	return makeUpHouses(chance, test, 102)
}

// makeUpHouses writes houses with random features between -0.5 and 0.5. Feature i adds i+1 times its value to the price, which has noise.
func makeUpHouses(chance *rand.Rand, w dataset.RecordWriter, houses int) error {
	var record []byte
	for range houses {
		features, price := make([]float32, 13), 22+chance.NormFloat64()
		for i := range features {
			features[i] = chance.Float32() - 0.5
			price += float64(i+1) * float64(features[i])
		}
		x, err := tensor.FromSlice(features)
		if err != nil {
			return err
		}
		y, err := tensor.FromSlice([]float32{float32(price)})
		if err != nil {
			return err
		}
		record = dataset.AppendRecord(record[:0], x, y)
		if err := w.Write(record); err != nil {
			return err
		}
	}
	return nil
}
