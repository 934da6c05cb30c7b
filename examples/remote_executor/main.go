// Remote_executor trains a model step by step from Go, first on this machine and then on a cluster. The two differ in one line:
//
//	exe := executor.New()
//	exe, err := remote.NewExecutor("", &remote.JobSpec{Trainers: 2, Pservers: 2})
//
// An empty address starts a cluster inside of this process; "127.0.0.1:7164" is that of "edl listen".
//
//	go run ./examples/remote_executor
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// model is y = w x + b with its square error.
func model() (p *program.Program, loss layers.Variable, err error) {
	m := layers.NewModel().Seed(1)
	x := layers.Data(m, "x", layers.Dims(1))
	y := layers.Data(m, "y", layers.Dims(1))
	loss = layers.Mean(layers.SquareErrorCost(layers.FC(x, 1), y), layers.Name("loss"))
	optimizer.SGD(0.1).Minimize(loss)
	p, err = m.Program()
	return p, loss, err
}

// train feeds the points of y = 3x + 1. It does not know where its steps run.
func train(ctx context.Context, exe executor.Executor, p *program.Program, loss layers.Variable, w io.Writer) error {
	x, err := tensor.FromSlice([]float32{-1, 0, 1, 2}, 4, 1)
	if err != nil {
		return err
	}
	y, err := tensor.FromSlice([]float32{-2, 1, 4, 7}, 4, 1)
	if err != nil {
		return err
	}
	fetch := append(layers.Names(loss), "fc_0.w_0", "fc_0.b_0")
	for step := range 101 {
		fetched, err := exe.Run(ctx, p, executor.Feed{"x": x, "y": y}, fetch...)
		if err != nil {
			return err
		}
		if step%25 == 0 {
			fmt.Fprintf(w, "step %3d  loss %9.6f  y = %.3f x + %.3f\n", step, executor.Scalar(fetched[0]), executor.Scalar(fetched[1]),
				executor.Scalar(fetched[2]))
		}
	}
	return nil
}

func main() {
	address := flag.String("address", "", "listener of a cluster; empty: one inside of this process")
	out := flag.String("out", "", "directory to write the program to, for \"edl show\"")
	flag.Parse()
	if err := run(context.Background(), *address, *out, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, out string, w io.Writer) error {
	p, loss, err := model()
	if err != nil {
		return err
	}
	if out != "" {
		if err := save(p, out); err != nil {
			return err
		}
	}
	local := executor.New()
	defer local.Close()
	fmt.Fprintln(w, "on this machine:")
	if err := train(ctx, local, p, loss, w); err != nil {
		return err
	}
	cluster, err := remote.NewExecutor(address, &remote.JobSpec{Trainers: 2, Pservers: 2})
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "on a cluster of 2 trainers and 2 parameter servers:")
	if err := train(ctx, cluster, p, loss, w); err != nil {
		cluster.Close()
		return err
	}
	return cluster.Close()
}

func save(p *program.Program, out string) error {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	return p.Save(filepath.Join(out, "program.pb"))
}
