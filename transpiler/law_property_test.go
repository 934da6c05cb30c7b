package transpiler_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

// drawProgram draws a small network with shared and frozen parameters, moving statistics, and parameters called like slices of
// others.
func drawProgram(t *rapid.T) (*program.Program, error) {
	m := layers.NewModel().Seed(rapid.Int64Range(0, 9).Draw(t, "seed"))
	h := layers.Data(m, "x", layers.Dims(rapid.Int64Range(1, 5).Draw(t, "features")))
	y := layers.Data(m, "y", layers.Dims(2))
	names := rapid.SampledFrom([][]string{{"", "", ""}, {"w", "w.block0", "w@GRAD.block1"}, {"a:b", "a", "a.block1"},
		{"same", "same", "same"}}).Draw(t, "names")
	width := rapid.Int64Range(1, 6).Draw(t, "width")
	for i, name := range names {
		attr := layers.ParamAttr{Name: name, Frozen: name == "" && rapid.IntRange(0, 4).Draw(t, "frozen") == 0}
		if rapid.Bool().Draw(t, "gentle") {
			attr.LearningRate, attr.Regularizer = 0.3, layers.L2(0.2)
		}
		if name == "same" && i == 0 {
			h = layers.FC(h, width) // equal dims from here on
		}
		h = layers.FC(h, width, layers.Param(attr), layers.Act("tanh"))
		if rapid.IntRange(0, 2).Draw(t, "norm") == 0 {
			h = layers.BatchNorm(h)
		}
	}
	cost := layers.SquareErrorCost(layers.FC(h, 2), y)
	loss := layers.Mean(cost, layers.Name("loss"))
	if rapid.IntRange(0, 3).Draw(t, "sum") == 0 {
		loss = layers.ReduceSum(cost)
	}
	drawOptimizer(t).Minimize(loss)
	return m.Program()
}

func drawOptimizer(t *rapid.T) *optimizer.Optimizer {
	clips := map[string]optimizer.Clip{"none": nil, "value": optimizer.ByValue(-0.1, 0.1), "norm": optimizer.ByNorm(0.1),
		"global norm": optimizer.ByGlobalNorm(0.1)}
	var options []optimizer.Option
	if clip := clips[rapid.SampledFrom([]string{"none", "value", "norm", "global norm"}).Draw(t, "clip")]; clip != nil {
		options = append(options, optimizer.ClipGradients(clip))
	}
	if rapid.Bool().Draw(t, "regularize") {
		options = append(options, optimizer.Regularize(layers.L1(0.01)))
	}
	rate := rapid.SampledFrom([]optimizer.Schedule{optimizer.InverseTime(0.1, 1, 0.5, false), optimizer.Noam(4, 2),
		optimizer.Cosine(0.1, 1, 3)}).Draw(t, "rate")
	switch rapid.IntRange(0, 4).Draw(t, "optimizer") {
	case 0:
		return optimizer.SGD(rate, options...)
	case 1:
		return optimizer.Momentum(0.05, 0.9, options...)
	case 2:
		return optimizer.Adam(rate, options...)
	case 3:
		return optimizer.RMSProp(rate, append(options, optimizer.Centered())...)
	}
	return optimizer.Adamax(0.1, options...)
}

// Whatever the program, the cluster and the slicing, a distributed job computes what the reference computes.
func TestLawProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p, err := drawProgram(r)
		if err != nil {
			r.Fatal(err)
		}
		cfg := transpiler.Config{
			Trainers:     rapid.IntRange(1, 3).Draw(r, "trainers"),
			PServers:     rapid.IntRange(1, 5).Draw(r, "pservers"),
			MinBlockSize: rapid.Int64Range(1, 12).Draw(r, "min block"),
			NoSlice:      rapid.IntRange(0, 9).Draw(r, "no slice") == 0,
			SplitMethod:  rapid.SampledFrom([]string{transpiler.RoundRobin, transpiler.HashName}).Draw(r, "split method"),
		}
		if err := checkLaw(t, p, cfg, "fc_0.b_0"); err != nil {
			r.Fatal(fmt.Errorf("%+v: %w", cfg, err))
		}
	})
}
