// Table is a network for any table whose schema has a class as label: categories get vectors, numbers join them, and two layers decide.
// In a module of your own this file is all that you need.
//
//	edl data infer people.csv --label income --test 0.2 -o people.yaml
//	edl data table people.csv --schema people.yaml -o data
//	go run ./examples/table -schema people.yaml -out data
package main

import (
	"errors"
	"flag"
	"log"
	"path/filepath"

	"github.com/edl-go/edl/dataset/schema"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// network reads records of the schema and returns the loss. The variable "probability" has the probability of each class, for those who use the model.
func network(m *layers.Model, fields []schema.Field, classes int64) layers.Variable {
	rows := layers.Shuffle(layers.OpenDataset(m, "train", layers.FieldsOf(fields)...), 4096, 1)
	columns := map[string][]layers.Variable{} // by their role
	for i, v := range layers.Read(layers.DoubleBuffer(layers.Batch(rows, 64))) {
		f := fields[i]
		switch {
		case f.Role != "" || f.DType == tensor.Float32:
		case f.Values == 0: // keys: their table grows
			v = layers.SparseEmbedding(v, 1_000_000, 8)
		default:
			v = layers.Embedding(v, f.Values, 8)
		}
		if f.LoDLevel > 0 { // a row has any number of them
			v = layers.SequencePool(v, "sum")
		}
		columns[f.Role] = append(columns[f.Role], v)
	}
	hidden := layers.FC(layers.Concat(columns[""], 1), 64, layers.Act("relu"))
	score := layers.FC(layers.FC(hidden, 32, layers.Act("relu")), classes)
	layers.Softmax(score, layers.Name("probability"))
	loss, _ := layers.SoftmaxWithCrossEntropy(score, columns[schema.Label][0]) // which stays finite when a probability does not differ from 0
	return layers.Mean(loss, layers.Name("loss"))
}

// write writes two programs: program.pb trains, and test.pb evaluates.
func write(out, file string) error {
	s, err := schema.Load(file)
	if err != nil {
		return err
	}
	classes, err := s.Classes()
	if err != nil {
		return err
	}
	m := layers.NewModel().Seed(1)
	optimizer.Adam(0.001, optimizer.Lazy()).Minimize(network(m, s.Fields(), classes))
	p, err := m.Program()
	if err != nil {
		return err
	}
	return errors.Join(p.Save(filepath.Join(out, "program.pb")), p.CloneForTest().Save(filepath.Join(out, "test.pb")))
}

func main() {
	file := flag.String("schema", "schema.yaml", "the schema of the records")
	out := flag.String("out", ".", "the folder to write to")
	flag.Parse()
	if err := write(*out, *file); err != nil {
		log.Fatal(err)
	}
}
