package main

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/bench"
	"github.com/edl-go/edl/bench/internal/measure"
	"github.com/edl-go/edl/bench/internal/pytorch"
)

func settingsOf(t *testing.T, arguments ...string) settings {
	t.Helper()
	s, err := parse(arguments)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseRefuses(t *testing.T) {
	for _, arguments := range [][]string{{"-threads", "1,"}, {"-threads", "0"}, {"-run", "("}, {"-rounds", "0"}, {"mlp"}} {
		if s, err := parse(arguments); err == nil {
			t.Errorf("%q: %+v", arguments, s)
		}
	}
}

// Every row must name a workload that exists, once.
func TestRowsAreWorkloads(t *testing.T) {
	seen := map[string]bool{}
	for _, part := range slices.Concat(tables, growth) {
		for _, r := range part.rows {
			if part.title == growth[len(growth)-1].title && r.x > 1e6 {
				continue // too large to build in a test
			}
			if _, err := bench.New(r.workload); err != nil {
				t.Errorf("%s: %v", r.workload, err)
			}
			if seen[part.title+r.workload] {
				t.Errorf("%s is there twice", r.workload)
			}
			seen[part.title+r.workload] = true
		}
	}
}

func TestContendersTakeTurns(t *testing.T) {
	s := settingsOf(t, "-threads", "1,2", "-run", "mlp/sgd|fit_a_line")
	var said []string
	for _, round := range []int{0, 1} {
		for k := range turns(s, tables, round) {
			said = append(said, k.contender+" "+k.workload+" "+threadsText(k.threads))
		}
	}
	want := strings.Split(strings.TrimSpace(`
EDL fit_a_line/sgd 1 thread
PyTorch fit_a_line/sgd 1 thread
EDL fit_a_line/sgd 2 threads
PyTorch fit_a_line/sgd 2 threads
EDL mlp/sgd 1 thread
PyTorch mlp/sgd 1 thread
gorgonia mlp/sgd 1 thread
EDL mlp/sgd 2 threads
PyTorch mlp/sgd 2 threads
gorgonia mlp/sgd 2 threads
PyTorch fit_a_line/sgd 1 thread
EDL fit_a_line/sgd 1 thread
PyTorch fit_a_line/sgd 2 threads
EDL fit_a_line/sgd 2 threads
gorgonia mlp/sgd 1 thread
PyTorch mlp/sgd 1 thread
EDL mlp/sgd 1 thread
gorgonia mlp/sgd 2 threads
PyTorch mlp/sgd 2 threads
EDL mlp/sgd 2 threads`), "\n")
	if !slices.Equal(said, want) {
		t.Errorf("got\n%s", strings.Join(said, "\n"))
	}
}

func TestCalmReadsWhatAProcessMeasured(t *testing.T) {
	sh := func(script string) (sample, error) {
		return calm(t.Context(), settings{calm: 1e9}, func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "sh", "-c", script) })
	}
	one, err := sh(`echo '{"median_us":2,"peak_bytes":3}'`)
	if err != nil || one.Median != 2 || one.PeakMemory != 3 {
		t.Errorf("%+v, %v", one, err)
	}
	if _, err := sh("echo lost >&2; exit 1"); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("a process that fails: %v", err)
	}
	if _, err := sh("echo fast"); err == nil {
		t.Error("no error for what is no measurement")
	}
}

// Only the rows of PyTorch and OpenBLAS choose kernels, each its own.
func TestChooseKernels(t *testing.T) {
	s := settingsOf(t, "-threads", "1", "-run", "mlp/sgd|fit_a_line")
	chosen := map[key]string{}
	took := map[string]int{"mlp/sgd" + pytorch.Own: 2, "mlp/sgd" + pytorch.SkylakeX: 1,
		"fit_a_line/sgd" + pytorch.Own: 1, "fit_a_line/sgd" + pytorch.SkylakeX: 2}
	all := map[string]contender{torch: func(ctx context.Context, workload string, threads int, _ float64) *exec.Cmd {
		return exec.CommandContext(ctx, "echo", fmt.Sprintf(`{"median_us":%d}`, took[workload+chosen[key{torch, workload, threads}]]))
	}}
	if err := chooseKernels(t.Context(), s, tables, all, []string{pytorch.Own, pytorch.SkylakeX}, chosen); err != nil {
		t.Fatal(err)
	}
	if want := (map[key]string{{torch, "mlp/sgd", 1}: pytorch.SkylakeX, {torch, "fit_a_line/sgd", 1}: pytorch.Own}); !maps.Equal(chosen, want) {
		t.Errorf("%v, want %v", chosen, want)
	}
}

