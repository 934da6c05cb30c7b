package remote_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// weighing is a classifier whose loss is the mean over rows, or over the words of sentences, in which a row counts as much as a function of its label says.
func weighing(t *testing.T, levels int, weigh func(label layers.Variable) layers.Variable) subject {
	m := layers.NewModel().Seed(3)
	x := layers.Data(m, "x", layers.Dims(4), layers.LoD(levels))
	label := layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(levels))
	weights := weigh(layers.Cast(label, tensor.Float32))
	cost := layers.CrossEntropy(layers.Softmax(layers.FC(layers.FC(x, 3, layers.Act("tanh")), testkit.Classes)), label)
	loss := layers.Div(layers.ReduceSum(layers.Mul(cost, weights)), layers.ReduceSum(weights), layers.Name("loss"))
	optimizer.Adam(0.1).Minimize(loss)
	return subject{Model: testkit.Built(t, m, loss), fetch: []string{"loss", m.Parameters()[0].Name()}}
}

// TestLawOfWeightedMeans trains with weights of classes, of which some may be 0 as for padding, on 1 to 4 trainers. It computes what the reference computes, and up to
// rounding what one machine computes: a plain mean of the means of trainers would not.
func TestLawOfWeightedMeans(t *testing.T) {
	comparesValues(t)
	l := listener(t)
	for levels := range 2 {
		s := weighing(t, levels, func(label layers.Variable) layers.Variable { return layers.Scale(layers.Square(label), 3, 1) })
		for trainers := range 4 {
			t.Run(fmt.Sprint(levels, " levels ", trainers+1, " trainers"), func(t *testing.T) {
				spec := &remote.JobSpec{Trainers: int32(trainers) + 1, Devices: int32(max(1, 2-trainers/2)), Pservers: 2, MinBlockSize: 1, Save: t.TempDir()}
				want, err := oracleFor(s.Program, spec)
				if err != nil {
					t.Fatal(err)
				}
				defer want.Close()
				batches := []int64{8, 5, 13, 4}
				if err := checkFedLaw(l, s, spec, batches, want); err != nil {
					t.Fatal(err)
				}
				alone := executor.New()
				defer alone.Close()
				for step, rows := range batches {
					if _, err := alone.Run(bounded(t), s.Program, testkit.Batch(t, s.Program, uint64(step), rows)); err != nil {
						t.Fatal(err)
					}
				}
				nearly(t, testkit.Persistables(want.Scope(), s.Program), testkit.Persistables(alone.Scope(), s.Program))
			})
		}
	}
}

// nearly compares float32 variables up to rounding.
func nearly(t *testing.T, got, want map[string]*tensor.Tensor) {
	t.Helper()
	for name, w := range want {
		if w.DType() != tensor.Float32 {
			continue
		}
		for i, x := range w.Float32s() {
			if d := got[name].Float32s()[i] - x; d > 1e-4 || d < -1e-4 {
				t.Errorf("%s: element %d is %g, want %g", name, i, got[name].Float32s()[i], x)
			}
		}
	}
}

// Weights that are no whole numbers cannot be added up exactly. One machine takes them, a trainer refuses them.
func TestWeightsThatAreNoWholeNumbers(t *testing.T) {
	s := weighing(t, 0, func(label layers.Variable) layers.Variable { return layers.Scale(label, 0.3, 0.5) })
	feed := testkit.Batch(t, s.Program, 1, 8)
	alone := executor.New()
	defer alone.Close()
	if _, err := alone.Run(bounded(t), s.Program, feed); err != nil {
		t.Error(err)
	}
	refuses := func(name string, exe executor.Executor) {
		_, err := exe.Run(bounded(t), s.Program, feed)
		if !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "whole") {
			t.Errorf("%s: %v", name, err)
		}
	}
	oracle, err := reference.New(s.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer oracle.Close()
	refuses("reference", oracle)
	refuses("cluster", executorOf(t, listener(t), &remote.JobSpec{Trainers: 2, Pservers: 1}))
}

