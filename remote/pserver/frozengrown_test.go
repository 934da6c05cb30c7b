package pserver

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/ops/kernel"
	_ "github.com/edl-go/edl/ops/nn"
	_ "github.com/edl-go/edl/ops/optim"
	_ "github.com/edl-go/edl/ops/sparse"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// A served program is one that a test serves, as the only server of its job.
type served func(ctx context.Context, op *program.Op, blocks ops.BlockRunner) error

func (s served) Serve(ctx context.Context, op *program.Op, blocks ops.BlockRunner) error {
	return s(ctx, op, blocks)
}

func (s served) Exchange(_ context.Context, _ string, own *tensor.Tensor, all []*tensor.Tensor) error {
	return all[0].CopyFrom(own)
}

// grownServer is the program of the only server of a model with a table that grows.
func grownServer(t *testing.T, one grownCase) *program.Program {
	m := layers.NewModel().Seed(3)
	key := layers.Data(m, "key", layers.Dims(1), layers.DType(tensor.Int64))
	looked := layers.SparseEmbedding(key, one.rows, 4, append(one.options, layers.Param(layers.ParamAttr{Name: "table"}))...)
	one.o.Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(looked, 1), layers.Data(m, "y", layers.Dims(1)))))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	r, err := transpiler.Transpile(t.Context(), p, transpiler.Config{Trainers: 1, PServers: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r.PServers[0]
}

// bringGradients makes gradients of the next round arrive: of at most n keys, and of all other parameters.
func bringGradients(service *comm.Service, v *values, r *rand.Rand, n int, most int64) {
	for _, g := range service.Grads {
		t, _ := v.Variable(g.Target())
		form, ok := compress.KeysOf(t)
		if !ok {
			for i := range t.Float32s() {
				t.Float32s()[i] = r.Float32() - 0.5
			}
			continue
		}
		keys := map[uint64]bool{}
		for range min(r.IntN(n)+1, form.Height()-1) {
			keys[uint64(kernel.MixKey(r.Int64N(most)))] = true
		}
		numbers, values := form.Begin(len(keys))
		for i, mixed := range slices.Sorted(maps.Keys(keys)) {
			numbers[i] = int64(mixed)
		}
		for i := range values {
			values[i] = r.Float32() - 0.5
		}
	}
}

// A grownCase is a table that grows, and an optimizer.
type grownCase struct {
	rows    int64
	o       *optimizer.Optimizer
	options []layers.Option
	told    []string // origins of the slices of which ops tell the rows
}

func grownCases() map[string]grownCase {
	byNorm := optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5))
	return map[string]grownCase{
		"grows":  {512, optimizer.SGD(0.1), nil, []string{"table", "table.index", "table.keys"}},
		"evicts": {128, optimizer.Adagrad(0.1), []layers.Option{layers.EvictUnseen(2), layers.EvictOldest()}, []string{"table", "table.index", "table.keys", "table_moment_0"}},
		"counts and clips": {256, optimizer.Adam(0.1, optimizer.Lazy(), byNorm), []layers.Option{layers.CountFilterEntry(2), layers.EvictUnseen(3), layers.Refuse()},
			[]string{"table", "table.counts", "table.index", "table.keys", "table_moment1_0", "table_moment2_0"}},
		"all rows change": {128, optimizer.Momentum(0.1, 0.9), []layers.Option{layers.EvictOldest()}, []string{"table.index", "table.keys"}},
	}
}

