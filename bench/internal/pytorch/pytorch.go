// Package pytorch finds Debian's PyTorch, and the settings with which it is fastest.
package pytorch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/bench/internal/measure"
	"github.com/edl-go/edl/bench/peers"
	"github.com/edl-go/edl/fault"
)

// Python is Debian's, which has python3-torch.
const Python = "/usr/bin/python3"

// openMP is the OpenBLAS with threads of OpenMP. PyTorch loads it for more than one thread, because the threads of the default OpenBLAS compete
// with those of OpenMP for the cores.
const openMP = "/usr/lib/x86_64-linux-gnu/openblas-openmp"

// Check fails, and says what to install, if PyTorch or its OpenBLAS is not there.
func Check(ctx context.Context) error {
	missing := func(what string, err error) error {
		return fault.E(fault.NotFound, fault.Got("no "+what), fault.Want("Debian's PyTorch and OpenBLAS"), fault.Cause(err),
			fault.Hint("apt-get update && apt-get install -y python3-torch libopenblas0-openmp"))
	}
	if said, err := exec.CommandContext(ctx, Python, "-c", "import torch").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return missing("PyTorch for "+Python, fmt.Errorf("%w: %s", err, lines[len(lines)-1]))
	}
	if _, err := os.Stat(openMP); err != nil {
		return missing("OpenBLAS with OpenMP", err)
	}
	return nil
}

// WriteScripts writes the scripts of package peers into a directory.
func WriteScripts(dir string) error {
	for name, script := range peers.Scripts {
		if err := os.WriteFile(filepath.Join(dir, name), script, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// keepHeap lets the allocator of C keep what is freed. Otherwise it gives arrays of more than 32 MB back at once, and each step clears its pages again: a step of
// packed sentences then takes more than three times as long.
var keepHeap = []string{"MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=17179869184"}

// Environment returns the environment of a process with so many threads that keeps its heap and whose OpenBLAS has the given kernels.
func Environment(threads int, kernels string) []string {
	e := append(os.Environ(), keepHeap...)
	if threads == 1 {
		e = append(e, "OPENBLAS_NUM_THREADS=1")
	} else {
		e = append(e, "LD_LIBRARY_PATH="+openMP)
	}
	if kernels != Own {
		e = append(e, "OPENBLAS_CORETYPE="+kernels)
	}
	return e
}

// Kernels of OpenBLAS.
const (
	Own      = ""         // what OpenBLAS chooses
	SkylakeX = "SkylakeX" // AVX-512, which OpenBLAS does not choose on processors that are newer than it
)

// Kernels returns the kernels of OpenBLAS that this machine can run and that may be the fastest.
func Kernels() []string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return []string{Own}
	}
	return kernelsFor(info)
}

func kernelsFor(cpuinfo []byte) []string {
	for line := range bytes.Lines(cpuinfo) {
		name, flags, _ := bytes.Cut(line, []byte(":"))
		if string(bytes.TrimSpace(name)) != "flags" {
			continue
		}
		has := strings.Fields(string(flags))
		for _, needed := range []string{"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"} {
			if !slices.Contains(has, needed) {
				return []string{Own}
			}
		}
		return []string{Own, SkylakeX}
	}
	return []string{Own}
}

// probes is how often each choice is measured.
const probes = 3

// Fastest measures every choice in turns and returns the one whose fastest measurement is the shortest. take returns the time of one measurement in
// microseconds. A single choice is not measured.
func Fastest(choices []string, take func(choice string) (float64, error)) (string, error) {
	if len(choices) == 1 {
		return choices[0], nil
	}
	best := make([]float64, len(choices))
	for turn := range probes {
		for i, choice := range choices {
			took, err := take(choice)
			if err != nil {
				return "", err
			}
			if turn == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	return choices[slices.Index(best, slices.Min(best))], nil
}

// KernelsText names kernels in reports.
func KernelsText(kernels string) string {
	if kernels == Own {
		return "the kernels that OpenBLAS chooses"
	}
	return kernels + " kernels"
}

// Command returns a process that measures a workload by one of the scripts of WriteScripts in dir. count is its threads or processes.
func Command(ctx context.Context, dir, script, workload string, count int, seconds float64) *exec.Cmd {
	return exec.CommandContext(ctx, Python, filepath.Join(dir, script), workload, fmt.Sprint(count), fmt.Sprint(seconds))
}

// MedianOf is the median time in the output of a measurement.
func MedianOf(output []byte) (float64, error) {
	r, err := measure.Read(output)
	return r.Median, err
}
