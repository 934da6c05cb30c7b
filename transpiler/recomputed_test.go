package transpiler_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

// recomputing changes a program as RecomputeOptimizer of fleet does: the backward pass computes the forward pass again, up to the last op of the type that makes the checkpoint, and reads what that
// makes. Copies of ops write the checkpoint, and the variables that outlive a step, under their own names: so batch_norm moves its statistics twice in a step.
func recomputing(p *program.Program, until string) *program.Program {
	p = p.Clone()
	b := p.Global()
	first := slices.IndexFunc(b.Ops, func(op *program.Op) bool { return op.Role().Has(program.RoleBackward) })
	again := map[string]string{}
	list := slices.Clone(b.Ops[:first+1]) // with the gradient of the loss
	last := first - 1
	for b.Ops[last].Type != until {
		last--
	}
	checkpoint := b.Ops[last].OutputNames()
	if y := b.Ops[last].Out("Y"); y != "" {
		checkpoint = []string{y}
	}
	for _, op := range b.Ops[:last+1] {
		if len(op.Outputs) == 0 {
			continue
		}
		c := op.Clone()
		for _, name := range c.InputNames() {
			if again[name] != "" {
				c.RenameInput(name, again[name])
			}
		}
		for _, name := range c.OutputNames() {
			if v, _ := b.Find(name); !v.Persistable && !slices.Contains(checkpoint, name) {
				again[name] = name + ".subprog_0"
				b.EnsureVar(v.Copy(again[name]))
				c.RenameOutput(name, again[name])
			}
		}
		c.SetRole(program.RoleBackward)
		list = append(list, c)
	}
	for _, op := range b.Ops[first+1:] {
		for _, name := range op.InputNames() {
			if again[name] != "" {
				op.RenameInput(name, again[name])
			}
		}
		list = append(list, op)
	}
	b.Ops = list
	return p
}

// Statistics that a backward pass moves again obey the law. Those of rows that data chooses are refused: a trainer has another part of these than of the batch. Where the backward pass computes
// nothing again but what comes before them, they obey the law, too.
func TestLawOfRecomputedStatistics(t *testing.T) {
	ofAll := func(m *layers.Model) layers.Variable {
		return layers.Mean(layers.FC(layers.BatchNorm(layers.FC(layers.Data(m, "x", layers.Dims(3)), 2)), 1), layers.Name("metric"))
	}
	ofChosen := observed["chosen rows that are normalized"]
	for _, c := range []struct {
		name, until string
		loss        func(m *layers.Model) layers.Variable
		refused     bool
	}{
		{"of all rows", "batch_norm", ofAll, false},
		{"of all rows, with the layer behind", "mul", ofAll, false},
		{"of chosen rows", "batch_norm", ofChosen, true},
		{"of chosen rows, with the layer behind", "mul", ofChosen, true},
		{"of chosen rows, which are computed again", "gather_nd", ofChosen, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := layers.NewModel().Seed(3)
			optimizer.SGD(0.1).Minimize(layers.Scale(c.loss(m), 1, 0, layers.Name("loss")))
			p := recomputing(built(t, m), c.until)
			for _, cfg := range []transpiler.Config{{Trainers: 2, PServers: 2}, {Trainers: 4, PServers: 1, MinBlockSize: 4}, {Trainers: 1, PServers: 2, Mode: transpiler.Async}} {
				err := checkLaw(t, p, cfg, "loss", "fc_0.w_0")
				if c.refused && cfg.Mode != transpiler.Async {
					if fault.KindOf(err) != fault.Unsupported || !strings.Contains(err.Error(), "choose checkpoints") {
						t.Errorf("%+v: %v", cfg, err)
					}
				} else if err != nil {
					t.Errorf("%+v: %v", cfg, err)
				}
			}
		})
	}
}
