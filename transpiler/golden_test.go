package transpiler_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files of testdata anew")

var twoServers = transpiler.Config{Trainers: 2, PServers: 2}

// Each golden file shows the placement and every role program of one model. The models are those of Fluid's unit tests, and beyond
// them one for each thing that Fluid gets wrong.
func TestGolden(t *testing.T) {
	line := func(o *optimizer.Optimizer) func(testing.TB) *program.Program {
		return func(t testing.TB) *program.Program { return fitLine(t, 1000, 1000, o) }
	}
	small := func(o *optimizer.Optimizer) func(testing.TB) *program.Program {
		return func(t testing.TB) *program.Program { return fitLine(t, 100, 100, o) }
	}
	rate := optimizer.Exponential(0.1, 100, 0.5, true)
	clip := func(c optimizer.Clip) *optimizer.Optimizer { return optimizer.SGD(0.1, optimizer.ClipGradients(c)) }
	for name, test := range map[string]struct {
		model  func(testing.TB) *program.Program
		config func(*transpiler.Config)
	}{
		"sgd":               {model: line(optimizer.SGD(0.1))},
		"sgd_async":         {line(optimizer.SGD(0.1)), func(c *transpiler.Config) { c.Mode = transpiler.Async }},
		"no_slice":          {line(optimizer.SGD(0.1)), func(c *transpiler.Config) { c.NoSlice = true }},
		"min_block_size":    {line(optimizer.SGD(0.1)), func(c *transpiler.Config) { c.MinBlockSize = 1 << 20 }},
		"hash_name":         {line(optimizer.Adam(0.1)), func(c *transpiler.Config) { c.SplitMethod = transpiler.HashName }},
		"exponential_decay": {model: line(optimizer.SGD(rate))},
		"fetch_rate": {line(optimizer.SGD(rate)),
			func(c *transpiler.Config) { c.Fetch = []string{"loss", program.LRDecayCounter, "fc_0.w_0@GRAD"} }},
		"l2_clip_by_value":    {model: line(optimizer.SGD(0.1, optimizer.Regularize(layers.L2(0.01)), optimizer.ClipGradients(optimizer.ByValue(-1, 1))))},
		"momentum":            {model: line(optimizer.Momentum(0.1, 0.9))},
		"adam":                {model: line(optimizer.Adam(0.1))},
		"clip_by_norm":        {model: line(clip(optimizer.ByNorm(1)))},
		"global_norm":         {model: line(clip(optimizer.ByGlobalNorm(1)))},
		"global_norm_async":   {line(clip(optimizer.ByGlobalNorm(1))), func(c *transpiler.Config) { c.Mode = transpiler.Async }},
		"global_norm_servers": {small(clip(optimizer.ByGlobalNorm(1))), func(c *transpiler.Config) { c.PServers = 4 }},
		"empty_servers":       {small(optimizer.SGD(0.1)), func(c *transpiler.Config) { c.PServers = 4 }},
		"batch_norm":          {model: batchNorm},
		"compress": {line(optimizer.Momentum(0.1, 0.9)), func(c *transpiler.Config) {
			c.CompressGradients, c.CompressParameters = "bf16", "fp16"
		}},
		"compress_async": {small(optimizer.SGD(0.1)), func(c *transpiler.Config) { c.Mode, c.CompressParameters = transpiler.Async, "bf16" }},
		"compress_topk": {line(optimizer.Momentum(0.1, 0.9, optimizer.Regularize(layers.L2(0.01)), optimizer.ClipGradients(optimizer.ByGlobalNorm(1)))),
			func(c *transpiler.Config) { c.CompressGradients, c.CompressParameters = "topk:0.01", "bf16" }},
		"compress_topk_async": {line(optimizer.SGD(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(1)))),
			func(c *transpiler.Config) { c.Mode, c.CompressGradients = transpiler.Async, "topk:0.001:1000" }},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := twoServers
			if test.config != nil {
				test.config(&cfg)
			}
			compareGolden(t, name, render(transpile(t, test.model(t), cfg)))
		})
	}
}

// batchNorm is a layer whose forward pass keeps moving statistics.
func batchNorm(t testing.TB) *program.Program {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(4))
	y := layers.Data(m, "y", layers.Dims(1))
	hidden := layers.BatchNorm(layers.FC(x, 4))
	optimizer.SGD(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(hidden, 1), y)))
	return built(t, m)
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("%s, line %d:\n got %s\nwant %s\nrun the test with -rewrite and read the difference", file, i+1, at(gotLines, i), at(wantLines, i))
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(end)"
}
