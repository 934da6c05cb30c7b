package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/bench"
	"github.com/edl-go/edl/bench/internal/costmodel"
	"github.com/edl-go/edl/bench/internal/measure"
	"github.com/edl-go/edl/bench/internal/pytorch"
	"github.com/edl-go/edl/bench/internal/rounds"
	"github.com/edl-go/edl/fault"
)

// runnerOf returns a runner with the settings of flags.
func runnerOf(t *testing.T, arguments ...string) *runner {
	t.Helper()
	s, err := parse(arguments)
	if err != nil {
		t.Fatal(err)
	}
	return &runner{settings: s, samples: map[key][]sample{}, failed: map[key]string{}, kernels: map[string]string{}}
}

func TestParse(t *testing.T) {
	for _, arguments := range [][]string{{"-run", "("}, {"-rounds", "-1"}, {"-seconds", "0"}, {"-memory", "0"}, {"mlp"}, {"-transport", "tcp,"},
		{"-growth", "-transport", "tcp,shm"}, {"-csv", "x"}, {"-plot", "x.svg"}, {"-what"},
		{"-transport", "tpc"}, {"-transport", "shm,tpc"}, {"-run", "nothing"}, {"-growth", "-run", "steps/"}} {
		if s, err := parse(arguments); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%q: %+v, %v", arguments, s, err)
		}
	}
	if s, err := parse(nil); err != nil || s.rounds != 5 || !slices.Equal(s.transports, []string{""}) {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := parse([]string{"-growth"}); err != nil || s.rounds != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestChildRefuses(t *testing.T) {
	for _, arguments := range [][]string{{"measure"}, {jobCommand, "{"}, {jobCommand, "{", "data"}, {copyCommand, "{"}, {localCommand, "mlp/sgd", "soon"},
		{copyServerCommand, "tcp", "", "many"}} {
		if err := child(t.Context(), arguments, &strings.Builder{}); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%q: %v", arguments, err)
		}
	}
}

