package edlcmd

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
)

// The demo is the first thing that people see: every way of training must learn the digits.
func TestDemoLearnsDigits(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole demo takes a while")
	}
	edl := edlFile(t)
	var out bytes.Buffer
	d := &demo{console: &console{out: &out, err: &out, binary: edl}, dir: t.TempDir(), count: 6000}
	if err := d.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if len(d.rows) != 3 {
		t.Errorf("the table has %d rows, want 3", len(d.rows))
	}
	for _, row := range d.rows {
		if row.accuracy <= 0.97 || row.perStep() <= 0 {
			t.Errorf("%s: accuracy %g, %g records/s", row.name, row.accuracy, recordRate(row.trained))
		}
	}
}

// No fusion and no number of workers changes a bit of what the demo learns; that a cluster does not either, the demo itself verifies.
func TestDemoLearnsTheSameWithoutFusions(t *testing.T) {
	dir := t.TempDir()
	d := &demo{console: &console{out: io.Discard, err: io.Discard}, dir: dir}
	if _, err := d.command(t.Context(), "data", "digits", "-o", d.path("data"), "--count", "330", "--test", "1"); err != nil {
		t.Fatal(err)
	}
	if err := writeDemoPrograms(dir); err != nil {
		t.Fatal(err)
	}
	p, _, err := loadProgram(d.path("program.pb"))
	if err != nil {
		t.Fatal(err)
	}
	learn := func(name string, options ...executor.Option) string {
		local := executor.New(options...)
		defer local.Close()
		run := executor.TrainOptions{Data: map[string][]string{trainSet: {filepath.Join(dir, "data", trainSet+"-*")}}, Passes: 2, Save: d.path(name)}
		if _, err := local.Train(t.Context(), p, run, nil); err != nil {
			t.Fatal(err)
		}
		return run.Save
	}
	plain := learn("plain", executor.WithoutFusion())
	ways := map[string][]executor.Option{"all": nil, "2 workers": {executor.WithWorkers(2), executor.WithGrain(0)}}
	for i, f := range executor.Fusions() {
		ways["only "+string(f)] = []executor.Option{executor.WithoutFusion(slices.Delete(executor.Fusions(), i, i+1)...)}
	}
	for name, options := range ways {
		differences, err := compareSaved(p, plain, learn(name, options...))
		if err != nil {
			t.Fatal(err)
		}
		for _, difference := range differences {
			if difference.Differing > 0 {
				t.Errorf("%s: %d elements of %s differ", name, difference.Differing, difference.Name)
			}
		}
		if len(differences) < 6 {
			t.Errorf("%s: only %d variables were compared", name, len(differences))
		}
	}
}

// The table says what a round on a cluster costs, unless the cluster was faster.
func TestDemoExplainsTheCluster(t *testing.T) {
	row := func(name string, perStep time.Duration) demoRow {
		return demoRow{name, executor.Summary{Steps: 10, Records: 1000, Elapsed: 10 * perStep}, 0.98}
	}
	rows := []demoRow{row("local", 500*time.Microsecond), row("sync", 3500*time.Microsecond), row("async", time.Millisecond)}
	var out strings.Builder
	if err := writeDemoTable(&out, rows); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "A round took 3.0 ms longer than a local step of 0.5 ms") {
		t.Errorf("shown\n%s", out.String())
	}
	rows[1] = row("sync", 400*time.Microsecond)
	out.Reset()
	if err := writeDemoTable(&out, rows); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "slower") || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("shown\n%s", out.String())
	}
}

// Files in a temporary directory are gone at the end. The first line says so, and how to keep them.
func TestDemoSaysWhereItsFilesGo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, diagnostics bytes.Buffer
	run(ctx, []string{"demo"}, strings.NewReader(""), &out, &diagnostics)
	if !strings.HasPrefix(out.String(), "The demo works in ") || !strings.Contains(out.String(), "edl demo -o DIR") {
		t.Errorf("shown\n%s", out.String())
	}
}
