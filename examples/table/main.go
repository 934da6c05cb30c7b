// Table is a network for any table whose schema has a class as label: categories get vectors, numbers join them, and two layers decide.
//
//	edl data infer people.csv --label income --test 0.2 -o people.yaml
//	edl data table people.csv --schema people.yaml -o data
//	go run ./examples/table -schema people.yaml -out data
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/examples/internal/page"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// network reads records of the schema and returns the loss. The variable "probability" has the probability of each class, for those who use the model.
func network(m *layers.Model, s *schema.Schema, data string) layers.Variable {
	var declared []layers.FieldSpec
	for _, f := range s.Fields() {
		declared = append(declared, layers.Field(f.Name, layers.Dims(f.Dims...), layers.DType(f.DType), layers.LoD(f.LoDLevel)))
	}
	batch := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(layers.OpenDataset(m, data, declared...), 4096, 1), 64)))

	var known []layers.Variable
	var label layers.Variable
	classes := int64(0)
	for i, f := range s.Fields() {
		switch {
		case f.Role == schema.Label:
			label, classes = batch[i], f.Values
		case f.Role == schema.Weight:
		case f.DType == tensor.Float32:
			known = append(known, batch[i])
		case f.LoDLevel > 0: // a row has any number of them
			known = append(known, layers.SequencePool(vectors(batch[i], f.Values), "sum"))
		default:
			known = append(known, vectors(batch[i], f.Values))
		}
	}
	hidden := layers.FC(layers.Concat(known, 1), 64, layers.Act("relu"))
	hidden = layers.FC(hidden, 32, layers.Act("relu"))
	score := layers.FC(hidden, classes)
	layers.Softmax(score, layers.Name("probability"))
	loss, _ := layers.SoftmaxWithCrossEntropy(score, label) // which stays finite when a probability does not differ from 0
	return layers.Mean(loss, layers.Name("loss"))
}

// vectors looks up vectors of 8 numbers. Keys without a bound grow a table.
func vectors(ids layers.Variable, values int64) layers.Variable {
	if values == 0 {
		return layers.SparseEmbedding(ids, 1_000_000, 8)
	}
	return layers.Embedding(ids, values, 8)
}

func write(out, file string) error {
	s, err := read(file)
	if err != nil {
		return err
	}
	err = page.Save(out, "program.pb", func() (*program.Program, error) {
		m := layers.NewModel().Seed(1)
		optimizer.Adam(0.001, optimizer.Lazy()).Minimize(network(m, s, "train"))
		return m.Program()
	})
	if err != nil {
		return err
	}
	err = page.Save(out, "test.pb", func() (*program.Program, error) {
		m := layers.NewModel()
		network(m, s, "test")
		return m.Program()
	})
	if err != nil {
		return err
	}
	page.Commands(out, "--passes 5")
	page.Evaluation(out, "loss --metric auc --metric accuracy")
	return nil
}

func read(file string) (*schema.Schema, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := schema.Read(f)
	if err != nil {
		return nil, err
	}
	for _, field := range s.Fields() {
		if field.Role == schema.Label && field.Values > 1 {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s: no label with two classes or more; this network predicts classes", file)
}

var schemaFile = flag.String("schema", "schema.yaml", "the schema of the records")

func main() {
	os.Exit(page.Main(func(out string) error { return write(out, *schemaFile) }))
}
