package transpiler_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// Each shape of a cluster computes what its own reference computes that rounds in the same places: with every form, whole and sliced, with forward
// state, which is not rounded, with gradients that are too small to select from, and with norms over all servers.
func TestLawOfCompression(t *testing.T) {
	models := map[string]*program.Program{
		"adam, global norm": perceptron(t, optimizer.Adam(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(0.1)))),
		"batch norm":        batchNorm(t),
	}
	for name, p := range models {
		for _, gradients := range append([]string{"topk:0.2:1", "topk:0.01:12"}, forms...) {
			for _, parameters := range forms {
				for _, cfg := range []transpiler.Config{
					{Trainers: 1, PServers: 1},
					{Trainers: 2, PServers: 2, MinBlockSize: 4},
					{Trainers: 3, PServers: 1},
					{Trainers: 1, PServers: 3, MinBlockSize: 5, Mode: transpiler.Async},
				} {
					if name == "adam, global norm" && cfg.Mode == transpiler.Async {
						continue // clips on the trainer; see the law of global norms
					}
					cfg.CompressGradients, cfg.CompressParameters = gradients, parameters
					if err := checkLaw(t, p, cfg, "fc_0.w_0"); err != nil {
						t.Errorf("%s, %+v: %v", name, cfg, err)
					}
				}
			}
		}
	}
}

// trainedWith returns a parameter after some steps of a perceptron in the reference executor.
func trainedWith(t *testing.T, gradients, parameters string) []float32 {
	t.Helper()
	p := perceptron(t, optimizer.SGD(0.1))
	e, err := reference.New(p, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Compress(gradients, parameters); err != nil {
		t.Fatal(err)
	}
	for step := range 3 {
		feed := executor.Feed{}
		for name, dims := range map[string]int64{"x": 7, "y": 1} {
			dtype := tensor.Float32
			if name == "y" {
				dtype = tensor.Int64
			}
			v, err := tensor.New(dtype, batchRows, dims)
			if err != nil {
				t.Fatal(err)
			}
			for i := range v.Float32s() {
				v.Float32s()[i] = float32(math.Sin(float64(i + step)))
			}
			feed[name] = v
		}
		if _, err := e.Run(t.Context(), p, feed); err != nil {
			t.Fatal(err)
		}
	}
	w, _ := e.Scope().Find("fc_0.w_0")
	return slices.Clone(w.Float32s())
}

// What is compressed makes a difference, and a small one: the state is not rounded, and each gradient is off by at most a rounding.
func TestCompressionIsBoundedAndReal(t *testing.T) {
	want := trainedWith(t, "none", "none")
	for _, c := range [][2]string{{"bf16", "none"}, {"none", "bf16"}, {"fp16", "none"}, {"none", "fp16"}} {
		got := trainedWith(t, c[0], c[1])
		differ, coarse := 0, 0
		for i := range got {
			if got[i] != want[i] {
				differ++
			}
			if math.Float32bits(got[i])&0x1fff == 0 {
				coarse++
			}
			if d := math.Abs(float64(got[i] - want[i])); d > 2e-3 {
				t.Errorf("%v: element %d is %v, want about %v", c, i, got[i], want[i])
			}
		}
		if differ == 0 || coarse > len(got)/2 {
			t.Errorf("%v: %d of %d elements differ, and %d are rounded", c, differ, len(got), coarse)
		}
	}
}

func TestNothingToCompressIsRefused(t *testing.T) {
	m := layers.NewModel()
	x, y := layers.Data(m, "x", layers.Dims(3), layers.DType(tensor.Float64)), layers.Data(m, "y", layers.Dims(2), layers.DType(tensor.Float64))
	optimizer.SGD(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(x, 2), y)))
	p := built(t, m)
	for _, cfg := range []transpiler.Config{{CompressGradients: "bf16"}, {CompressParameters: "fp16"}} {
		cfg.Trainers, cfg.PServers = 2, 2
		if _, err := transpiler.Transpile(t.Context(), p, cfg); !errors.Is(err, fault.Unsupported) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	cfg := transpiler.Config{Trainers: 2, PServers: 2, CompressGradients: "int8"}
	if _, err := transpiler.Transpile(t.Context(), p, cfg); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("int8: %v", err)
	}
	cfg.CompressGradients, cfg.CompressParameters = "none", "topk:0.01"
	if _, err := transpiler.Transpile(t.Context(), p, cfg); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("parameters by topk: %v", err)
	}
	cfg.CompressGradients, cfg.CompressParameters = "topk:0.01", "none"
	small := perceptron(t, optimizer.SGD(0.1))
	if _, err := transpiler.Transpile(t.Context(), small, cfg); !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "LEAST") {
		t.Errorf("topk of small gradients: %v", err)
	}
	if cfg.CompressParameters = "bf16"; checkLaw(t, small, cfg, "fc_0.w_0") != nil {
		t.Error("topk that finds nothing is refused although parameters are compressed")
	}
}

// Gradients that topk does not send whole make a difference in each step, and the residual makes up for it: what is sent in all steps together is what dense
// gradients would be, but for what is left. So a model whose gradients do not depend on its parameters ends near the dense result, and one without a residual
// would not.
func TestResidualMakesUpForWhatIsNotSent(t *testing.T) {
	const rate, rounds, fraction = 0.5, 400, 0.1
	train := func(gradients string) []float32 {
		m := layers.NewModel().Seed(3)
		x := layers.Data(m, "x", layers.Dims(40))
		loss := layers.Mean(layers.FC(x, 5, layers.NoBias()), layers.Name("loss"))
		optimizer.SGD(rate).Minimize(loss)
		p := built(t, m)
		e, err := reference.New(p, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if err := e.Compress(gradients, "none"); err != nil {
			t.Fatal(err)
		}
		v, _ := tensor.New(tensor.Float32, batchRows, 40)
		for i := range v.Float32s() {
			v.Float32s()[i] = 1 + float32(i%40)
		}
		for range rounds {
			if _, err := e.Run(t.Context(), p, executor.Feed{"x": v}); err != nil {
				t.Fatal(err)
			}
		}
		w, _ := e.Scope().Find("fc_0.w_0")
		return slices.Clone(w.Float32s())
	}
	dense, got := train("none"), train(fmt.Sprintf("topk:%v:1", fraction))
	differ := 0
	for i := range dense {
		if got[i] != dense[i] {
			differ++
		}
		// An element of magnitude g is sent when it has grown to at most the sum of all gradients divided by the elements that are sent.
		g, all := float64(1+i/5)/5, 40*41/2.0
		if left := math.Abs(float64(got[i]-dense[i])) / rate; left > all/(fraction*200)+g+1e-2*rounds {
			t.Errorf("element %d is %v, want %v: %v of its gradients is missing", i, got[i], dense[i], left)
		}
	}
	if differ < len(dense)/2 {
		t.Errorf("%d of %d elements differ", differ, len(dense))
	}
}
