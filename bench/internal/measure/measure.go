// Package measure times work that is repeated. The scripts in bench/peers time it in the same way.
//
// It times windows of some milliseconds with the same number of repetitions each. The figure is the median of the windows, so neither a window that
// another process disturbed nor the best window decides it.
package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/edl-go/edl/fault"
)

// Window is the least duration of a window.
const Window = 20 * time.Millisecond

// Fewest is the least number of warm-up repetitions, and of windows.
const Fewest = 3

// A Result is one measurement. It travels between processes as a line of JSON.
type Result struct {
	Median      float64 `json:"median_us"`      // microseconds of one repetition
	Fastest     float64 `json:"fastest_us"`     // of the fastest window
	CPUMedian   float64 `json:"cpu_median_us"`  // the same of processor time, of all threads of the process
	CPUFastest  float64 `json:"cpu_fastest_us"` // of the window with the least of it
	Windows     int     `json:"windows"`
	PeakMemory  int64   `json:"peak_bytes"`  // resident, over the life of the process
	StartMemory int64   `json:"start_bytes"` // peak before the work was set up
}

// Work does once the work to measure. i counts from 0, warm-up included.
type Work func(i int) error

// Repeat does work for about the given time, after a quarter of it as warm-up.
func Repeat(d time.Duration, work Work) (Result, error) {
	i := 0
	run := func(enough func(done int, elapsed time.Duration) bool) (done int, elapsed time.Duration, err error) {
		start := time.Now()
		for !enough(done, elapsed) {
			if err := work(i); err != nil {
				return 0, 0, err
			}
			i++
			done++
			elapsed = time.Since(start)
		}
		return done, elapsed, nil
	}
	done, elapsed, err := run(func(done int, elapsed time.Duration) bool { return done >= Fewest && elapsed >= d/4 })
	if err != nil {
		return Result{}, err
	}
	repetitions := 1 + int(Window*time.Duration(done)/max(elapsed, 1))
	var windows, cpu []float64
	for start := time.Now(); len(windows) < Fewest || time.Since(start) < d; {
		used, err := cpuTime()
		if err != nil {
			return Result{}, err
		}
		begin := time.Now()
		for range repetitions {
			if err := work(i); err != nil {
				return Result{}, err
			}
			i++
		}
		windows = append(windows, time.Since(begin).Seconds()*1e6/float64(repetitions))
		now, err := cpuTime()
		if err != nil {
			return Result{}, err
		}
		cpu = append(cpu, (now-used).Seconds()*1e6/float64(repetitions))
	}
	slices.Sort(windows)
	slices.Sort(cpu)
	return Result{Median: Median(windows), Fastest: windows[0], CPUMedian: Median(cpu), CPUFastest: cpu[0], Windows: len(windows)}, nil
}

// cpuTime is the processor time that this process has used so far.
func cpuTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// Median returns the middle of sorted values, at least one.
func Median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Write writes r as a line of JSON.
func (r Result) Write(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// Read reads the output of Write.
func Read(line []byte) (Result, error) {
	var r Result
	if err := json.Unmarshal(line, &r); err != nil {
		return Result{}, fmt.Errorf("no measurement in %.200q: %w", line, err)
	}
	return r, nil
}

// PeakMemory returns the largest resident memory of this process so far. It reads the kernel's VmHWM and not getrusage's ru_maxrss, which a child
// inherits from its parent. Linux only.
func PeakMemory() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, found := bytes.Cut(status, []byte("VmHWM:"))
	var kilobytes int64
	if _, err := fmt.Sscanf(string(rest), "%d kB", &kilobytes); !found || err != nil {
		return 0, fmt.Errorf("no VmHWM in /proc/self/status")
	}
	return kilobytes << 10, nil
}

// Main runs a program with the arguments WORKLOAD THREADS SECONDS, which prints one Result, and returns its exit code. setup prepares the
// workload. Go code runs on THREADS threads at a time, garbage collection included.
func Main(setup func(ctx context.Context, workload string, threads int) (Work, error)) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := command(ctx, os.Args[1:], os.Stdout, setup)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return fault.KindOf(err).ExitCode()
}

func command(ctx context.Context, arguments []string, out io.Writer, setup func(context.Context, string, int) (Work, error)) error {
	if len(arguments) != 3 {
		return fault.New(fault.InvalidArgument, "usage: WORKLOAD THREADS SECONDS")
	}
	threads, err := strconv.Atoi(arguments[1])
	if err != nil || threads < 1 {
		return fault.E(fault.InvalidArgument, fault.Got("threads "+arguments[1]), fault.Want("a number, at least 1"))
	}
	seconds, err := strconv.ParseFloat(arguments[2], 64)
	if err != nil {
		return fault.E(fault.InvalidArgument, fault.Got("seconds "+arguments[2]), fault.Want("a number"))
	}
	runtime.GOMAXPROCS(threads)
	start, err := PeakMemory()
	if err != nil {
		return err
	}
	work, err := setup(ctx, arguments[0], threads)
	if err != nil {
		return err
	}
	result, err := Repeat(time.Duration(seconds*float64(time.Second)), work)
	if err != nil {
		return err
	}
	result.StartMemory = start
	if result.PeakMemory, err = PeakMemory(); err != nil {
		return err
	}
	return result.Write(out)
}
