package layers_test

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// A sketch is a model with the batch that its examples feed.
type sketch struct {
	*layers.Model
	feed executor.Feed
}

func newSketch() *sketch { return &sketch{layers.NewModel().Seed(1), executor.Feed{}} }

// numbers declares a variable whose records have the given width, and feeds these values.
func (s *sketch) numbers(name string, width int64, values ...float32) layers.Variable {
	s.feed[name], _ = tensor.FromSlice(values, int64(len(values))/width, width)
	return layers.Data(s.Model, name, layers.Dims(width))
}

// classes declares a variable that holds one whole number for each record, and feeds these.
func (s *sketch) classes(name string, values ...int64) layers.Variable {
	s.feed[name], _ = tensor.FromSlice(values, int64(len(values)), 1)
	return layers.Data(s.Model, name, layers.Dims(1), layers.DType(tensor.Int64))
}

// print computes variables and prints a line for each: its dims, and its values to three digits.
func (s *sketch) print(variables ...layers.Variable) {
	p, err := s.Program()
	if err != nil {
		fmt.Println(err)
		return
	}
	names := make([]string, len(variables))
	for i, v := range variables {
		names[i] = v.Name()
	}
	local := executor.New()
	defer local.Close()
	values, err := local.Run(context.Background(), p, s.feed, names...)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range values {
		switch t.DType() {
		case tensor.Float32:
			fmt.Printf("%v %.3g\n", t.Dims(), t.Float32s())
		case tensor.Int64:
			fmt.Println(t.Dims(), t.Int64s())
		case tensor.Bool:
			fmt.Println(t.Dims(), t.Bools())
		}
	}
}