// serveGrown runs such a program, and gives use its slices and what runs a round.
func serveGrown(ctx context.Context, p *program.Program, use func(service *comm.Service, v *values, round func()) error) error {
	type serving struct {
		op     *program.Op
		blocks ops.BlockRunner
	}
	begun, used, ended := make(chan serving, 1), make(chan struct{}), make(chan error, 1)
	go func() { // so that use, in which rapid may panic, runs on the goroutine of the test
		l := executor.New(executor.WithStage(program.StagePServer), executor.WithServer(served(func(_ context.Context, op *program.Op, blocks ops.BlockRunner) error {
			begun <- serving{op, blocks}
			<-used
			return nil
		})))
		defer l.Close()
		_, err := l.Run(ctx, p, nil)
		ended <- err
	}()
	defer func() { <-ended }()
	defer close(used)
	var s serving
	select {
	case err := <-ended:
		ended <- err
		return err
	case s = <-begun:
	}
	service, err := comm.ServiceOf(s.op)
	if err != nil {
		return err
	}
	v := &values{BlockRunner: s.blocks}
	if v.freezer, err = newFreezer(&service, v, newSums(&service, v)); err != nil {
		return err
	}
	stages := slices.Clone(service.Prepare)
	for _, block := range []program.BlockIndex{service.Global, service.LRDecay} {
		if block != comm.NoBlock {
			stages = append(stages, block)
		}
	}
	stages, number := append(stages, service.Optimize...), uint64(0)
	wrong := use(&service, v, func() {
		for _, block := range stages {
			err = errors.Join(err, v.RunBlock(ctx, block, ops.Step{Round: number}))
		}
		number++
	})
	return errors.Join(wrong, err)
}

// What is written of a table that grows while rounds go on has the bytes of a copy at the cut, although rounds give rows to new keys, count others, and evict and
// move rows.
func TestCutOfATableThatGrows(t *testing.T) {
	store, err := checkpoint.Open(t.Context(), "mem://grown")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	programs := map[string]*program.Program{}
	for name, one := range grownCases() {
		programs[name] = grownServer(t, one)
	}
	rapid.Check(t, func(r *rapid.T) {
		p := programs[rapid.SampledFrom(slices.Sorted(maps.Keys(programs))).Draw(r, "case")]
		err := serveGrown(t.Context(), p, func(service *comm.Service, v *values, round func()) error {
			v.freezer.portion = rapid.SampledFrom([]int{512, 3000, portionBytes}).Draw(r, "portion")
			random := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
			bring := func() { bringGradients(service, v, random, 30, 200) }
			bring()
			checkCuts(t, r, store, newCuts(service, v.freezer), rapid.Just([]program.BlockIndex{1}), func(program.BlockIndex) { round() }, bring)
			return nil
		})
		if err != nil {
			r.Fatal(err)
		}
	})
}

// Of a table whose updates change the rows of their keys alone, a round that goes on while a cut is written has few rows kept, of many in use. A part of a slice
// that changes by rows is never kept whole.
func TestFewRowsOfATableThatGrowsAreKept(t *testing.T) {
	for name, one := range grownCases() {
		one.rows *= 64
		err := serveGrown(t.Context(), grownServer(t, one), func(service *comm.Service, v *values, round func()) error {
			random := rand.New(rand.NewPCG(1, 2))
			for range 6 {
				bringGradients(service, v, random, 1000, 2000)
				round()
			}
			cut, err := v.freezer.freeze()
			if err != nil {
				return err
			}
			defer v.freezer.thaw(cut)
			bringGradients(service, v, random, 8, 2000)
			round()
			var told []string
			for i, slice := range service.Slices {
				units := 0
				for _, n := range cut.all[i].units {
					units += n
				}
				if !v.freezer.told[slice.Name] {
					continue
				}
				if told = append(told, slice.Origin); cut.all[i].changes() != (len(cut.all[i].state) > 0) || cut.all[i].top != len(cut.all[i].state) {
					t.Errorf("%s: a portion of %s is kept whole", name, slice.Name)
				}
				if used := len(cut.all[i].memory) / cut.all[i].unit; name == "grows" && (units == 0 || units > 20) || units == used {
					t.Errorf("%s: %d of %d units of %s are kept", name, units, used, slice.Name)
				}
			}
			if slices.Sort(told); !slices.Equal(told, one.told) {
				t.Errorf("%s: the rows of %v are told, want those of %v", name, told, one.told)
			}
			return nil
		})
		if err != nil {
			t.Error(name, err)
		}
	}
}
