package remote_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// The same model, fed and fetched as by executor.New().
func ExampleNewExecutor() {
	m := layers.NewModel()
	x, y := layers.Data(m, "x", layers.Dims(1)), layers.Data(m, "y", layers.Dims(1))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(x, 1, layers.NoBias()), y), layers.Name("loss"))
	optimizer.SGD(0.1).Minimize(loss)
	p, err := m.Program()
	if err != nil {
		fmt.Println(err)
		return
	}

	exe, err := remote.NewExecutor("", &remote.JobSpec{Trainers: 2, Pservers: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer exe.Close()
	inputs, _ := tensor.FromSlice([]float32{-1, 0, 1, 2}, 4, 1)
	triple, _ := tensor.FromSlice([]float32{-3, 0, 3, 6}, 4, 1)
	var fetched []*tensor.Tensor
	for range 40 {
		if fetched, err = exe.Run(context.Background(), p, executor.Feed{"x": inputs, "y": triple}, "fc_0.w_0"); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Printf("y = %.2f x\n", fetched[0].Float32s()[0])
	// Output: y = 3.00 x
}

// writeTriples writes a dataset of numbers and their triples, and returns where it is.
func writeTriples(dir string) (data map[string][]string, err error) {
	w, err := dataset.CreateShards(dir, "train", 1, recordio.Options{})
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	for _, x := range []float32{-1, 0, 1, 2} {
		one, _ := tensor.FromSlice([]float32{x})
		triple, _ := tensor.FromSlice([]float32{3 * x})
		if err := w.Write(dataset.AppendRecord(nil, one, triple)); err != nil {
			return nil, err
		}
	}
	return map[string][]string{"train": {filepath.Join(dir, "train-*")}}, w.Close()
}

// A program that reads its own data is submitted once, and followed to its end.
func ExampleExecutor_Submit() {
	dir, err := os.MkdirTemp("", "triples")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	data, err := writeTriples(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	m := layers.NewModel()
	batch := layers.Read(layers.Batch(layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(1)), layers.Field("y", layers.Dims(1))), 4))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(batch[0], 1, layers.NoBias()), batch[1]), layers.Name("loss"))
	optimizer.SGD(0.1).Minimize(loss)
	p, err := m.Program()
	if err != nil {
		fmt.Println(err)
		return
	}

	exe, err := remote.NewExecutor("", &remote.JobSpec{Trainers: 2, Pservers: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer exe.Close()
	job, err := exe.Submit(context.Background(), p, executor.TrainOptions{Data: data, Passes: 40, Fetch: []string{"fc_0.w_0"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	summary, err := job.Follow(context.Background(), func(s executor.StepResult) error {
		if s.Step == 39 {
			fmt.Printf("y = %.2f x\n", s.Fetched[0].Float32s()[0])
		}
		return nil
	})
	fmt.Println(summary.Passes, "passes,", summary.Records, "records,", err)
	// Output:
	// y = 3.00 x
	// 40 passes, 160 records, <nil>
}
