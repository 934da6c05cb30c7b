package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/bench/internal/measure"
	"github.com/edl-go/edl/bench/internal/process"
	"github.com/edl-go/edl/bench/internal/pytorch"
	"github.com/edl-go/edl/bench/internal/rounds"
	"github.com/edl-go/edl/bench/peers"
)

// patience is how long one measurement may take, with its repetitions.
const patience = 10 * time.Minute

// Contenders. EDL stands for one contender for each transport.
const (
	edl        = "EDL"
	goroutines = "EDL, goroutines"
	oneMachine = "one machine"
	ddp        = "DDP"
	ddpReading = "DDP that reads a file"
	sockets    = "sockets"
)

// A key names a measurement: a row by its section and label, the contender, and its transport or network.
type key struct{ row, contender, transport string }

// A sample is one measurement.
type sample struct {
	rounds.Result
	cpu    time.Duration // of the whole process
	others float64       // cores that other processes used
}

// A runner takes measurements.
type runner struct {
	settings
	binary  string            // this program
	dir     string            // for record files and scripts
	kernels map[string]string // of OpenBLAS, by the workload of DDP
	samples map[key][]sample
	failed  map[key]string // why a measurement failed last
}

// prepare finds PyTorch and chooses its kernels, if a row needs it.
func (r *runner) prepare(ctx context.Context, sections []section) error {
	var workloads []string
	for _, row := range r.selected(sections) {
		if row.ddp != "" {
			workloads = append(workloads, row.ddp)
		}
	}
	if len(workloads) == 0 {
		return nil
	}
	if err := pytorch.Check(ctx); err != nil {
		return err
	}
	if err := pytorch.WriteScripts(r.dir); err != nil {
		return err
	}
	for _, workload := range workloads {
		best, err := pytorch.Fastest(pytorch.Kernels(), func(choice string) (float64, error) {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			o, err := process.Run(r.ddpCommand(ctx, workload, choice, r.seconds/4))
			if err != nil {
				return 0, err
			}
			return pytorch.MedianOf(o.Output)
		})
		if err != nil {
			return err
		}
		r.kernels[workload] = best
		fmt.Fprintf(os.Stderr, "DDP %s: fastest with %s\n", workload, pytorch.KernelsText(best))
	}
	return nil
}

// ddpProcesses is how many processes DDP has: as many as the jobs beside it have trainers.
const ddpProcesses = 2

func (r *runner) ddpCommand(ctx context.Context, workload, kernels string, seconds float64) *exec.Cmd {
	cmd := pytorch.Command(ctx, r.dir, peers.DDP, workload, ddpProcesses, seconds)
	cmd.Env = pytorch.Environment(1, kernels)
	return cmd
}

// selected returns the rows that the flags choose, by section/label.
func (r *runner) selected(sections []section) iter.Seq2[string, row] {
	return func(yield func(string, row) bool) {
		for _, part := range sections {
			for _, row := range part.rows {
				if name := part.name + "/" + row.label; r.run.MatchString(name) && !yield(name, row) {
					return
				}
			}
		}
	}
}

// contenders returns what is measured for a row, in the order of the first round.
func (r *runner) contenders(name string, row row) []key {
	var all []key
	for _, transport := range r.transports {
		all = append(all, key{name, edl, transport})
	}
	if row.ddp != "" {
		all = append(all, key{name, ddp, ""}, key{name, ddpReading, ""})
	}
	if row.bytes > 0 {
		all = append(all, key{name, sockets, "tcp"})
		if slices.Contains(r.transports, "unix") {
			all = append(all, key{name, sockets, "unix"})
		}
	}
	if row.local {
		all = append(all, key{name, oneMachine, ""})
	}
	if row.goroutines {
		all = append(all, key{name, goroutines, r.transports[0]})
	}
	return all
}

