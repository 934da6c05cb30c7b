package transpiler_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

// Devices merge what they have computed before the trainer clips it, rounds it or cuts it. Each of them sums its own rows of tables before.
func TestDevicesMergeBeforeATrainerSends(t *testing.T) {
	clip := optimizer.SGD(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(0.1)))
	for name, c := range map[string]struct {
		p             *program.Program
		cfg           transpiler.Config
		before, after []string
	}{
		"rounded": {perceptron(t, optimizer.SGD(0.1)), transpiler.Config{CompressGradients: "bf16"}, nil, []string{"compress", "send"}},
		"cut":     {perceptron(t, optimizer.SGD(0.1)), transpiler.Config{MinBlockSize: 4}, nil, []string{"split_byref", "send"}},
		"clipped": {perceptron(t, clip), transpiler.Config{Mode: transpiler.Async}, nil, []string{"squared_l2_norm", "send"}},
		"state":   {batchNorm(t), transpiler.Config{}, []string{"batch_norm"}, []string{"send"}},
		"sparse":  {lookups(t, optimizer.SGD(0.1), layers.ParamAttr{}, 9), transpiler.Config{MinBlockSize: 4}, []string{"split_selected_rows"}, []string{"send"}},
	} {
		c.cfg.Trainers, c.cfg.PServers, c.cfg.Devices = 2, 2, true
		r, err := transpiler.Transpile(t.Context(), c.p, c.cfg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		places := map[string][]int{}
		for i, op := range r.Trainer.Global().Ops {
			places[op.Type] = append(places[op.Type], i)
		}
		if len(places["merge_devices"]) != 1 {
			t.Errorf("%s: %d merges", name, len(places["merge_devices"]))
			continue
		}
		at := places["merge_devices"][0]
		for _, op := range c.before {
			if len(places[op]) == 0 || slices.Max(places[op]) > at {
				t.Errorf("%s: %s at %v, merge_devices at %d", name, op, places[op], at)
			}
		}
		for _, op := range c.after {
			if len(places[op]) == 0 || slices.Min(places[op]) < at {
				t.Errorf("%s: %s at %v, merge_devices at %d", name, op, places[op], at)
			}
		}
	}
}

// A trainer cannot clip a sparse gradient before its devices have merged it.
func TestSparseGradientsThatDevicesClip(t *testing.T) {
	p := lookups(t, optimizer.SGD(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(0.1))), layers.ParamAttr{}, 9)
	cfg := transpiler.Config{Trainers: 1, PServers: 2, Mode: transpiler.Async, Devices: true}
	if _, err := transpiler.Transpile(t.Context(), p, cfg); !errors.Is(err, fault.Unsupported) {
		t.Errorf("%v", err)
	}
	cfg.Devices = false
	if _, err := transpiler.Transpile(t.Context(), p, cfg); err != nil {
		t.Errorf("one device: %v", err)
	}
}