// The weights of a part of a batch may all be 0, as of padding. What its trainer, or its device, has computed is no number then, and counts for nothing: the job
// computes what the reference computes, also where trainers send a part of each gradient and keep the rest, and nearly what one machine computes.
func TestLawOfPartsWithoutWeight(t *testing.T) {
	comparesValues(t)
	l := listener(t)
	batches := []int64{8, 5, 13, 4, 2, 3}
	for levels := range 2 {
		s := weighing(t, levels, func(label layers.Variable) layers.Variable { return label }) // the first class has no weight
		for i, spec := range []*remote.JobSpec{{Trainers: 1, Devices: 3}, {Trainers: 2}, {Trainers: 3}, {Trainers: 4}, {Trainers: 2, Devices: 2}, {Trainers: 3, MergeHosts: true},
			{Trainers: 3, CompressGradients: "topk:0.25:1"}, {Trainers: 2, Devices: 2, CompressGradients: "topk:0.25:1"}, {Trainers: 4, CompressGradients: "bf16"}} {
			t.Run(fmt.Sprint(levels, " levels, job ", i), func(t *testing.T) {
				spec.Pservers, spec.MinBlockSize, spec.Save = 2, 1, t.TempDir()
				spec.Devices = max(1, spec.Devices)
				want, err := oracleFor(s.Program, spec)
				if err != nil {
					t.Fatal(err)
				}
				defer want.Close()
				want.CheckFinite()
				checkBesideOneMachine(t, l, s, spec, batches, want)
			})
		}
	}
}

// A batch whose weights are all 0 has no mean. Whoever trains it says so and changes nothing: one machine, the reference, and jobs whose trainers or devices each
// have a part of it, also where nobody checks numbers. Then training goes on.
func TestBatchWithoutWeight(t *testing.T) {
	comparesValues(t)
	l := listener(t)
	s := weighing(t, 0, func(label layers.Variable) layers.Variable { return label })
	empty := testkit.Batch(t, s.Program, 1, 8)
	clear(empty["label"].Int64s())
	alone := executor.New()
	defer alone.Close()
	oracle, err := reference.New(s.Program, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer oracle.Close()
	oracle.CheckFinite()
	unchecked := executor.New(executor.WithoutFiniteCheck())
	defer unchecked.Close()
	uncheckedOracle, err := reference.New(s.Program, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer uncheckedOracle.Close()
	all := map[string]executor.Executor{"alone": alone, "reference": oracle, "alone, unchecked": unchecked, "reference, unchecked": uncheckedOracle}
	for name, spec := range map[string]*remote.JobSpec{"trainers": {Trainers: 3}, "devices": {Trainers: 1, Devices: 3, NoFiniteCheck: true}, "both": {Trainers: 2, Devices: 2},
		"async devices": {Trainers: 1, Devices: 2, Mode: job.Mode_ASYNC}, "async": {Trainers: 1, Mode: job.Mode_ASYNC, NoFiniteCheck: true}} {
		spec.Pservers = 2
		all[name] = executorOf(t, l, spec)
	}
	for name, exe := range all {
		good := testkit.Batch(t, s.Program, 0, 8)
		first, err := exe.Run(bounded(t), s.Program, good, "loss")
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := exe.Run(bounded(t), s.Program, empty, "loss"); !errors.Is(err, fault.NotFinite) {
			t.Errorf("%s: %v", name, err)
		}
		again, err := exe.Run(bounded(t), s.Program, good, "loss")
		if err != nil || again[0].Float32s()[0] >= first[0].Float32s()[0] {
			t.Errorf("%s: after the batch without weight the loss is %v, was %v: %v", name, again, first, err)
		}
	}
}

// checkBesideOneMachine checks that a cluster, whose trainers send gradients together with MergeHosts, computes what the reference computes, and, unless gradients are compressed, nearly what one
// machine computes.
func checkBesideOneMachine(t *testing.T, l *remote.Listener, s subject, spec *remote.JobSpec, batches []int64, want *reference.Executor) {
	t.Helper()
	if spec.MergeHosts {
		want.Group(func(uint64) [][]int { return [][]int{{0, 1, 2}} })
	}
	if err := checkFedLaw(l, s, spec, batches, want); err != nil {
		t.Fatal(err)
	}
	if spec.CompressGradients != "" {
		return
	}
	alone := executor.New()
	defer alone.Close()
	for step, rows := range batches {
		if _, err := alone.Run(bounded(t), s.Program, testkit.Batch(t, s.Program, uint64(step), rows)); err != nil {
			t.Fatal(err)
		}
	}
	nearly(t, testkit.Persistables(want.Scope(), s.Program), testkit.Persistables(alone.Scope(), s.Program))
}
