// Outside is the model of the README in a module of its own: what a user's program looks like.
//
//	cd examples/outside
//	go run . -housing FILE    # the table housing.data
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
)

func main() {
	housing := flag.String("housing", "housing.data", "the table of Boston houses")
	flag.Parse()
	ctx := context.Background()
	if err := convertTable(ctx, *housing); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := train(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// convertTable writes the files of the datasets "train" and "test" to the directory data.
func convertTable(ctx context.Context, table string) error {
	f, err := os.Open(table)
	if err != nil {
		return err
	}
	defer f.Close()
	var writers []*dataset.ShardWriter
	for _, name := range []string{"train", "test"} {
		w, err := dataset.CreateShards("data", name, 1, recordio.Options{})
		if err != nil {
			return err
		}
		defer w.Abort()
		writers = append(writers, w)
	}
	if _, _, err := convert.Housing(ctx, f, writers[0], writers[1]); err != nil {
		return err
	}
	for _, w := range writers {
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}

func train(ctx context.Context) error {
	m := layers.NewModel().Seed(1)
	houses := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(13)), layers.Field("y", layers.Dims(1)))
	batch := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(houses, 500, 1), 20)))
	x, y := batch[0], batch[1]

	price := layers.FC(x, 1)
	loss := layers.Mean(layers.SquareErrorCost(price, y), layers.Name("loss"))
	optimizer.SGD(0.01).Minimize(loss)

	p, err := m.Program() // every mistake at once, each with the line that made it
	if err != nil {
		return err
	}
	if err := p.Save("program.pb"); err != nil { // for the command edl
		return err
	}

	exe := executor.New() // on a cluster: exe, err := remote.NewExecutor(ADDRESS, &remote.JobSpec{Trainers: 2, Pservers: 2})
	defer exe.Close()
	data := map[string][]string{"train": {"data/train-*"}}
	_, err = exe.Train(ctx, p, executor.TrainOptions{Data: data, Passes: 20, Fetch: layers.Names(loss), Save: "model"},
		func(s executor.StepResult) error {
			fmt.Println(s.Pass, s.Step, executor.Scalar(s.Fetched[0]))
			return nil
		})
	return err
}
