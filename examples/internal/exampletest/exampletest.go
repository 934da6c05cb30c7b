// Package exampletest trains what an example has written, as its printed commands would.
package exampletest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// Page lets an example write to a new directory, which it returns. Every edl command of the README.md beside the test must be one that the example prints: those are
// what the other tests of the example run.
func Page(t *testing.T, write func(out string) error) (out string) {
	t.Helper()
	out = t.TempDir()
	printed, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	stdout := os.Stdout
	os.Stdout = printed
	err = write(out)
	os.Stdout = stdout
	if err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(printed.Name())
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(strings.ReplaceAll(string(page), "/tmp/"+filepath.Base(folder), out)) {
		if !strings.HasPrefix(line, "edl ") {
			continue
		}
		if found++; !strings.Contains(string(lines), "  "+line) {
			t.Errorf("the page has %swhich the example does not print:\n%s", line, lines)
		}
	}
	if found < 3 {
		t.Errorf("the page has %d commands, want at least 3", found)
	}
	return out
}

// Load reads a program that an example wrote.
func Load(t testing.TB, out, name string) *program.Program {
	t.Helper()
	p, err := program.Load(filepath.Join(out, name), program.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Train trains out/program.pb on exe for a number of passes, saves the model to out/model, and returns the fetched variable of each step.
func Train(t testing.TB, exe executor.Executor, out string, passes int, fetch string) []float64 {
	t.Helper()
	return run(t, exe, Load(t, out, "program.pb"), executor.TrainOptions{
		Data: bind(out, "train"), Passes: passes, Fetch: []string{fetch}, Save: filepath.Join(out, "model"),
	})
}

// Test runs out/test.pb on the test set with the parameters in out/model, and returns the fetched variable of each batch.
func Test(t testing.TB, out, fetch string) []float64 {
	t.Helper()
	local := executor.New()
	defer local.Close()
	return run(t, local, Load(t, out, "test.pb"), executor.TrainOptions{
		Data: bind(out, "test"), Fetch: []string{fetch}, Params: filepath.Join(out, "model"),
	})
}

// Cluster is an executor of two trainers and two servers, as goroutines of the test.
func Cluster(t testing.TB) executor.Executor {
	t.Helper()
	exe, err := remote.NewExecutor("", &remote.JobSpec{Trainers: 2, Pservers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
	})
	return exe
}

// Mean is the average of values.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func bind(out, name string) map[string][]string {
	return map[string][]string{name: {filepath.Join(out, name+"-*")}}
}

func run(t testing.TB, exe executor.Executor, p *program.Program, options executor.TrainOptions) (values []float64) {
	t.Helper()
	_, err := exe.Train(t.Context(), p, options, func(s executor.StepResult) error {
		values = append(values, executor.Scalar(s.Fetched[0]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// Trains is a way to train: it does so on an executor and returns what it fetched, and the bits of everything persistable afterwards.
type Trains func(exe executor.Executor) map[string][]byte

// Obeys checks, on the first records of out/program.pb, what the project promises of every program: no fusion of plans and no number of workers
// changes a bit of what it fetches and learns, and a cluster computes the bits of the reference.
func Obeys(t *testing.T, out, fetch string) {
	t.Helper()
	p := Load(t, out, "program.pb")
	data := map[string][]string{"train": {firstRecords(t, p, out)}}
	ObeysOn(t, p, func(exe executor.Executor) map[string][]byte {
		save := t.TempDir()
		left := map[string][]byte{}
		_, err := exe.Train(t.Context(), p, executor.TrainOptions{Data: data, Passes: 2, Fetch: []string{fetch}, Save: save},
			func(s executor.StepResult) error {
				left[fmt.Sprintf("%s of step %d", fetch, s.Step)] = tensor.AppendStream(nil, s.Fetched[0])
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range executor.Persistables(p) {
			b, err := os.ReadFile(filepath.Join(save, name))
			if err != nil {
				t.Fatal(err)
			}
			left[name] = b
		}
		return left
	})
}

// ObeysOn is Obeys for a program that train feeds.
func ObeysOn(t *testing.T, p *program.Program, train Trains) {
	t.Helper()
	plain := onThisMachine(t, train, executor.WithoutFusion())
	if len(plain) < 3 {
		t.Fatalf("only %d values to compare", len(plain))
	}
	ways := map[string][]executor.Option{
		"all fusions":            nil,
		"2 workers":              {executor.WithWorkers(2)},
		"3 workers, every part":  {executor.WithWorkers(3), executor.WithGrain(0)},
		"2 workers, some parts":  {executor.WithWorkers(2), executor.WithGrain(time.Microsecond)},
		"parts, without fusions": {executor.WithWorkers(2), executor.WithGrain(0), executor.WithoutFusion()},
	}
	// The demo's own test has the programs with one fusion alone.
	for _, f := range executor.Fusions() {
		ways["without "+string(f)] = []executor.Option{executor.WithoutFusion(f)}
	}
	for name, options := range ways {
		same(t, name, plain, onThisMachine(t, train, options...))
	}
	for _, trainers := range []int{2, 3} {
		oracle, err := reference.New(p, trainers)
		if err != nil {
			t.Fatal(err)
		}
		want := train(oracle)
		if err := oracle.Close(); err != nil {
			t.Fatal(err)
		}
		cluster, err := remote.NewExecutor("", &remote.JobSpec{Trainers: int32(trainers), Pservers: 2, MinBlockSize: 16})
		if err != nil {
			t.Fatal(err)
		}
		got := train(cluster)
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
		same(t, fmt.Sprintf("%d trainers", trainers), want, got)
	}
}

func onThisMachine(t *testing.T, train Trains, options ...executor.Option) map[string][]byte {
	local := executor.New(options...)
	defer local.Close()
	return train(local)
}

func same(t *testing.T, name string, want, got map[string][]byte) {
	t.Helper()
	for _, variable := range slices.Sorted(maps.Keys(want)) {
		if string(want[variable]) != string(got[variable]) {
			t.Errorf("%s: %s has other bits", name, variable)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", name, len(got), len(want))
	}
}

// Steps returns an executor whose Run keeps what is fetched, for programs that are fed.
func Steps(exe executor.Executor) *Recorder {
	return &Recorder{Executor: exe, Fetched: map[string][]byte{}}
}

// A Recorder is an executor that remembers.
type Recorder struct {
	executor.Executor
	Fetched map[string][]byte // by name and step
	steps   int
}

// Run implements executor.Executor.
func (r *Recorder) Run(ctx context.Context, p *program.Program, feed executor.Feed, fetch ...string) ([]*tensor.Tensor, error) {
	out, err := r.Executor.Run(ctx, p, feed, fetch...)
	for i, v := range out {
		r.Fetched[fmt.Sprintf("%s of step %d", fetch[i], r.steps)] = tensor.AppendStream(nil, v)
	}
	r.steps++
	return out, err
}

// lawRecords is what the laws are checked on: several batches of every example, the last one with fewer rows, and chunks enough for all trainers.
const lawRecords = 147

// firstRecords copies the first records of the training set to files of their own and returns their pattern.
func firstRecords(t *testing.T, p *program.Program, out string) string {
	t.Helper()
	source, err := executor.OpenFiles(t.Context(), p, bind(out, "train"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	_, records := source.Dataset()
	dir := t.TempDir()
	if err := copyRecords(t.Context(), records, dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "train-*")
}

func copyRecords(ctx context.Context, records *dataset.Dataset, dir string) error {
	w, err := dataset.CreateShards(dir, "train", 1, recordio.Options{ChunkRecords: 16})
	if err != nil {
		return err
	}
	defer w.Abort()
	for record, err := range records.Records(ctx, 0, min(lawRecords, records.NumRecords())) {
		if err != nil {
			return err
		}
		if err := w.Write(record.Bytes); err != nil {
			return err
		}
	}
	return w.Close()
}
