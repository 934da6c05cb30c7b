package transpiler_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// keyed is a model with two tables that grow, of which one is looked up twice.
func keyed(t testing.TB, o *optimizer.Optimizer, rows int64, options ...layers.Option) *program.Program {
	m := layers.NewModel().Seed(3)
	a := layers.Data(m, "key_a", layers.Dims(1), layers.DType(tensor.Int64))
	b := layers.Data(m, "key_b", layers.Dims(1), layers.DType(tensor.Int64))
	y := layers.Data(m, "y", layers.Dims(1))
	table := layers.Param(layers.ParamAttr{Name: "table", LearningRate: 0.5})
	deep := layers.Sums([]layers.Variable{layers.SparseEmbedding(a, rows, 4, append(options, table, layers.PaddingIndex(1))...),
		layers.SparseEmbedding(b, rows, 4, append(options, table)...)})
	wide := layers.SparseEmbedding(a, rows, 1, append(options, layers.Param(layers.ParamAttr{Name: "wide"}))...)
	hidden := layers.FC(deep, 3, layers.Act("tanh"))
	cost := layers.SquareErrorCost(layers.Sums([]layers.Variable{layers.FC(hidden, 1), wide}), y)
	o.Minimize(layers.Mean(cost, layers.Name("loss")))
	return built(t, m)
}

// Tables that grow train by the law, however many servers have their regions. Trainers have no variable of a table.
func TestLawOfTablesThatGrow(t *testing.T) {
	for name, o := range ofTables() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := keyed(t, o, 500)
			for _, cfg := range []transpiler.Config{
				{Trainers: 1, PServers: 1},
				{Trainers: 3, PServers: 2, MinBlockSize: 4},
				{Trainers: 2, PServers: 5, MinBlockSize: 3, SplitMethod: transpiler.HashName},
				{Trainers: 1, PServers: 3, MinBlockSize: 5, Mode: transpiler.Async},
			} {
				err := checkLaw(t, p, cfg, "loss", "fc_0.w_0")
				if cfg.Mode == transpiler.Async && strings.Contains(name, "global norm") { // trainers would clip, and know no rows
					if fault.KindOf(err) != fault.Unsupported {
						t.Errorf("%+v: %v, want a refusal", cfg, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("%+v: %v", cfg, err)
				}
				trainer := transpile(t, p, cfg).Trainer
				for _, q := range []*program.Program{trainer, trainer.Startup} {
					for _, table := range []string{"table", "wide", "table.keys", "wide.keys", "table.index", "table.counts"} {
						if _, has := q.Global().Var(table); has {
							t.Errorf("%+v: trainers hold %s", cfg, table)
						}
					}
				}
			}
		})
	}
}

// Tables whose keys come and go by rules train by the law: entries, evictions and bounds depend on rounds alone. States of the optimizer move with the rows.
func TestLawOfTablesWithRules(t *testing.T) {
	rules := map[string]struct {
		rows    int64
		options []layers.Option
	}{
		"unseen":                 {500, []layers.Option{layers.EvictUnseen(1)}},
		"counted":                {500, []layers.Option{layers.CountFilterEntry(2)}},
		"counted and unseen":     {500, []layers.Option{layers.CountFilterEntry(2), layers.EvictUnseen(2)}},
		"by chance":              {500, []layers.Option{layers.ProbabilityEntry(0.5)}},
		"by chance, at a bound":  {128, []layers.Option{layers.ProbabilityEntry(0.8), layers.EvictOldest()}},
		"days":                   {500, []layers.Option{layers.CountFilterEntry(2), layers.EvictUnseenDays(1)}},
		"refused":                {64, []layers.Option{layers.Refuse(), layers.EvictUnseen(1)}},
		"all but chance, bounds": {128, []layers.Option{layers.CountFilterEntry(2), layers.EvictUnseen(30), layers.EvictOldest()}},
	}
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, o := range []*optimizer.Optimizer{optimizer.Adagrad(0.1), optimizer.Adam(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(0.1)))} {
				p := keyed(t, o, r.rows, r.options...)
				for _, cfg := range []transpiler.Config{
					{Trainers: 1, PServers: 1},
					{Trainers: 3, PServers: 2, MinBlockSize: 4},
					{Trainers: 2, PServers: 5, MinBlockSize: 3, SplitMethod: transpiler.HashName},
				} {
					if err := checkLaw(t, p, cfg, "loss", "fc_0.w_0"); err != nil {
						t.Errorf("%+v: %v", cfg, err)
					}
				}
			}
		})
	}
}

// Hashes of ids are computed by trainers, and are ids of a distributed table.
func TestLawOfHashes(t *testing.T) {
	m := layers.NewModel().Seed(3)
	key := layers.Data(m, "key", layers.Dims(1), layers.DType(tensor.Int64))
	y := layers.Data(m, "y", layers.Dims(1))
	rows := layers.Embedding(layers.Hash(key, 50, 2), 50, 4, layers.Sparse(), layers.Distributed())
	optimizer.Adagrad(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(rows, 1), y), layers.Name("loss")))
	if err := checkLaw(t, built(t, m), transpiler.Config{Trainers: 3, PServers: 2, MinBlockSize: 4}, "loss"); err != nil {
		t.Error(err)
	}
}
