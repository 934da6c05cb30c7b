package serving_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// A model that was exported answers requests of any number of rows.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "served")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := exportDoubling(dir); err != nil { // as "edl run --export" does
		log.Fatal(err)
	}

	m, err := serving.Open(dir, serving.WithMaxBatch(64))
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fmt.Println(m.Schema().Inputs[0], "->", m.Schema().Outputs[0])
	for rows := range 3 {
		x, _ := tensor.New(tensor.Float32, int64(rows+1), 1)
		x.Float32s()[rows] = 21
		outputs, err := m.Predict(context.Background(), map[string]*tensor.Tensor{"x": x})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(outputs["scale_0.tmp_0"].Float32s())
	}
	_, err = m.Predict(context.Background(), nil)
	fmt.Println(err)
	// Output:
	// x float32[-1 1] -> scale_0.tmp_0 float32[-1 1]
	// [42]
	// [0 42]
	// [0 0 42]
	// variable "x": invalid argument: got no value, want x float32[-1 1]
}

// exportDoubling exports a model that doubles x.
func exportDoubling(dir string) error {
	m := layers.NewModel()
	double := layers.Scale(layers.Data(m, "x", layers.Dims(1)), 2, 0)
	whole, err := m.Program()
	if err != nil {
		return err
	}
	p, err := export.Program(whole, nil, layers.Names(double))
	if err != nil {
		return err
	}
	exe := executor.New()
	defer exe.Close()
	_, err = export.Write(dir, p, export.Fluid, func(name string) (*tensor.Tensor, error) {
		t, _ := exe.Scope().Find(name)
		return t, nil
	})
	return err
}
