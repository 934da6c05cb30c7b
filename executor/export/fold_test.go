package export_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// typesOf counts the ops of a program by type.
func typesOf(p *program.Program) map[string]int {
	n := map[string]int{}
	for _, op := range p.Global().Ops {
		n[op.Type]++
	}
	return n
}

// A folded model computes what it did before, but for rounding, with fewer ops.
func TestFold(t *testing.T) {
	images := []int64{6, 3, 12, 12}
	for name, c := range map[string]struct {
		body  func(image layers.Variable) layers.Variable
		norms int // that are folded
		left  int // that cannot be
		adds  int // elementwise_add ops that are left, beside that of the last product
	}{
		"a convolution with a bias": {func(x layers.Variable) layers.Variable { return layers.BatchNorm(layers.Conv2D(x, 4, 3)) }, 1, 0, 1},
		"a convolution without a bias": {func(x layers.Variable) layers.Variable {
			return layers.BatchNorm(layers.Conv2D(x, 4, 3, layers.NoBias()))
		}, 1, 0, 1},
		"two, one behind the other": {func(x layers.Variable) layers.Variable {
			x = layers.BatchNorm(layers.Conv2D(x, 4, 3, layers.NoBias()), layers.Act("relu"))
			return layers.BatchNorm(layers.Conv2D(x, 5, 1))
		}, 2, 0, 2},
		"a depthwise convolution": {func(x layers.Variable) layers.Variable {
			return layers.BatchNorm(layers.Conv2D(x, 3, 3, layers.Groups(3)))
		}, 1, 0, 1},
		"a product": {func(x layers.Variable) layers.Variable { return layers.BatchNorm(layers.FC(x, 7)) }, 1, 0, 1},
		"what is read elsewhere, too": {func(x layers.Variable) layers.Variable {
			x = layers.Conv2D(x, 4, 3)
			return layers.Add(layers.BatchNorm(x), x)
		}, 0, 1, 2},
		"an activation between them": {func(x layers.Variable) layers.Variable {
			return layers.BatchNorm(layers.Conv2D(x, 4, 3, layers.Act("relu")))
		}, 0, 1, 1},
		"a norm of the input": {func(x layers.Variable) layers.Variable { return layers.BatchNorm(x) }, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := layers.NewModel().Seed(3)
			image := layers.Data(m, "image", layers.Dims(images[1:]...))
			label := layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
			prediction := layers.FC(c.body(image), 3, layers.Act("softmax"))
			loss := layers.Mean(layers.CrossEntropy(prediction, label))
			trained := train(t, m, loss, prediction, optimizer.Adam(0.01), "image", images, func() *tensor.Tensor {
				v, err := tensor.FromSlice([]int64{0, 1, 2, 0, 1, 2}, 6, 1)
				if err != nil {
					t.Fatal(err)
				}
				return v
			})
			p, err := export.Program(trained.program, nil, []string{trained.prediction})
			if err != nil {
				t.Fatal(err)
			}
			before := len(p.Global().Ops)
			f, err := export.Fold(t.Context(), p, trained.value)
			if err != nil {
				t.Fatal(err)
			}
			n := typesOf(f.Program)
			if f.Norms != c.norms || n["batch_norm"] != c.left || n["elementwise_add"] != c.adds+1 {
				t.Errorf("%d norms are folded, %v are left; want %d, and %d with %d additions", f.Norms, n, c.norms, c.left, c.adds+1)
			}
			if len(p.Global().Ops) != before {
				t.Error("the program itself has changed")
			}
			feed := executor.Feed{"image": trained.input}
			d, err := export.Difference(t.Context(), export.Model{Program: f.Program, Value: f.Value}, export.Model{Program: p, Value: trained.value}, feed)
			if err != nil || d > 1e-5 {
				t.Errorf("results differ by %v of their size, %v", d, err)
			}
			for _, name := range executor.Persistables(f.Program) {
				if _, err := f.Value(name); err != nil {
					t.Error(err)
				}
			}
			dir := t.TempDir()
			if _, err := export.Write(dir, f.Program, export.Fluid, f.Value); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A parameter that others read, too, stays what it is: the convolution with the norm gets weights of its own.
func TestFoldOfSharedWeights(t *testing.T) {
	m := layers.NewModel().Seed(3)
	image := layers.Data(m, "image", layers.Dims(3, 12, 12))
	label := layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
	shared := layers.Param(layers.ParamAttr{Name: "shared"})
	one := layers.BatchNorm(layers.Conv2D(image, 4, 3, shared, layers.NoBias()))
	two := layers.Conv2D(image, 4, 3, shared, layers.NoBias())
	prediction := layers.FC(layers.Add(one, two), 3, layers.Act("softmax"))
	loss := layers.Mean(layers.CrossEntropy(prediction, label))
	trained := train(t, m, loss, prediction, optimizer.Adam(0.01), "image", []int64{6, 3, 12, 12}, func() *tensor.Tensor {
		v, err := tensor.FromSlice([]int64{0, 1, 2, 0, 1, 2}, 6, 1)
		if err != nil {
			t.Fatal(err)
		}
		return v
	})
	p, err := export.Program(trained.program, nil, []string{trained.prediction})
	if err != nil {
		t.Fatal(err)
	}
	f, err := export.Fold(t.Context(), p, trained.value)
	if err != nil || f.Norms != 1 {
		t.Fatal(f, err)
	}
	if names := executor.Persistables(f.Program); !slices.Contains(names, "shared") || !slices.Contains(names, "shared.folded") {
		t.Errorf("the parameters are %v", names)
	}
	d, err := export.Difference(t.Context(), export.Model{Program: f.Program, Value: f.Value}, export.Model{Program: p, Value: trained.value}, executor.Feed{"image": trained.input})
	if err != nil || d > 1e-5 {
		t.Errorf("results differ by %v of their size, %v", d, err)
	}
}

// What depends on parameters alone is computed once, to the same bits.
func TestFoldOfConstants(t *testing.T) {
	m := layers.NewModel().Seed(3)
	x := layers.Data(m, "x", layers.Dims(13))
	y := layers.Data(m, "y", layers.Dims(1))
	w := layers.CreateParameter(m, []int64{13, 4}, tensor.Float32, layers.ParamAttr{Name: "w"})
	half := layers.Scale(layers.Tanh(w), 0.5, 0)
	prediction := layers.FC(layers.MatMul(x, half), 1)
	loss := layers.Mean(layers.SquareErrorCost(prediction, y))
	trained := train(t, m, loss, prediction, optimizer.SGD(0.01), "x", []int64{6, 13}, func() *tensor.Tensor { return random(t, 9, 6, 1) })
	p, err := export.Program(trained.program, nil, []string{trained.prediction})
	if err != nil {
		t.Fatal(err)
	}
	f, err := export.Fold(t.Context(), p, trained.value)
	if err != nil {
		t.Fatal(err)
	}
	if n := typesOf(f.Program); f.Constants != 2 || n["tanh"] != 0 || n["scale"] != 0 || slices.Contains(executor.Persistables(f.Program), "w") {
		t.Errorf("%d ops are computed, %v are left, with %v", f.Constants, n, executor.Persistables(f.Program))
	}
	feed, err := export.Samples(p)
	if err != nil {
		t.Fatal(err)
	}
	d, err := export.Difference(t.Context(), export.Model{Program: f.Program, Value: f.Value}, export.Model{Program: p, Value: trained.value}, feed)
	if err != nil || d != 0 {
		t.Errorf("results differ by %v of their size, %v", d, err)
	}
}
