package executor_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/tensor"
)

// bits trains a workload for some steps and returns everything that it fetched and left behind.
func bits(t *testing.T, w workload, options ...executor.Option) map[string][]uint32 {
	t.Helper()
	m := w.model(t)
	l := executor.New(options...)
	defer l.Close()
	all := map[string][]uint32{}
	keep := func(name string, v *tensor.Tensor) {
		for _, x := range v.Float32s() {
			all[name] = append(all[name], math.Float32bits(x))
		}
	}
	for step := range 4 {
		out, err := l.Run(t.Context(), m.Program, w.feed, m.Loss)
		if err != nil {
			t.Fatal(err)
		}
		keep(fmt.Sprintf("loss of step %d", step), out[0])
	}
	for _, name := range l.Scope().Names() {
		v, _ := l.Scope().Find(name)
		keep(name, v)
	}
	return all
}

// Whatever a plan fuses and however many workers share it, a program computes the same bits.
func TestNeitherFusionsNorWorkersChangeABit(t *testing.T) {
	for _, w := range variants {
		t.Run(w.name, func(t *testing.T) {
			plain := bits(t, w, executor.WithoutFusion())
			if len(plain) < 3 {
				t.Fatalf("only %d variables", len(plain))
			}
			cases := map[string][]executor.Option{
				"all":                           nil,
				"2 workers":                     {executor.WithWorkers(2)},
				"3 workers, every part":         {executor.WithWorkers(3), executor.WithGrain(0)},
				"2 workers, parts, no fusion":   {executor.WithWorkers(2), executor.WithGrain(0), executor.WithoutFusion()},
				"5 workers, parts of some time": {executor.WithWorkers(5), executor.WithGrain(time.Microsecond)},
			}
			for _, f := range executor.Fusions() {
				cases["without "+string(f)] = []executor.Option{executor.WithoutFusion(f)}
			}
			for name, options := range cases {
				got := bits(t, w, options...)
				for variable, want := range plain {
					if fmt.Sprint(got[variable]) != fmt.Sprint(want) {
						t.Errorf("%s: %s differs", name, variable)
					}
				}
			}
		})
	}
}
