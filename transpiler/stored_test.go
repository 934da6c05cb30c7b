package transpiler_test

import (
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// Tables that are stored as bfloat16 train by the law: chance rounds the rows of a slice as it rounds them in the whole table, whoever holds it, in whatever order.
func TestLawOfTablesOfBFloat16(t *testing.T) {
	optimizers := map[string]*optimizer.Optimizer{
		"momentum":    optimizer.Momentum(0.1, 0.9),
		"lazy adam":   optimizer.Adam(optimizer.Exponential(0.1, 2, 0.5, false), optimizer.Lazy(), optimizer.ClipGradients(optimizer.ByGlobalNorm(0.02))),
		"l2, adagrad": optimizer.Adagrad(0.1, optimizer.Regularize(layers.L2(0.1)), optimizer.ClipGradients(optimizer.ByNorm(0.02))),
	}
	models := map[string]func(o *optimizer.Optimizer) *program.Program{
		"held": func(o *optimizer.Optimizer) *program.Program {
			return lookups(t, o, layers.ParamAttr{LearningRate: 0.5}, 9, layers.StoreBFloat16())
		},
		"distributed": func(o *optimizer.Optimizer) *program.Program {
			return lookups(t, o, layers.ParamAttr{LearningRate: 0.5, Initializer: layers.Normal(0, 0.3)}, 9, layers.StoreBFloat16(), layers.Distributed())
		},
		"growing": func(o *optimizer.Optimizer) *program.Program {
			return keyed(t, o, 500, layers.StoreBFloat16(), layers.CountFilterEntry(2), layers.EvictUnseen(2))
		},
	}
	for model, build := range models {
		for name, o := range optimizers {
			t.Run(model+", "+name, func(t *testing.T) {
				t.Parallel()
				p := build(o)
				for _, cfg := range []transpiler.Config{
					{Trainers: 3, PServers: 2, MinBlockSize: 4},
					{Trainers: 2, PServers: 4, MinBlockSize: 3, CompressGradients: "bf16"},
					{Trainers: 1, PServers: 3, MinBlockSize: 5, Mode: transpiler.Async},
				} {
					if cfg.Mode == transpiler.Async && model == "growing" {
						continue // TestLawOfTablesThatGrow
					}
					if err := checkLaw(t, p, cfg, "loss", "fc_0.w_0"); err != nil {
						t.Errorf("%+v: %v", cfg, err)
					}
					result := transpile(t, p, cfg)
					for _, slice := range result.Placement.Of("table") {
						if v, ok := result.PServers[slice.Server].Global().Var(slice.Name); !ok || v.DType != tensor.BFloat16 {
							t.Errorf("%+v: a server stores %v", cfg, v)
						}
					}
				}
			})
		}
	}
}