func TestReport(t *testing.T) {
	samples := func(microseconds ...float64) []sample {
		all := make([]sample, len(microseconds))
		for i, us := range microseconds {
			all[i] = sample{measure.Result{Median: us, Fastest: us / 2, CPUMedian: us / 4, CPUFastest: us / 5, PeakMemory: 10e6}, 0.25}
		}
		return all
	}
	measured := map[key][]sample{
		{edl, "mlp/sgd", 1}:                samples(300, 100, 200),
		{torch, "mlp/sgd", 1}:              samples(400, 600, 500),
		{gorgonia, "mlp/sgd", 1}:           samples(2000, 4000, 3000),
		{edl, "fit_a_line/sgd", 1}:         samples(1, 1, 1),
		{torch, "fit_a_line/sgd", 1}:       samples(10, 10, 10),
		{edl, "sgemm:512x400x400", 1}:      samples(1638.4),
		{openblas, "sgemm:512x400x400", 1}: samples(2048),
	}
	m := machine{"a processor", 1 << 20, "AVX2", map[int]float64{1: 5e11}, map[int]float64{1: 1e10}}
	s := settings{rounds: 3, seconds: 1, threads: []int{1}, run: regexp.MustCompile("")}
	chosen := map[key]string{{torch, "mlp/sgd", 1}: pytorch.SkylakeX, {openblas, "sgemm:512x400x400", 1}: pytorch.SkylakeX,
		{torch, "fit_a_line/sgd", 1}: pytorch.Own}
	var out strings.Builder
	if err := report(&out, s, m, tables, measured, chosen); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"PyTorch and OpenBLAS were fastest with SkylakeX kernels in mlp/sgd (1 thread), sgemm:512x400x400 (1 thread).\n",
		"PyTorch and OpenBLAS were fastest with the kernels that OpenBLAS chooses in fit_a_line/sgd (1 thread).\n",
		"Limits with 1 thread: 500 GFLOP/s (float32 AVX2 multiply-adds), 10.0 GB/s",
		"| 512 x 400 x 400 | 1 | 100.0 GFLOP/s (100.0 to 100.0) | 80.0 GFLOP/s (80.0 to 80.0) | 1.25 | 20.0 % | 10 MB / 10 MB |",
		"| fit_a_line, SGD | 1 | 1.00 us (1.00 us to 1.00 us) | 10.0 us (10.0 us to 10.0 us) | 10.00 |  |  | 0.2 % | 10 MB / 10 MB |",
		// The parameters, 1.6 MB to be read and written, take longer than the arithmetic.
		"| MLP, SGD | 1 | 200 us (100 us to 300 us) | 500 us (400 us to 600 us) | 2.50 | 3.00 ms (2.00 ms to 4.00 ms) | 15.00 | 79.7 % | 10 MB / 10 MB |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	for _, test := range []struct {
		best, cpu bool
		want      []string
	}{
		{true, false, []string{"of the fastest windows.", "| MLP, SGD | 1 | 100 us (50.0 us to 150 us) |"}},
		{false, true, []string{"of the median windows, in processor time.", "| MLP, SGD | 1 | 50.0 us (25.0 us to 75.0 us) |"}},
		{true, true, []string{"of the fastest windows, in processor time.", "| MLP, SGD | 1 | 40.0 us (20.0 us to 60.0 us) |"}},
	} {
		s.best, s.cpu = test.best, test.cpu
		out.Reset()
		if err := report(&out, s, m, tables, measured, chosen); err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, &out)
			}
		}
	}
}
