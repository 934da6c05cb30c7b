package transpiler_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

// Lookups of Paddle 1.x say where a table was cut and on which servers its parts were. A program with these attributes trains by the law, wherever its tables are now, and
// is_distributed alone decides who has them.
func TestLawOfTablesAsPaddleWroteThem(t *testing.T) {
	for name, distributed := range map[string]bool{"remote prefetch": false, "distributed": true} {
		p := lookups(t, optimizer.Adagrad(0.1), layers.ParamAttr{}, 9)
		for _, op := range p.Global().Ops {
			if strings.HasPrefix(op.Type, "lookup_table") {
				op.SetAttr("remote_prefetch", !distributed)
				op.SetAttr("is_distributed", distributed)
				op.SetAttr("trainer_id", int32(1))
				op.SetAttr("epmap", []string{"192.0.2.1:6174", "192.0.2.2:6174"})
				op.SetAttr("table_names", []string{"table.block0", "table.block1"})
				op.SetAttr("height_sections", []int64{5, 4})
			}
		}
		file, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if p, err = program.Decode(file, program.DefaultLimits()); err != nil {
			t.Fatal(err)
		}
		cfg := transpiler.Config{Trainers: 2, PServers: 3, MinBlockSize: 3}
		if err := checkLaw(t, p, cfg, "loss"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		trainer := transpile(t, p, cfg).Trainer
		asks := slices.ContainsFunc(trainer.Global().Ops, func(op *program.Op) bool { return op.Type == "prefetch" })
		if _, holds := trainer.Global().Var("table"); holds == distributed || asks != distributed {
			t.Errorf("%s: trainers hold the table: %v; ask for rows: %v", name, holds, asks)
		}
	}
}
