// Measure measures one workload of package bench in a process of its own and prints a line of JSON.
//
//	measure WORKLOAD THREADS SECONDS
//
// bench/peers/measure.py is the same for PyTorch.
package main

import (
	"context"
	"os"

	"github.com/edl-go/edl/bench"
	"github.com/edl-go/edl/bench/internal/measure"
)

func main() {
	os.Exit(measure.Main(func(ctx context.Context, name string, threads int) (measure.Work, error) {
		w, err := bench.New(name)
		if err != nil {
			return nil, err
		}
		training, err := bench.Start(ctx, w, threads)
		if err != nil {
			return nil, err
		}
		return func(i int) error {
			_, err := training.Step(ctx, i)
			return err
		}, nil
	}))
}
