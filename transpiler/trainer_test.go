package transpiler_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// Trainers read the data, whether readers are opened in the program or, as Fluid does, in its startup program.
func TestReadersStayOnTrainers(t *testing.T) {
	for _, inStartup := range []bool{false, true} {
		m := layers.NewModel()
		data := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(3)), layers.Field("y", layers.Dims(1)))
		fields := layers.Read(layers.Batch(data, 8))
		optimizer.SGD(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(fields[0], 1), fields[1])))
		p := built(t, m)
		if inStartup {
			openInStartup(t, p)
		}
		r := transpile(t, p, twoServers)
		opened := r.Trainer.Global()
		if inStartup {
			opened = r.Trainer.Startup.Global()
		}
		if got := types(opened); len(got) < 2 || got[0] != "create_recordio_file_reader" || got[1] != "create_batch_reader" {
			t.Errorf("in startup %t: a trainer opens its data by %v", inStartup, got)
		}
		if got := types(r.Trainer.Global()); !slices.Contains(got, "read") {
			t.Errorf("in startup %t: a trainer runs %v", inStartup, got)
		}
		for _, role := range r.Programs()[1:] {
			for _, v := range role.Program.Global().Vars() {
				if v.Kind == program.Reader {
					t.Errorf("in startup %t: %s has the reader %s", inStartup, role.Name, v.Name)
				}
			}
		}
	}
}

// openInStartup moves the ops that make readers to the startup program.
func openInStartup(t *testing.T, p *program.Program) {
	main, startup := p.Global(), p.Startup.Global()
	for i := 0; main.Ops[0].Type != "read"; i++ {
		op := main.Ops[0]
		main.Ops = main.Ops[1:]
		v, ok := main.Var(op.Out("Out"))
		if !ok {
			t.Fatalf("no reader in %v", op)
		}
		v.Persistable = true
		startup.EnsureVar(v.Copy(""))
		startup.Insert(i, op)
	}
}

// Persistable variables that no update touches stay on trainers, with their initial values, and are saved from there.
func TestConstantsStayOnTrainers(t *testing.T) {
	m := layers.NewModel()
	x, y := layers.Data(m, "x", layers.Dims(4)), layers.Data(m, "y", layers.Dims(1))
	scale := m.State("scale", tensor.Float32, []int64{4}, layers.Uniform(0, 1))
	h := layers.FC(layers.Mul(x, scale), 2, layers.Param(layers.ParamAttr{Name: "frozen", Frozen: true}), layers.NoBias())
	optimizer.SGD(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(h, 1), y)))
	p := built(t, m)
	r := transpile(t, p, twoServers)
	if got := types(r.Trainer.Startup.Global()); !slices.Equal(got[:3], []string{"uniform_random", "uniform_random", "recv"}) {
		t.Errorf("the startup program of trainers runs %v", got)
	}
	for i, server := range r.PServers {
		for _, name := range []string{"scale", "frozen"} {
			if _, ok := server.Global().Var(name); ok {
				t.Errorf("pserver %d has the constant %s", i, name)
			}
		}
	}
	if err := checkLaw(t, p, transpiler.Config{Trainers: 2, PServers: 2}); err != nil {
		t.Error(err)
	}
}

// A program that trains nothing becomes the trainer program unchanged, with servers that serve nothing.
func TestProgramWithoutUpdate(t *testing.T) {
	m := layers.NewModel()
	layers.FC(layers.Data(m, "x", layers.Dims(4)), 2)
	r := transpile(t, built(t, m), twoServers)
	if got := types(r.Trainer.Global()); !slices.Equal(got, []string{"mul", "elementwise_add"}) {
		t.Errorf("a trainer runs %v", got)
	}
	if got := types(r.Trainer.Startup.Global()); !slices.Equal(got, []string{"uniform_random", "fill_constant"}) {
		t.Errorf("a trainer starts with %v", got)
	}
	if got := types(r.Save.Global()); !slices.Equal(got, []string{"save", "save"}) {
		t.Errorf("the model is saved by %v", got)
	}
	if got := r.Placement.Loads; len(got) != 2 || got[0].Slices+got[1].Slices != 0 {
		t.Errorf("loads %+v", got)
	}
}

// Initial values that no op yields row by row are computed whole and cut.
func TestLawOfOtherInitializers(t *testing.T) {
	m := layers.NewModel()
	x, y := layers.Data(m, "x", layers.Dims(5)), layers.Data(m, "y", layers.Dims(3))
	optimizer.Adam(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(x, 3), y)))
	p := built(t, m)
	startup := p.Startup.Global()
	for _, name := range []string{"fc_0.w_0", "fc_0.w_0_beta1_pow_acc_0"} {
		op := &program.Op{Type: "scale", Inputs: map[string][]string{"X": {name}}, Outputs: map[string][]string{"Out": {name}}}
		op.SetAttr("scale", float32(0.5))
		startup.Append(op)
	}
	cfg := transpiler.Config{Trainers: 2, PServers: 3, MinBlockSize: 3}
	if got := transpile(t, p, cfg).Placement.Of("fc_0.w_0"); len(got) != 3 {
		t.Fatalf("slices: %+v", got)
	}
	if err := checkLaw(t, p, cfg); err != nil {
		t.Error(err)
	}
}
