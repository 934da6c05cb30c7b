package reference_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// weights is a model whose gradient is the mean of its rows, whatever its parameter is. The parameter begins with 0 and learns with the rate 1, so it is the
// negative of all that was sent of the gradients.
func weights(t *testing.T, width int64) *program.Program {
	t.Helper()
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(width))
	y := layers.FC(x, 1, layers.NoBias(), layers.Param(layers.ParamAttr{Name: "w", Initializer: layers.Constant(0)}))
	loss := layers.Mean(y, layers.Name("loss"))
	optimizer.SGD(1).Minimize(loss)
	return testkit.Built(t, m, loss).Program
}

// rows are the features of a batch.
func rows(t *testing.T, values ...[]float32) executor.Feed {
	t.Helper()
	x, err := tensor.FromSlice(slices.Concat(values...), int64(len(values)), int64(len(values[0])))
	if err != nil {
		t.Fatal(err)
	}
	return executor.Feed{"x": x}
}

// selecting is the oracle of weights with topk.
func selecting(t *testing.T, p *program.Program, trainers int, form string) *reference.Executor {
	t.Helper()
	e, err := reference.New(p, trainers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if err := e.Compress(form, "none"); err != nil {
		t.Fatal(err)
	}
	return e
}

// step trains one batch, after which these are the sums of all that was sent: the mean of the trainers, weighted by rows.
func step(t *testing.T, e *reference.Executor, p *program.Program, feed executor.Feed, want ...float32) {
	t.Helper()
	if _, err := e.Run(t.Context(), p, feed); err != nil {
		t.Fatal(err)
	}
	w, _ := e.Scope().Find("w")
	for i, x := range w.Float32s() {
		if -x != want[i] {
			t.Errorf("%v was sent, want -%v", w.Float32s(), want)
			return
		}
	}
}

// Each trainer sends what is largest of its own residual. A trainer without rows keeps its residual.
func TestResiduals(t *testing.T) {
	p := weights(t, 4)
	e := selecting(t, p, 2, "topk:0.25:4")
	two := rows(t, []float32{1, 2, 3, 4}, []float32{8, 4, 2, 1})
	step(t, e, p, two, 4, 0, 0, 2)                              // trainer 0 sends 4 and keeps 1 2 3 0; trainer 1 sends 8 and keeps 0 4 2 1
	step(t, e, p, rows(t, []float32{0, 10, 0, 0}), 4, 14, 0, 2) // only trainer 1 has rows: it sends 14 and keeps 0 0 2 1
	step(t, e, p, two, 8, 14, 3, 2)                             // of 2 4 6 4 and 8 4 4 2
}

// Slices are selected from by themselves.
func TestResidualsOfSlices(t *testing.T) {
	p := weights(t, 4)
	e := selecting(t, p, 1, "topk:0.25:4")
	e.Slice(func(gradient string) []int64 { return []int64{1, 3} })
	step(t, e, p, rows(t, []float32{1, 2, 3, 4}), 1, 0, 0, 4)
	step(t, e, p, rows(t, []float32{1, 2, 3, 4}), 2, 0, 6, 4)
	for name, cut := range map[string][]int64{"too few": {1, 2}, "too many": {1, 4}} {
		e.Slice(func(string) []int64 { return cut })
		if _, err := e.Run(t.Context(), p, rows(t, []float32{1, 2, 3, 4})); err == nil {
			t.Errorf("%s rows in slices", name)
		}
	}
	e.Slice(func(string) []int64 { return []int64{1, 3} }) // the rounds that failed have changed no residual: 0 4 0 4
	step(t, e, p, rows(t, []float32{1, 2, 3, 4}), 3, 0, 6, 12)
	step(t, e, p, rows(t, []float32{1, 2, 3, 4}), 4, 8, 6, 12)
	e.Slice(func(string) []int64 { return nil }) // it is sent as it is
	step(t, e, p, rows(t, []float32{1, 1, 1, 1}), 5, 9, 7, 13)
}

// What fails changes no residual, and a generation begins with residuals of 0.
func TestResidualsOfGenerations(t *testing.T) {
	p := weights(t, 4)
	e := selecting(t, p, 1, "topk:0.25:4")
	batch := rows(t, []float32{1, 2, 3, 4})
	step(t, e, p, batch, 0, 0, 0, 4)
	e.CheckFinite()
	nan := rows(t, []float32{float32(math.NaN()), 0, 0, 0})
	if _, err := e.Run(t.Context(), p, nan, "loss"); !errors.Is(err, fault.NotFinite) {
		t.Fatal(err)
	}
	step(t, e, p, batch, 0, 0, 6, 4) // left: 2 4 0 4
	e.Regroup(func(round uint64) bool { return round == 2 })
	step(t, e, p, batch, 0, 0, 6, 8) // of 1 2 3 4; left: 1 2 3 0
	step(t, e, p, batch, 0, 0, 12, 8)
	e.Vary(func(uint64) int { return 2 }) // the row is that of trainer 1
	step(t, e, p, batch, 0, 0, 12, 12)
	if err := e.Save(t.Context(), t.TempDir(), p); err != nil {
		t.Fatal(err)
	}
	step(t, e, p, batch, 0, 0, 18, 12)
}

// A generation begins with Load.
func TestResidualsEndWithLoad(t *testing.T) {
	p, dir := weights(t, 4), t.TempDir()
	e := selecting(t, p, 1, "topk:0.25:4")
	batch := rows(t, []float32{1, 2, 3, 4})
	step(t, e, p, batch, 0, 0, 0, 4)
	if err := e.Save(t.Context(), dir, p); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Load(t.Context(), dir, p, executor.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	step(t, e, p, batch, 0, 0, 0, 8)
}

func TestGroupsDoNotSelect(t *testing.T) {
	p := weights(t, 4)
	e := selecting(t, p, 2, "topk:0.25:4")
	e.Group(func(uint64) [][]int { return [][]int{{0, 1}} })
	if _, err := e.Run(t.Context(), p, rows(t, []float32{1, 2, 3, 4}, []float32{1, 2, 3, 4})); !errors.Is(err, fault.Unsupported) {
		t.Error(err)
	}
}

// A gradient that is not finite reaches the parameter in its own round, as it does without topk, and is not kept back.
func TestNotFiniteGradientsAreNotKeptBack(t *testing.T) {
	for _, form := range []string{"none", "topk:0.25:4"} {
		p := weights(t, 4)
		e := selecting(t, p, 1, form)
		for name, x := range map[string]float32{"NaN": float32(math.NaN()), "infinity": float32(math.Inf(-1))} {
			if _, err := e.Run(t.Context(), p, rows(t, []float32{1e30, x, 1e30, 1e30}), "w"); err == nil {
				w, _ := e.Scope().Find("w")
				if got := float64(w.Float32s()[1]); !math.IsNaN(got) && !math.IsInf(got, 0) {
					t.Errorf("%s: the parameter is %v after a gradient of %s", form, w.Float32s(), name)
				}
			} else if !errors.Is(err, fault.NotFinite) {
				t.Errorf("%s: %v", form, err)
			}
		}
	}
}

// mnist is images of handwritten digits, in memory.
type mnist struct {
	images []float32
	labels []int64
}

const pixels = 784

var _ dataset.RecordWriter = (*mnist)(nil)

func (d *mnist) Write(record []byte) error {
	values, err := dataset.DecodeRecord(record)
	if err != nil {
		return err
	}
	d.images = append(d.images, values[0].Float32s()...)
	d.labels = append(d.labels, values[1].Int64s()[0])
	return nil
}

func (d *mnist) Close() error { return nil }

// readMNIST reads some images of MNIST. It returns false if the folder of real data is not named.
func readMNIST(t *testing.T, n int) (d mnist, ok bool) {
	t.Helper()
	folder := os.Getenv("EDL_TESTDATA")
	if folder == "" {
		t.Log("EDL_TESTDATA is unset: it names the folder of real data")
		return d, false
	}
	images, err := os.Open(filepath.Join(folder, "mnist", "t10k-images-idx3-ubyte.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer images.Close()
	labels, err := os.Open(filepath.Join(folder, "mnist", "t10k-labels-idx1-ubyte.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer labels.Close()
	if _, err := convert.MNIST(context.Background(), images, labels, &d, convert.MNISTOptions{First: n}); err != nil {
		t.Fatal(err)
	}
	return d, true
}

// trainDigits trains a perceptron of one hidden layer on 2 trainers, and returns the mean loss of the last pass.
func trainDigits(t *testing.T, d mnist, passes int, o *optimizer.Optimizer, form string) (last float64) {
	t.Helper()
	const batch = 100
	m := layers.NewModel().Seed(5)
	in, label := layers.Data(m, "x", layers.Dims(pixels)), layers.Data(m, "y", layers.Dims(1), layers.DType(tensor.Int64))
	each, _ := layers.SoftmaxWithCrossEntropy(layers.FC(layers.FC(in, 64, layers.Act("relu")), 10), label)
	loss := layers.Mean(each)
	o.Minimize(loss)
	model := testkit.Built(t, m, loss)
	e := selecting(t, model.Program, 2, form)
	for range passes {
		last = 0
		for from := 0; from < len(d.labels); from += batch {
			x, _ := tensor.FromSlice(d.images[from*pixels:(from+batch)*pixels], batch, pixels)
			y, _ := tensor.FromSlice(d.labels[from:from+batch], batch, 1)
			got, err := e.Run(t.Context(), model.Program, executor.Feed{"x": x, "y": y}, model.Loss)
			if err != nil {
				t.Fatal(err)
			}
			last += float64(got[0].Float32s()[0]) * batch / float64(len(d.labels))
		}
	}
	return last
}

// On real data, plain SGD with topk comes to the loss of SGD without it in as many steps, within 5 %: what is not sent at once is sent later. An optimizer
// with momentum moves further by what arrives late, so it needs a larger fraction: with a tenth it comes within 10 %.
func TestTopKConverges(t *testing.T) {
	d, ok := readMNIST(t, 4000)
	if !ok {
		return
	}
	passes, low, factor := 20, 0.2, 1.0 // 800 steps
	if testing.Short() {                // 120 steps: then the race detector needs 10 s for each training
		passes, low, factor = 3, 0.6, 3
	}
	sgd := func() *optimizer.Optimizer { return optimizer.SGD(0.05) }
	momentum := func() *optimizer.Optimizer { return optimizer.Momentum(0.01, 0.9) }
	for _, c := range []struct {
		optimizer func() *optimizer.Optimizer
		forms     []string
		bound     float64
	}{{sgd, []string{"topk:0.1", "topk:0.01"}, 0.05}, {momentum, []string{"topk:0.1"}, 0.1}} {
		want := trainDigits(t, d, passes, c.optimizer(), "none")
		if want > low { // the first is 2.3
			t.Fatalf("without compression the loss is %v", want)
		}
		for _, form := range c.forms {
			got := trainDigits(t, d, passes, c.optimizer(), form)
			t.Logf("%s: loss %.4f, without %.4f", form, got, want)
			if got == want || math.Abs(got-want) > factor*c.bound*want {
				t.Errorf("%s: loss %v, without %v", form, got, want)
			}
		}
	}
}
