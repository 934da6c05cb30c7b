package main

import (
	"bytes"
	"math"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/tensor"
)

// A difference compares two values of one variable.
type difference struct {
	Name      string     `json:"name"`
	Elements  int        `json:"elements"`
	Differing int        `json:"differing"` // elements with other bits
	Largest   jsonNumber `json:"largest"`   // absolute difference; infinite where one of two elements is not a number
}

// compareSaved compares every persistable variable of p as two runs saved it.
func compareSaved(p *program.Program, expected, actual string) ([]difference, error) {
	a, b := executor.NewScope(), executor.NewScope()
	if err := executor.LoadPersistables(a, expected, p); err != nil {
		return nil, err
	}
	if err := executor.LoadPersistables(b, actual, p); err != nil {
		return nil, err
	}
	var all []difference
	for _, name := range executor.Persistables(p) {
		x, _ := a.Find(name)
		y, _ := b.Find(name)
		all = append(all, compare(name, x, y))
	}
	return all, nil
}

// compare compares two tensors of one dtype and dims.
func compare(name string, x, y *tensor.Tensor) difference {
	d := difference{Name: name, Elements: x.Len()}
	if bytes.Equal(tensor.AppendStream(nil, x), tensor.AppendStream(nil, y)) {
		return d
	}
	for i := range x.Len() {
		if sameBits(x, y, i) {
			continue
		}
		a, b := float(x, i), float(y, i)
		d.Differing++
		distance := math.Abs(a - b)
		if math.IsNaN(distance) {
			distance = math.Inf(1)
		}
		d.Largest = max(d.Largest, jsonNumber(distance))
	}
	return d
}

func sameBits(x, y *tensor.Tensor, i int) bool {
	if x.DType() == tensor.Int64 {
		return x.Int64s()[i] == y.Int64s()[i]
	}
	return math.Float64bits(float(x, i)) == math.Float64bits(float(y, i))
}

// modeName is the mode of a job as flags have it.
func modeName(spec *job.JobSpec) string { return strings.ToLower(spec.Mode.String()) }
