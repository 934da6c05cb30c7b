package executor_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The files of testdata/programs are programs as Paddle writes them for models that people use, with all attributes, and with the declarations that temporary variables
// get there (package fluidtext).

// TestProgramsOfPaddleRun runs each of them, once it has been written and read, on small numbers.
func TestProgramsOfPaddleRun(t *testing.T) {
	paths, err := filepath.Glob("testdata/programs/*.txt")
	if err != nil || len(paths) < 25 {
		t.Fatalf("%d programs, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			p, feed, fetch := readProgram(t, path)
			l := executor.New()
			defer l.Close()
			for _, name := range executor.Persistables(p) {
				v, _ := p.Global().Var(name)
				if err := l.Scope().Set(name, smallNumbers(t, v.DType, v.Dims)); err != nil {
					t.Fatal(err)
				}
			}
			out, err := l.Run(t.Context(), p, feed, fetch...)
			if err != nil {
				t.Fatal(err)
			}
			for i, value := range out {
				for _, x := range value.Float32s() {
					if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
						t.Fatalf("%s = %v", fetch[i], value)
					}
				}
			}
		})
	}
}

// TestProgramsOfPaddleComputeGradients compares gradients in those that train through loops and branches, as append_backward writes them, with central
// differences of the loss. They fetch the loss, and then gradients of parameters.
func TestProgramsOfPaddleComputeGradients(t *testing.T) {
	paths, err := filepath.Glob("testdata/programs/grad_*.txt")
	if err != nil || len(paths) < 6 {
		t.Fatalf("%d programs, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			p, feed, fetch := readProgram(t, path)
			l := executor.New()
			defer l.Close()
			// run changes element i of a persistable variable, and returns what is fetched.
			run := func(changed string, i int, by float32) []*tensor.Tensor {
				for _, name := range executor.Persistables(p) {
					v, _ := p.Global().Var(name)
					x := smallNumbers(t, v.DType, v.Dims)
					if name == changed {
						x.Float32s()[i] += by
					}
					if err := l.Scope().Set(name, x); err != nil {
						t.Fatal(err)
					}
				}
				out, err := l.Run(t.Context(), p, feed, fetch...)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			grads := run("", 0, 0)
			if len(grads) < 2 {
				t.Fatal("no gradients")
			}
			zeros := 0 // of branches that were not taken
			for k, grad := range grads[1:] {
				at := 0
				name, _, _ := strings.Cut(fetch[1+k], program.GradSuffix) // that of a second loss ends with _0
				for i, x := range grad.Float32s() {
					if math.Abs(float64(x)) > math.Abs(float64(grad.Float32s()[at])) {
						at = i
					}
				}
				got, step := float64(grad.Float32s()[at]), float32(1)/64
				want := (executor.Scalar(run(name, at, step)[0]) - executor.Scalar(run(name, at, -step)[0])) / (2 * float64(step))
				if math.Abs(got-want) > 1e-4+0.01*math.Abs(want) {
					t.Errorf("%s[%d] = %g, by differences %g", fetch[1+k], at, got, want)
				}
				if got == 0 {
					zeros++
				}
			}
			if 2*zeros > len(grads)-1 {
				t.Errorf("%d of %d gradients are 0", zeros, len(grads)-1)
			}
		})
	}
}

// A loop has one gradient: that takes its counters back.
func TestSecondGradientOfALoopIsRefused(t *testing.T) {
	p, feed, fetch := readProgram(t, "testdata/programs/grad_while_loop.txt")
	block := p.Global()
	at := slices.IndexFunc(block.Ops, func(op *program.Op) bool { return op.Type == "while_grad" })
	block.Insert(at, block.Ops[at].Clone())
	l := executor.New()
	defer l.Close()
	for _, name := range executor.Persistables(p) {
		v, _ := block.Var(name)
		if err := l.Scope().Set(name, smallNumbers(t, v.DType, v.Dims)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.Run(t.Context(), p, feed, fetch...)
	if !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "second gradient of a loop") {
		t.Errorf("got %v", err)
	}
}

// smallNumbers are not all equal, and positive: some of them are variances.
func smallNumbers(t *testing.T, dtype tensor.DType, dims []int64) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Len() {
		switch dtype {
		case tensor.Float32:
			x.Float32s()[i] = float32(i%7+1) / 16
		case tensor.Int32:
			x.Int32s()[i] = int32(i % 3)
		case tensor.Int64:
			x.Int64s()[i] = int64(i % 3)
		}
	}
	return x
}

func readProgram(t *testing.T, path string) (p *program.Program, feed executor.Feed, fetch []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := fluidtext.Read(string(text))
	if err != nil {
		t.Fatal(err)
	}
	feed = executor.Feed{}
	for name, f := range m.Feeds {
		v, _ := m.Program.Global().Var(name)
		x := smallNumbers(t, v.DType, f.Dims)
		if f.Offsets != nil {
			x.SetLoD(f.Offsets)
		}
		feed[name] = x
	}
	return m.Program, feed, m.Fetch
}
