package executor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// A model is built once and run step by step. The first Run initializes the parameters.
func ExampleLocal_Run() {
	m := layers.NewModel().Seed(1)
	x, y := layers.Data(m, "x", layers.Dims(1)), layers.Data(m, "y", layers.Dims(1))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(x, 1), y))
	optimizer.SGD(0.1).Minimize(loss)
	p, err := m.Program()
	if err != nil {
		log.Fatal(err)
	}

	e := executor.New()
	defer e.Close()
	inputs, _ := tensor.FromSlice([]float32{-1, 0, 1, 2}, 4, 1)
	outputs, _ := tensor.FromSlice([]float32{-1, 1, 3, 5}, 4, 1)
	for step := range 201 {
		fetched, err := e.Run(context.Background(), p, executor.Feed{"x": inputs, "y": outputs}, layers.Names(loss)...)
		if err != nil {
			log.Fatal(err)
		}
		if step%100 == 0 {
			fmt.Printf("step %d: loss %.4f\n", step, executor.Scalar(fetched[0]))
		}
	}
	w, _ := e.Scope().Find("fc_0.w_0")
	b, _ := e.Scope().Find("fc_0.b_0")
	fmt.Printf("y = %.2f x + %.2f\n", executor.Scalar(w), executor.Scalar(b))
	// Output:
	// step 0: loss 19.5226
	// step 100: loss 0.0000
	// step 200: loss 0.0000
	// y = 2.00 x + 1.00
}

// Prepare is for many steps of one shape: they allocate nothing and copy nothing.
func ExampleLocal_Prepare() {
	m := layers.NewModel()
	square := layers.Square(layers.Data(m, "x"))
	p, err := m.Program()
	if err != nil {
		log.Fatal(err)
	}

	e := executor.New()
	defer e.Close()
	x, _ := tensor.FromSlice([]float32{1, 2, 3})
	feed := executor.Feed{"x": x}
	prepared, err := e.Prepare(context.Background(), p, feed, square.Name())
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		out, err := prepared.Run(context.Background(), feed)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(out[0].Float32s())
		x.Float32s()[0] = 10
	}
	// Output:
	// [1 4 9]
	// [100 4 9]
}
