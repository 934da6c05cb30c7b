package transpiler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/layers"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

// built returns the program of a model without mistakes.
func built(t testing.TB, m *layers.Model) *program.Program {
	t.Helper()
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fitLine is Fluid's test model: one fully connected layer of width outputs under a mean squared error.
func fitLine(t testing.TB, in, width int64, o *optimizer.Optimizer) *program.Program {
	t.Helper()
	m := layers.NewModel().Seed(7)
	x := layers.Data(m, "x", layers.Dims(in))
	y := layers.Data(m, "y", layers.Dims(width))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(x, width), y), layers.Name("loss"))
	o.Minimize(loss)
	return built(t, m)
}

// transpile fails the test when the program is refused.
func transpile(t testing.TB, p *program.Program, cfg transpiler.Config) *transpiler.Result {
	t.Helper()
	if cfg.Trainers == 0 {
		cfg.Trainers = 2
	}
	r, err := transpiler.Transpile(t.Context(), p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// render writes what a result computes and where, one op a line.
func render(r *transpiler.Result) string {
	var b strings.Builder
	for _, s := range r.Placement.Slices {
		fmt.Fprintf(&b, "pserver:%d holds %s, rows %d+%d of %s, %d bytes\n", s.Server, s.Name, s.FirstRow, s.Rows, s.Param, s.Bytes)
	}
	for _, role := range r.Programs() {
		renderProgram(&b, role.Name, role.Program)
		if role.Program.Startup != nil {
			renderProgram(&b, role.Name+" startup", role.Program.Startup)
		}
	}
	return b.String()
}

func renderProgram(b *strings.Builder, name string, p *program.Program) {
	fmt.Fprintf(b, "\n%s\n", name)
	for _, block := range p.Blocks {
		if len(p.Blocks) > 1 {
			fmt.Fprintf(b, " block %d\n", block.Index)
		}
		for _, op := range block.Ops {
			renderOp(b, op)
		}
	}
}

// shown lists the attributes that say where and how much.
var shown = []string{"epmap", "send_varnames", "recv_varnames", "merge", "sections", "entries", "origin", "first_element", "prepare_blocks", "global_block",
	"lr_decay_block_id", "optimize_blocks", "grad_names", "grad_block_ids", "grad_merge", "grad_into", "state_names", "state_merge", "sync_mode"}

func renderOp(b *strings.Builder, op *program.Op) {
	fmt.Fprintf(b, "  %s", op.Type)
	for _, slots := range []map[string][]string{op.Inputs, op.Outputs} {
		arrow := " <-"
		if len(slots) > 0 && len(op.Outputs) > 0 && fmt.Sprintf("%p", slots) == fmt.Sprintf("%p", op.Outputs) {
			arrow = " ->"
		}
		names := make([]string, 0, len(slots))
		for slot := range slots {
			names = append(names, slot)
		}
		slices.Sort(names)
		for i, slot := range names {
			if i == 0 {
				b.WriteString(arrow)
			}
			fmt.Fprintf(b, " %s=%s", slot, strings.Join(slots[slot], ","))
		}
	}
	for _, name := range shown {
		if value, ok := op.Attrs[name]; ok {
			fmt.Fprintf(b, " %s=%v", name, value)
		}
	}
	b.WriteString("\n")
}

// types returns the op types of a block.
func types(b *program.Block) []string {
	var all []string
	for _, op := range b.Ops {
		all = append(all, op.Type)
	}
	return all
}