func TestLocalPrintsAMeasurement(t *testing.T) {
	var out strings.Builder
	if err := child(t.Context(), []string{localCommand, "fit_a_line/sgd", "0.001"}, &out); err != nil {
		t.Fatal(err)
	}
	if r, err := measure.Read([]byte(out.String())); err != nil || r.Median <= 0 || r.PeakMemory <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Every row is there once, and its workload can be read from records.
func TestRowsAreJobs(t *testing.T) {
	seen := map[string]bool{}
	r := runnerOf(t)
	for name, row := range r.selected(tables) {
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
		if row.bytes > 1<<20 {
			continue // too large to build in a test
		}
		if _, err := bench.NewReading(row.job.Workload); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, part := range tables {
		for _, row := range part.rows {
			name := part.name + "/" + row.label
			for _, k := range r.contenders(name, row) {
				r.samples[k] = []sample{{Result: rounds.Result{Result: measure.Result{Median: 1000}}}}
			}
			for _, line := range part.write(r, part, row) {
				if len(line) != len(part.heading) {
					t.Errorf("%s: %d cells under %d headings", name, len(line), len(part.heading))
				}
			}
		}
	}
}

func TestContendersOfARow(t *testing.T) {
	r := runnerOf(t, "-transport", "tcp,unix", "-run", "steps/MLP, SGD|transfer/1 MB")
	var got []string
	for name, row := range r.selected(tables) {
		for _, k := range r.contenders(name, row) {
			got = append(got, k.String())
		}
	}
	want := []string{"steps/MLP, SGD, EDL (tcp)", "steps/MLP, SGD, EDL (unix)", "steps/MLP, SGD, DDP",
		"steps/MLP, SGD, DDP that reads a file", "steps/MLP, SGD, one machine",
		"steps/MLP, SGD, EDL, goroutines (tcp)", "transfer/1 MB, EDL (tcp)", "transfer/1 MB, EDL (unix)", "transfer/1 MB, sockets (tcp)",
		"transfer/1 MB, sockets (unix)", "transfer/1 MB, one machine"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCommandsOfContenders(t *testing.T) {
	r := runnerOf(t, "-transport", "shm", "-seconds", "3", "-memory", "1")
	r.binary, r.dir, r.kernels["mlp/sgd"] = "rounds", "/dir", pytorch.SkylakeX
	step, move := tables[0].rows[0], tables[2].rows[1]
	for _, test := range []struct {
		k    key
		row  row
		want string
	}{
		{key{"", edl, "shm"}, step, `rounds job {"workload":"fc:128:784-200-200-10/sgd","trainers":2,"pservers":2,"transport":"shm","seconds":3,` +
			`"memory":1073741824} /dir/data`},
		{key{"", goroutines, ""}, step, `rounds job {"workload":"fc:128:784-200-200-10/sgd","trainers":2,"pservers":2,"goroutines":true,"seconds":3,` +
			`"memory":1073741824} /dir/data`},
		{key{"", oneMachine, ""}, step, "rounds local fc:128:784-200-200-10/sgd 3"},
		{key{"", ddp, ""}, step, pytorch.Python + " /dir/ddp.py mlp/sgd 2 3"},
		{key{"", ddpReading, ""}, step, pytorch.Python + " /dir/ddp.py mlp/sgd 2 3 read"},
		{key{"", sockets, "tcp"}, move, `rounds copy {"network":"tcp","bytes":1048576,"servers":2,"seconds":3}`},
	} {
		cmd := r.command(t.Context(), test.k, test.row)
		if got := strings.Join(cmd.Args, " "); got != test.want {
			t.Errorf("%s:\n%s, want\n%s", test.k, got, test.want)
		}
		if sets := slices.Contains(cmd.Env, "OPENBLAS_CORETYPE=SkylakeX"); sets != (test.k.contender == ddp || test.k.contender == ddpReading) {
			t.Errorf("%s: kernels in the environment: %t", test.k, sets)
		}
	}
}

// samplesOf are measurements of so many microseconds each.
func samplesOf(result rounds.Result, microseconds ...float64) []sample {
	all := make([]sample, len(microseconds))
	for i, us := range microseconds {
		result.Median = us
		all[i] = sample{Result: result, cpu: 30 * time.Second, others: 0.25}
	}
	return all
}

func TestReport(t *testing.T) {
	r := runnerOf(t, "-transport", "tcp,shm", "-calm", "0.3")
	r.kernels["mlp/sgd"] = pytorch.SkylakeX
	r.samples = map[key][]sample{
		{"steps/MLP, SGD", edl, "tcp"}:            samplesOf(rounds.Result{CPU: 3000, Switches: 81}, 2000, 1000, 3000),
		{"steps/MLP, SGD", edl, "shm"}:            samplesOf(rounds.Result{CPU: 2000, Switches: 40}, 1000),
		{"steps/MLP, SGD", ddp, ""}:               samplesOf(rounds.Result{CPU: 5000, Switches: 30}, 4000),
		{"steps/MLP, SGD", ddpReading, ""}:        samplesOf(rounds.Result{}, 5000),
		{"steps/MLP, SGD", oneMachine, ""}:        samplesOf(rounds.Result{}, 500),
		{"steps/MLP, SGD", goroutines, "tcp"}:     samplesOf(rounds.Result{Mallocs: 160}, 1500),
		{"grid/MLP 8x4", edl, "tcp"}:              samplesOf(rounds.Result{CPU: 20000, Switches: 500, Result: measure.Result{PeakMemory: 1e9}}, 12000),
		{"transfer/1 MB", edl, "shm"}:             samplesOf(rounds.Result{}, 500),
		{"transfer/1 MB", sockets, "tcp"}:         samplesOf(rounds.Result{}, 400),
		{"transfer/1 MB", oneMachine, ""}:         samplesOf(rounds.Result{}, 100),
		{"requests/1,000 x 64 bytes", edl, ""}:    samplesOf(rounds.Result{}, 1),
		{"whole/fit_a_line 50x4", edl, "tcp"}:     samplesOf(rounds.Result{Seconds: 14.5, Steps: 420, Restarts: 1}, 1000),
		{"requests/1,000 x 64 bytes", edl, "tcp"}: samplesOf(rounds.Result{}, 4000),
	}
	r.failed = map[key]string{{"grid/MLP 4x4", edl, "tcp"}: "exit status 1\nlost  pserver 0"}
	var out strings.Builder
	if err := r.report(&out, tables); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Other processes used 0.25 cores in the median measurement, 0.25 at most.",
		"DDP has SkylakeX kernels in mlp/sgd.",
		"| MLP, SGD | tcp | 2.00 ms (1.00 ms to 3.00 ms) | 4.00 ms (4.00 ms to 4.00 ms) | 2.00 | " +
			"5.00 ms (5.00 ms to 5.00 ms) | 2.50 | 500 us (500 us to 500 us) | 3.00 ms / 5.00 ms | 81 / 30 | 160 |",
		"| MLP, SGD | shm | 1.00 ms (1.00 ms to 1.00 ms) | 4.00 ms (4.00 ms to 4.00 ms) | 4.00 | " +
			"5.00 ms (5.00 ms to 5.00 ms) | 5.00 | 500 us (500 us to 500 us) | 2.00 ms / 5.00 ms | 40 / 30 |  |",
		"| MLP 8x4 | tcp | 12.0 ms (12.0 ms to 12.0 ms) | 20.0 ms | 500 | 1000 MB |",
		"| 1 MB | shm | 500 us (500 us to 500 us) | 2.10 GB/s | 2.62 GB/s (tcp) | 0.80 | 100 us (100 us to 100 us) |",
		"| 1,000 x 64 bytes | tcp | 500000 a second | 4.00 ms (4.00 ms to 4.00 ms) |  |  |",
		"| fit_a_line 50x4 | tcp | 14.5 s | 30.0 s | 420 | 1 |",
		"Measurements that failed:\n\n- grid/MLP 4x4, EDL (tcp): exit status 1 lost pserver 0\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// A measurement during which others used the machine is marked, also in its cell. A processor time that nobody measures is not told.
func TestDisturbedMeasurementsAreMarked(t *testing.T) {
	r := runnerOf(t, "-calm", "0.3")
	calm, disturbed := samplesOf(rounds.Result{CPU: 2000}, 1000)[0], samplesOf(rounds.Result{}, 3000)[0]
	disturbed.others = 0.31
	if told := r.told(calm); told != "1.00 ms, CPU 2.00 ms, others used 0.25 cores" {
		t.Error(told)
	}
	if told := r.told(disturbed); told != "3.00 ms, others used 0.31 cores: disturbed" {
		t.Error(told)
	}
	k := key{"grid/MLP 8x4", edl, ""}
	r.samples[k] = []sample{calm, disturbed, calm}
	if cell := r.figures(k).time(); cell != "1.00 ms (1.00 ms to 3.00 ms), 1 of 3 disturbed" {
		t.Error(cell)
	}
}

// A measurement that fails does not end the others; the end of the context does.
func TestMeasureGoesOnAfterAFailure(t *testing.T) {
	r := runnerOf(t)
	r.binary, r.retries = filepath.Join(t.TempDir(), "missing"), 0
	k := key{"grid/MLP 1x1", edl, ""}
	if err := r.measure(t.Context(), k, tables[1].rows[0], 0); err != nil || r.failed[k] == "" {
		t.Errorf("%q, %v", r.failed[k], err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.measure(ended, k, tables[1].rows[0], 0); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

func TestGrowthPointsAreJobs(t *testing.T) {
	held := 0
	for _, p := range growthPoints() {
		if p.held {
			held++
		}
		if p.Bytes > 1<<20 {
			continue
		}
		row := p.row()
		reading, err := bench.NewReading(row.job.Workload)
		if err != nil {
			t.Fatalf("%s: %v", row.label, err)
		}
		if reading.Rows != int64(p.Trainers) || p.Slices < p.Pservers {
			t.Errorf("%+v: batches of %d rows", p, reading.Rows)
		}
		bytes := int64(0)
		for _, v := range reading.Program.Global().Vars() {
			if v.Persistable && len(v.Dims) == 2 {
				bytes += 4 * v.Dims[0] * v.Dims[1]
			}
		}
		if bytes != p.Bytes {
			t.Errorf("%+v has %d bytes", p, bytes)
		}
	}
	if held < 10 || held > len(growthPoints())-10 {
		t.Errorf("%d of %d points are held out", held, len(growthPoints()))
	}
}

// measuredPoints are points whose processor time is exactly that of a model, and whose wall time is half of it.
func measuredPoints(m costmodel.Model) []measuredPoint {
	var all []measuredPoint
	for _, p := range growthPoints() {
		us := 1e3 * m.Predict(p.Shape)
		all = append(all, measuredPoint{p, figures{n: 1, median: us / 2, cpu: us, switches: 7, peak: 1e6}})
	}
	return all
}

func TestGrowthIsWritten(t *testing.T) {
	measured := measuredPoints(costmodel.Model{Connection: 0.25, Slice: 0.5, Megabyte: 2})
	m, err := fitModels(measured)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	m.describe(&b, measured)
	writeGrowth(&b, m, measured)
	for _, want := range []string{
		"- processor time: N (0.25 (M + 1) + 0.5 S + 2 P) ms. Fitted: 14 points, error 0 % in the median and 0 % at most, 14 within 20 %.",
		"- wall time: N (0.125 (M + 1) + 0.25 S + 1 P) ms.",
		"| 1 | 1 | 1 | 250 KB | 756 us | 1.51 ms | 1.51 ms | fitted | 7 | 1 MB |",
		"| 2 | 8 | 128 | 16 MB |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	var points strings.Builder
	if err := writePoints(&points, "", m, measured); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(points.String()), "\n")
	if want := "trainers,default,1,2,8,262144,fitted,2.6371,5.2743,7,0,1,2.6371,5.2743"; len(lines) != len(measured)+1 || lines[1] != want {
		t.Errorf("%d lines, the first %q, want %q", len(lines), lines[1], want)
	}
	file := filepath.Join(t.TempDir(), "rounds.svg")
	if err := plotGrowth(file, m, measured); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, curve := range []string{byTrainers, byPservers, byBytes, bySlices} {
		if !strings.Contains(string(text), "Rounds by "+curve) {
			t.Errorf("no panel for %s", curve)
		}
	}
	if err := plotGrowth(file, m, nil); err != nil {
		t.Errorf("a picture of nothing: %v", err)
	}
}

// Points that were not measured before the limit of time are counted.
func TestGrowthEndsInTime(t *testing.T) {
	r := runnerOf(t, "-growth", "-limit", "1ns")
	r.binary = "missing"
	measured, left, err := measureGrowth(t.Context(), r)
	if err != nil || len(measured) != 0 || left != len(growthPoints()) {
		t.Errorf("%d measured, %d left, %v", len(measured), left, err)
	}
	r.run = regexp.MustCompile("^mixed/")
	var out strings.Builder
	if err := growthReport(t.Context(), r, &out); err != nil || !strings.Contains(out.String(), "too few points") {
		t.Errorf("%v:\n%s", err, &out)
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{64: "64 B", 1 << 10: "1 KB", 256000: "250 KB", 3 << 19: "1.5 MB", 1 << 30: "1 GB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	if got := fmt.Sprint(duration(12.34), " ", duration(123456)); got != "12.3 us 123 ms" {
		t.Error(got)
	}
}
