package main

import (
	"bytes"
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
	"github.com/edl-go/edl/bench/peers"
	"github.com/edl-go/edl/fault"
)

// patience is how long one measurement may take.
const patience = 10 * time.Minute

// clockTick is the unit of /proc/stat on Linux.
const clockTick = 10 * time.Millisecond

// A sample is one measurement, with the processor time of other processes during it.
type sample struct {
	measure.Result
	others float64
}

// take runs cmd, which prints a measurement.
func take(cmd *exec.Cmd) (sample, error) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	before, start := busy(), time.Now()
	if err := cmd.Run(); err != nil {
		return sample{}, fmt.Errorf("%s: %w\n%s", cmd, err, said.Bytes())
	}
	others, elapsed := busy()-before-cmd.ProcessState.UserTime()-cmd.ProcessState.SystemTime(), time.Since(start)
	result, err := measure.Read(out.Bytes())
	return sample{result, max(0, others.Seconds()/elapsed.Seconds())}, err
}

// calm takes samples until one is undisturbed, but at most so many, and returns the least disturbed one.
func calm(ctx context.Context, s settings, make func(context.Context) *exec.Cmd) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var best sample
	for try := range 1 + s.retries {
		now, err := take(make(ctx))
		if err != nil {
			return sample{}, err
		}
		if try == 0 || now.others < best.others {
			best = now
		}
		if best.others <= s.calm {
			break
		}
	}
	return best, nil
}

// busy returns the time that the cores of this machine have worked since its start. If that is unknown, busy returns 0, and no measurement counts
// as disturbed.
func busy() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, wait, interrupt, soft, steal int64
	if _, err := fmt.Sscanf(string(stat), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &interrupt, &soft, &steal); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+interrupt+soft+steal) * clockTick
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

// python is Debian's, which has python3-torch.
const python = "/usr/bin/python3"

// openMP is the OpenBLAS with threads of OpenMP. PyTorch loads it for more than one thread, because the threads of the default OpenBLAS compete
// with those of OpenMP for the cores.
const openMP = "/usr/lib/x86_64-linux-gnu/openblas-openmp"

// A contender makes the command that measures a workload.
type contender func(ctx context.Context, workload string, threads int, seconds float64) *exec.Cmd

// prepare builds and finds all contenders. It writes to dir.
func prepare(ctx context.Context, dir string) (map[string]contender, error) {
	if err := checkPyTorch(ctx); err != nil {
		return nil, err
	}
	script := filepath.Join(dir, "measure.py")
	if err := os.WriteFile(script, peers.Measure, 0o600); err != nil {
		return nil, err
	}
	torch := func(ctx context.Context, workload string, threads int, seconds float64) *exec.Cmd {
		cmd := command(ctx, workload, threads, seconds, python, script)
		if threads == 1 {
			cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1")
		} else {
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+openMP)
		}
		return cmd
	}
	all := map[string]contender{pytorch: torch, openblas: torch}
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

func checkPyTorch(ctx context.Context) error {
	missing := func(what string, err error) error {
		return fault.E(fault.NotFound, fault.Got("no "+what), fault.Want("Debian's PyTorch and OpenBLAS"), fault.Cause(err),
			fault.Hint("apt-get update && apt-get install -y python3-torch libopenblas0-openmp"))
	}
	if said, err := exec.CommandContext(ctx, python, "-c", "import torch").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return missing("PyTorch for "+python, fmt.Errorf("%w: %s", err, lines[len(lines)-1]))
	}
	if _, err := os.Stat(openMP); err != nil {
		return missing("OpenBLAS with OpenMP", err)
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