// measureAll measures all rows in rounds. The contenders of a row take turns, and the first one changes from round to round.
func (r *runner) measureAll(ctx context.Context, sections []section) error {
	for round := range r.rounds {
		for name, row := range r.selected(sections) {
			turn := r.contenders(name, row)
			if round%2 == 1 {
				slices.Reverse(turn)
			}
			for _, k := range turn {
				if err := r.measure(ctx, k, row, round); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measure takes a sample. A measurement that fails is remembered, and is no error unless ctx has ended.
func (r *runner) measure(ctx context.Context, k key, row row, round int) error {
	one, err := r.take(ctx, k, row)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.failed[k] = err.Error()
		fmt.Fprintf(os.Stderr, "round %d, %s: %v\n", round+1, k, err)
		return nil
	}
	r.samples[k] = append(r.samples[k], one)
	fmt.Fprintf(os.Stderr, "round %d, %s: %s\n", round+1, k, r.told(one))
	return nil
}

// told is a sample in a line of progress.
func (r *runner) told(one sample) string {
	text := duration(one.Median)
	if one.CPU > 0 { // nobody measures that of one machine and of copies
		text += ", CPU " + duration(one.CPU)
	}
	text += fmt.Sprintf(", others used %.2f cores", one.others)
	if r.disturbed(one) {
		text += ": disturbed"
	}
	return text
}

// disturbed reports whether others used the machine during a sample, also during its repetitions.
func (r *runner) disturbed(one sample) bool { return one.others > r.calm }

// String names a measurement in messages.
func (k key) String() string {
	if k.transport == "" {
		return k.row + ", " + k.contender
	}
	return k.row + ", " + k.contender + " (" + k.transport + ")"
}

func (r *runner) take(ctx context.Context, k key, row row) (sample, error) {
	o, err := process.Calm(ctx, patience, r.retries, r.calm, func(ctx context.Context) *exec.Cmd { return r.command(ctx, k, row) })
	if err != nil {
		return sample{}, shortened(err)
	}
	s := sample{cpu: o.CPU, others: o.Others}
	if err := json.Unmarshal(o.Output, &s.Result); err != nil {
		return sample{}, fmt.Errorf("no measurement in %.200q: %w", o.Output, err)
	}
	return s, nil
}

// longestError bounds the text of a failed measurement, whose process may have written much.
const longestError = 1000

func shortened(err error) error {
	if text := strings.TrimSpace(err.Error()); len(text) > longestError {
		return fmt.Errorf("%s ... %s", text[:longestError/2], text[len(text)-longestError/2:])
	}
	return err
}

// command is the process that takes a measurement.
func (r *runner) command(ctx context.Context, k key, row row) *exec.Cmd {
	switch k.contender {
	case ddp:
		return r.ddpCommand(ctx, row.ddp, r.kernels[row.ddp], r.seconds)
	case ddpReading:
		cmd := r.ddpCommand(ctx, row.ddp, r.kernels[row.ddp], r.seconds)
		cmd.Args = append(cmd.Args, "read")
		return cmd
	case oneMachine:
		return exec.CommandContext(ctx, r.binary, localCommand, row.job.Workload, fmt.Sprint(r.seconds))
	case sockets:
		c := rounds.Copy{Network: k.transport, Bytes: row.bytes, Servers: int(row.job.Pservers), Seconds: r.seconds}
		return exec.CommandContext(ctx, r.binary, copyCommand, encode(c))
	}
	j := row.job
	j.Transport, j.Goroutines = k.transport, j.Goroutines || k.contender == goroutines
	j.Seconds, j.Memory = r.seconds, int64(r.memory*(1<<30))
	return exec.CommandContext(ctx, r.binary, jobCommand, encode(j), filepath.Join(r.dir, "data"))
}

// encode writes a description of a measurement, which JSON can hold, as an argument.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// figures sum samples up: medians, and the lowest and the highest of times.
type figures struct {
	n                                                       int
	median, lowest, highest                                 float64 // microseconds
	cpu, switches, mallocs, peak, seconds, restarts, wholes float64 // medians; cpu in microseconds, wholes in seconds of processor time
	steps                                                   uint64
	disturbed                                               int // how many of the n
}

func (r *runner) figures(k key) figures {
	samples := r.samples[k]
	if len(samples) == 0 {
		return figures{}
	}
	of := func(value func(s sample) float64) []float64 {
		all := make([]float64, len(samples))
		for i, s := range samples {
			all[i] = value(s)
		}
		slices.Sort(all)
		return all
	}
	disturbed := 0
	for _, one := range samples {
		if r.disturbed(one) {
			disturbed++
		}
	}
	median := func(value func(s sample) float64) float64 { return measure.Median(of(value)) }
	times := of(func(s sample) float64 { return s.Median })
	return figures{
		n: len(samples), median: measure.Median(times), lowest: times[0], highest: times[len(times)-1],
		cpu:      median(func(s sample) float64 { return s.CPU }),
		switches: median(func(s sample) float64 { return s.Switches }),
		mallocs:  median(func(s sample) float64 { return s.Mallocs }),
		peak:     median(func(s sample) float64 { return float64(s.PeakMemory) }),
		seconds:  median(func(s sample) float64 { return s.Seconds }),
		wholes:   median(func(s sample) float64 { return s.cpu.Seconds() }),
		restarts: median(func(s sample) float64 { return float64(s.Restarts) }),
		steps:    samples[len(samples)-1].Steps, disturbed: disturbed,
	}
}

// failures lists the measurements that failed, in order.
func (r *runner) failures() []string {
	var all []string
	for k, why := range r.failed {
		all = append(all, fmt.Sprintf("%s: %s", k, strings.Join(strings.Fields(why), " ")))
	}
	slices.Sort(all)
	return all
}

// disturbance returns the median and the largest number of cores that others used.
func (r *runner) disturbance() (median, most float64) {
	var others []float64
	for samples := range maps.Values(r.samples) {
		for _, one := range samples {
			others = append(others, one.others)
		}
	}
	if len(others) == 0 {
		return 0, 0
	}
	slices.Sort(others)
	return measure.Median(others), others[len(others)-1]
}
