package transpiler_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

// hashes returns the hash of every role program.
func hashes(t testing.TB, r *transpiler.Result) []string {
	var all []string
	for _, role := range r.Programs() {
		h, err := role.Program.Hash()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, role.Name+" "+h.String())
	}
	return all
}

func TestTranspileIsDeterministic(t *testing.T) {
	cfg := transpiler.Config{Trainers: 2, PServers: 3, MinBlockSize: 4}
	first := perceptron(t, optimizer.Adam(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(1))))
	before, err := first.Hash()
	if err != nil {
		t.Fatal(err)
	}
	want := hashes(t, transpile(t, first, cfg))
	for range 20 {
		again := perceptron(t, optimizer.Adam(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(1))))
		if got := hashes(t, transpile(t, again, cfg)); !slices.Equal(got, want) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	}
	if after, _ := first.Hash(); after != before {
		t.Error("transpiling changed the user's program")
	}
	cfg.Trainers = 64
	if got := hashes(t, transpile(t, first, cfg)); !slices.Equal(got, want) {
		t.Error("the number of trainers is compiled into a program")
	}
}

// Role programs travel as bytes, and who receives them verifies them again.
func TestRoleProgramsTravel(t *testing.T) {
	clipped := optimizer.Adam(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(1)))
	for _, p := range []*program.Program{perceptron(t, clipped), batchNorm(t)} {
		for _, role := range transpile(t, p, transpiler.Config{PServers: 5, MinBlockSize: 4}).Programs() {
			data, err := role.Program.Encode()
			if err != nil {
				t.Fatal(err)
			}
			read, err := program.Decode(data, program.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			if err := ops.Verify(read, role.Stage); err != nil {
				t.Errorf("%s: %v", role.Name, err)
			}
			sent, _ := role.Program.Hash()
			if received, _ := read.Hash(); received != sent {
				t.Errorf("%s changed on the way", role.Name)
			}
		}
	}
}

func TestTranspileEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := transpiler.Transpile(ctx, fitLine(t, 3, 2, optimizer.SGD(0.1)), twoServers)
	if !errors.Is(err, fault.Canceled) {
		t.Errorf("got %v, want %v", err, fault.Canceled)
	}
}

func TestWriteDump(t *testing.T) {
	dir := t.TempDir()
	p := fitLine(t, 3, 2, optimizer.SGD(0.1))
	cfg := twoServers
	cfg.Dump = true
	r := transpile(t, p, cfg)
	if err := r.WriteDump(dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i], _ = filepath.Rel(dir, files[i])
	}
	want := strings.Fields(`
		00_verify_input/input.pb 00_verify_input/input.txt 01_trainer/trainer.pb 01_trainer/trainer.txt
		02_trainer_startup/trainer.pb 02_trainer_startup/trainer.txt
		03_pservers/pserver_0.pb 03_pservers/pserver_0.txt 03_pservers/pserver_1.pb 03_pservers/pserver_1.txt
		04_pserver_startup/pserver_0.pb 04_pserver_startup/pserver_0.txt 04_pserver_startup/pserver_1.pb 04_pserver_startup/pserver_1.txt
		05_save/save.pb 05_save/save.txt`)
	if !slices.Equal(files, want) {
		t.Errorf("files\n%v\nwant\n%v", files, want)
	}
	read, err := program.Load(filepath.Join(dir, "02_trainer_startup", "trainer.pb"), program.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := read.Hash()
	if final, _ := r.Trainer.Hash(); got != final {
		t.Error("the last dump of the trainer's program is not the result")
	}
	if text, err := os.ReadFile(filepath.Join(dir, "05_save", "save.txt")); err != nil || !strings.Contains(string(text), "save(X=fc_0.w_0)") {
		t.Errorf("text of the save program: %v\n%s", err, text)
	}
}

func TestConfigFaults(t *testing.T) {
	err := transpiler.Config{MinBlockSize: -1, Mode: 7, SplitMethod: "random", PServers: transpiler.MaxPServers + 1}.Validate()
	var faults fault.List
	if !errors.As(err, &faults) || len(faults) != 5 {
		t.Fatalf("got %v, want five faults", err)
	}
	if err := (transpiler.Config{Trainers: 1, PServers: 1}).Validate(); err != nil {
		t.Error(err)
	}
	if _, err := transpiler.Transpile(t.Context(), program.New(), transpiler.Config{}); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("got %v, want %v", err, fault.InvalidArgument)
	}
}

// BenchmarkTranspile spreads a deep network of about a thousand ops over ten servers.
func BenchmarkTranspile(b *testing.B) {
	m := layers.NewModel()
	h := layers.Data(m, "x", layers.Dims(64))
	for range 50 {
		h = layers.FC(h, 64, layers.Act("relu"))
	}
	y := layers.Data(m, "y", layers.Dims(64))
	optimizer.Adam(0.1, optimizer.Regularize(layers.L2(0.1)),
		optimizer.ClipGradients(optimizer.ByGlobalNorm(1))).Minimize(layers.Mean(layers.SquareErrorCost(h, y)))
	p := built(b, m)
	for b.Loop() {
		transpile(b, p, transpiler.Config{Trainers: 4, PServers: 10, MinBlockSize: 1024})
	}
	b.ReportMetric(float64(len(p.Global().Ops)), "ops")
}
