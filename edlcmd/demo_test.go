package edlcmd

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"testing"

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
		if row.accuracy <= 0.97 || row.rate <= 0 {
			t.Errorf("%s: accuracy %g, %g records/s", row.name, row.accuracy, row.rate)
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
