package main

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/bench/internal/limits"
	"github.com/edl-go/edl/bench/internal/measure"
	"github.com/edl-go/edl/bench/internal/process"
	"github.com/edl-go/edl/bench/internal/pytorch"
	"github.com/edl-go/edl/bench/peers"
)

// patience is how long one measurement may take.
const patience = 10 * time.Minute

// A sample is one measurement, with the processor time of other processes during it.
type sample struct {
	measure.Result
	others float64
}

// calm takes samples until one is undisturbed, but at most so many, and returns the least disturbed one.
func calm(ctx context.Context, s settings, make func(context.Context) *exec.Cmd) (sample, error) {
	o, err := process.Calm(ctx, patience, s.retries, s.calm, make)
	if err != nil {
		return sample{}, err
	}
	result, err := measure.Read(o.Output)
	return sample{result, o.Others}, err
}

// A key names a contender and what it measures.
type key struct {
	contender, workload string
	threads             int
}

// measureAll takes s.rounds samples of all rows that s.run matches. A contender that does not know a workload has no samples of it.
func measureAll(ctx context.Context, s settings, sections []section, all map[string]contender) (map[key][]sample, error) {
	samples := map[key][]sample{}
	for round := range s.rounds {
		for k := range turns(s, sections, round) {
			one, err := calm(ctx, s, func(ctx context.Context) *exec.Cmd { return all[k.contender](ctx, k.workload, k.threads, s.seconds) })
			if err != nil {
				return nil, err
			}
			samples[k] = append(samples[k], one)
			fmt.Fprintf(os.Stderr, "round %d, %-8s %s, %s: %s, others used %.2f cores\n",
				round+1, k.contender, k.workload, threadsText(k.threads), duration(one.Median), one.others)
		}
	}
	return samples, nil
}

// turns returns the measurements of a round, in order. All contenders measure a row one after the other. The first contender changes from round to
// round.
func turns(s settings, sections []section, round int) iter.Seq[key] {
	return func(yield func(key) bool) {
		for _, part := range sections {
			turn := slices.Clone(part.contenders)
			if round%2 == 1 {
				slices.Reverse(turn)
			}
			for _, r := range part.rows {
				for _, threads := range s.threads {
					for _, name := range turn {
						if s.run.MatchString(r.workload) && knows(name, r.workload) && !yield(key{name, r.workload, threads}) {
							return
						}
					}
				}
			}
		}
	}
}

// knows reports whether a contender has a workload.
func knows(contender, workload string) bool {
	return contender != gorgonia || strings.HasPrefix(workload, "mlp") || strings.HasPrefix(workload, "conv")
}

// A contender makes the command that measures a workload.
type contender func(ctx context.Context, workload string, threads int, seconds float64) *exec.Cmd

// prepare builds and finds all contenders. It writes to dir. PyTorch runs with the kernels of OpenBLAS that chosen has for what it measures.
func prepare(ctx context.Context, dir string, chosen map[key]string) (map[string]contender, error) {
	if err := pytorch.Check(ctx); err != nil {
		return nil, err
	}
	if err := pytorch.WriteScripts(dir); err != nil {
		return nil, err
	}
	all := map[string]contender{}
	for _, name := range []string{torch, openblas} {
		all[name] = func(ctx context.Context, workload string, threads int, seconds float64) *exec.Cmd {
			cmd := pytorch.Command(ctx, dir, peers.Measure, workload, threads, seconds)
			cmd.Env = pytorch.Environment(threads, chosen[key{name, workload, threads}])
			return cmd
		}
	}
	for name, source := range map[string]string{edl: "measure", gorgonia: "gorgonia"} {
		program := filepath.Join(dir, source)
		build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/edl-go/edl/bench/cmd/"+source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", build, err, said)
		}
		all[name] = func(ctx context.Context, workload string, threads int, seconds float64) *exec.Cmd {
			return command(ctx, workload, threads, seconds, program)
		}
	}
	return all, nil
}

func command(ctx context.Context, workload string, threads int, seconds float64, program ...string) *exec.Cmd {
	arguments := append(program[1:], workload, fmt.Sprint(threads), fmt.Sprint(seconds))
	return exec.CommandContext(ctx, program[0], arguments...)
}

// probeShare is the length of a measurement that chooses kernels, as a share of the others.
const probeShare = 0.25

// chooseKernels measures everything that PyTorch and OpenBLAS measure with each of kernels in turns, and puts the fastest into chosen.
func chooseKernels(ctx context.Context, s settings, sections []section, all map[string]contender, kernels []string, chosen map[key]string) error {
	if len(kernels) == 1 {
		return nil
	}
	for k := range turns(s, sections, 0) {
		if k.contender != torch && k.contender != openblas {
			continue
		}
		best, err := pytorch.Fastest(kernels, func(choice string) (float64, error) {
			chosen[k] = choice
			o, err := process.Run(all[k.contender](ctx, k.workload, k.threads, s.seconds*probeShare))
			if err != nil {
				return 0, err
			}
			r, err := measure.Read(o.Output)
			return s.time(r), err
		})
		if err != nil {
			return err
		}
		chosen[k] = best
		fmt.Fprintf(os.Stderr, "%s %s, %s: fastest with %s\n", k.contender, k.workload, threadsText(k.threads), pytorch.KernelsText(best))
	}
	return nil
}

// A machine is the limits of this computer, for each number of threads.
type machine struct {
	processor    string
	cache        int64  // bytes of the last level; 0 when that is not known
	instructions string // that reach the peak
	peak         map[int]float64
	bandwidth    map[int]float64
}

// trials is how often a limit is measured; the best measurement counts.
const trials = 100

func newMachine() machine {
	return machine{processor: processor(), cache: lastLevelCache(), peak: map[int]float64{}, bandwidth: map[int]float64{}}
}

// measure raises the limits to the present measurement. It runs before and after all others, so that a busy moment does not lower the limits.
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

// least returns the microseconds that a step of so many operations and bytes takes at least on this machine, 0 if unknown. It does not count bytes
// that stay in a cache.
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
