// Custom_op is a module of its own that adds an op with a gradient and an update rule to EDL, and builds its own edl command.
//
//	cd examples/custom_op
//	go build -o /tmp/edl ./cmd/edl        # EDL with the ops of this module
//	go run . -out /tmp/custom             # a program that uses them, and its data
//	/tmp/edl run /tmp/custom/program.pb --data train='/tmp/custom/train-*' --passes 10
//	/tmp/edl run /tmp/custom/program.pb --data train='/tmp/custom/train-*' --passes 10 --remote
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"example.org/custom_op/ops"
	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func main() {
	out := flag.String("out", ".", "directory to write to")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// model predicts a*b + a/2 from a and b with one hidden layer of snake, trained by Lion.
func model() (*program.Program, error) {
	m := layers.NewModel().Seed(1)
	points := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(2)), layers.Field("y", layers.Dims(1)))
	batch := layers.Read(layers.Batch(layers.Shuffle(points, 100, 1), 20))
	hidden := ops.Snake(layers.FC(batch[0], 16))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(hidden, 1), batch[1]), layers.Name("loss"))
	optimizer.Custom(0.003, ops.Lion(0.9, 0.99)).Minimize(loss)
	return m.Program()
}

func write(out string) error {
	p, err := model()
	if err != nil {
		return err
	}
	w, err := dataset.CreateShards(out, "train", 2, recordio.Options{})
	if err != nil {
		return err
	}
	defer w.Abort()
	chance := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		a, b := 2*chance.Float32()-1, 2*chance.Float32()-1
		x, err := tensor.FromSlice([]float32{a, b})
		if err != nil {
			return err
		}
		y, err := tensor.FromSlice([]float32{a*b + a/2})
		if err != nil {
			return err
		}
		if err := w.Write(dataset.AppendRecord(nil, x, y)); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return p.Save(filepath.Join(out, "program.pb"))
}
