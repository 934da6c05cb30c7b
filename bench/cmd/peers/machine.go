package main

import (
	"os"
	"runtime"
	"strings"

	"github.com/edl-go/edl/bench/internal/limits"
)

// A machine is what this computer can do at most, for each number of threads.
type machine struct {
	processor    string
	instructions string // that reach the peak
	peak         map[int]float64
	bandwidth    map[int]float64
}

func measureMachine(threads []int) machine {
	m := machine{processor: processor(), peak: map[int]float64{}, bandwidth: map[int]float64{}}
	for _, n := range threads {
		m.peak[n], m.instructions = limits.Peak(n, 20)
		m.bandwidth[n] = limits.Bandwidth(n, 5)
	}
	return m
}

func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// least returns the microseconds that a step of so many operations and bytes needs on this machine at least; 0 when that is not known.
func (m machine) least(flops, bytes int64, threads int) float64 {
	if m.peak[threads] == 0 {
		return 0
	}
	return 1e6 * max(float64(flops)/m.peak[threads], float64(bytes)/m.bandwidth[threads])
}
