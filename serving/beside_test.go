package serving_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// runtimeEnv names a folder in whose node_modules onnxruntime-node is (make onnx).
const runtimeEnv = "EDL_ONNXRUNTIME"

// A window is the microseconds of one prediction in a window of time.
type window struct {
	Clock     float64 `json:"clock"`
	Processor float64 `json:"processor"`
}

// BenchmarkBesideONNXRuntime measures predictions with one worker, in turns with those of the same models in ONNX Runtime with one thread, which Node calls. Each turn has a
// window of 20 ms of each. The figures are microseconds of processor time, and of the clock in the fastest windows.
func BenchmarkBesideONNXRuntime(b *testing.B) {
	if os.Getenv(runtimeEnv) == "" {
		b.Skip(runtimeEnv + " is not set")
	}
	for _, c := range predictedModels {
		for _, folded := range []bool{false, true} {
			if folded && c.name != "resnet32" { // nothing else has a batch norm
				continue
			}
			for _, rows := range []int64{1, 64} {
				name := fmt.Sprintf("%s/%d", c.name, rows)
				if folded {
					name = fmt.Sprintf("%s folded/%d", c.name, rows)
				}
				b.Run(name, func(b *testing.B) { beside(b, c, folded, rows) })
			}
		}
	}
}

func beside(b *testing.B, c predicted, folded bool, rows int64) {
	m, output := c.build()
	p, value := initialized(b, m, output)
	theirs, ours := b.TempDir(), b.TempDir()
	if _, err := export.Write(theirs, p, export.ONNX, value); err != nil {
		b.Fatal(err)
	}
	if folded {
		f, err := export.Fold(b.Context(), p, value)
		if err != nil {
			b.Fatal(err)
		}
		p, value = f.Program, f.Value
	}
	if _, err := export.Write(ours, p, export.Fluid, value); err != nil {
		b.Fatal(err)
	}
	model, inputs := open(b, ours, serving.WithWorkers(1)), c.inputs(rows)
	predict := func(n int) window {
		used, began := processTime(b), time.Now()
		for range n {
			if _, err := model.Predict(b.Context(), inputs); err != nil {
				b.Fatal(err)
			}
		}
		clock, processor := time.Since(began), processTime(b)-used
		return window{clock.Seconds() * 1e6 / float64(n), processor.Seconds() * 1e6 / float64(n)}
	}
	run := onnxRuntime(b, filepath.Join(theirs, "model.onnx"), inputs)
	const length, warmUp = 20_000, 3 // us
	predict(warmUp)
	run(warmUp)
	edl, ort := max(1, int(length/predict(warmUp).Processor)), max(1, int(length/run(warmUp).Processor))
	var we, they []window
	for b.Loop() {
		we, they = append(we, predict(edl)), append(they, run(ort))
	}
	b.ReportMetric(0, "ns/op")
	report := func(unit string, of func(window) float64) {
		figures := func(all []window) []float64 {
			var sorted []float64
			for _, w := range all {
				sorted = append(sorted, of(w))
			}
			slices.Sort(sorted)
			return sorted
		}
		e, o := figures(we), figures(they)
		if unit == "clock" { // a median says little beside other work
			b.ReportMetric(e[0]/o[0], "clock-least-ratio")
			return
		}
		b.ReportMetric(e[len(e)/2], "edl-us")
		b.ReportMetric(o[len(o)/2], "ort-us")
		b.ReportMetric(e[len(e)/2]/o[len(o)/2], "ratio")
		b.ReportMetric(e[0]/o[0], "least-ratio")
	}
	report("processor", func(w window) float64 { return w.Processor })
	report("clock", func(w window) float64 { return w.Clock })
}

// onnxRuntime starts Node with a model, and returns what makes some predictions there. The process ends with the benchmark.
func onnxRuntime(b *testing.B, model string, inputs map[string]*tensor.Tensor) func(n int) window {
	type input struct {
		Type string  `json:"type"`
		Dims []int64 `json:"dims"`
	}
	all := map[string]input{}
	for name, t := range inputs {
		all[name] = input{t.DType().String(), t.Dims()}
	}
	first, err := json.Marshal(map[string]any{"model": model, "inputs": all})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), 10*time.Minute) // the context of b ends before it has been cleaned up
	node := exec.CommandContext(ctx, "node", "testdata/beside.js")
	node.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(os.Getenv(runtimeEnv), "node_modules"))
	node.Stderr = os.Stderr
	in, err := node.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := node.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := node.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		defer cancel()
		in.Close()
		if err := node.Wait(); err != nil {
			b.Error(err)
		}
	})
	lines := bufio.NewReader(out)
	if _, err := fmt.Fprintf(in, "%s\n", first); err != nil {
		b.Fatal(err)
	}
	return func(n int) (w window) {
		_, err := fmt.Fprintln(in, n)
		if err != nil {
			b.Fatal(err)
		}
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			b.Fatal(err)
		}
		if err := json.Unmarshal(line, &w); err != nil {
			b.Fatalf("ONNX Runtime: %v in %q", err, line)
		}
		return w
	}
}

// processTime is the processor time that this process has used so far.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
