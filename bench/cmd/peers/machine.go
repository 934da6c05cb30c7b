package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/edl-go/edl/bench/internal/limits"
)

// A machine is what this computer can do at most, for each number of threads.
type machine struct {
	processor    string
	cache        int64  // bytes of the last level; 0 when that is not known
	instructions string // that reach the peak
	peak         map[int]float64
	bandwidth    map[int]float64
}

// trials is of how many tries a limit is the best: enough for a quiet moment.
const trials = 100

func newMachine() machine {
	return machine{processor: processor(), cache: lastLevelCache(), peak: map[int]float64{}, bandwidth: map[int]float64{}}
}

// measure raises the limits to what is reached now. It is called before and after everything else, so that a busy moment does not make them low.
func (m *machine) measure(threads []int) {
	for _, n := range threads {
		peak, instructions := limits.Peak(n, trials)
		m.peak[n], m.instructions = max(m.peak[n], peak), instructions
		m.bandwidth[n] = max(m.bandwidth[n], limits.Bandwidth(n, trials/10))
	}
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

// lastLevelCache returns what Linux says of the third level of cache.
func lastLevelCache() int64 {
	size, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cache/index3/size")
	var kilobytes int64
	if _, scanErr := fmt.Sscanf(string(size), "%dK", &kilobytes); err != nil || scanErr != nil {
		return 0
	}
	return kilobytes << 10
}

// least returns the microseconds that a step of so many operations and bytes needs on this machine at least; 0 when that is not known. Bytes
// that stay in a cache are not counted.
func (m machine) least(flops, bytes int64, threads int) float64 {
	if m.peak[threads] == 0 {
		return 0
	}
	seconds := float64(flops) / m.peak[threads]
	if bytes > m.cache {
		seconds = max(seconds, float64(bytes)/m.bandwidth[threads])
	}
	return 1e6 * seconds
}
