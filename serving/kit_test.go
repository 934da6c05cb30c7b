package serving_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// exported writes a model with its initial values to dir, and returns its inference program.
func exported(t testing.TB, dir string, m *layers.Model, outputs ...layers.Variable) *program.Program {
	t.Helper()
	p, value := initialized(t, m, outputs...)
	if _, err := export.Write(dir, p, export.Fluid, value); err != nil {
		t.Fatal(err)
	}
	return p
}

// initialized returns a program for inference, and the initial values of its parameters.
func initialized(t testing.TB, m *layers.Model, outputs ...layers.Variable) (*program.Program, func(name string) (*tensor.Tensor, error)) {
	t.Helper()
	whole, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	p, err := export.Program(whole, nil, layers.Names(outputs...))
	if err != nil {
		t.Fatal(err)
	}
	exe := executor.New()
	t.Cleanup(func() { exe.Close() })
	if err := exe.Startup(t.Context(), whole); err != nil {
		t.Fatal(err)
	}
	return p, func(name string) (*tensor.Tensor, error) {
		if v, ok := exe.Scope().Find(name); ok {
			return v, nil
		}
		return nil, fault.E(fault.NotFound, fault.Var(name))
	}
}

// digits is a network for images with what has a form for inference.
func digits(seed int64) (*layers.Model, []layers.Variable) {
	m := layers.NewModel().Seed(seed)
	x := layers.Data(m, "x", layers.Dims(1, 8, 8))
	conv := layers.BatchNorm(layers.Conv2D(x, 3, 3), layers.Act("relu"))
	hidden := layers.Dropout(layers.FC(layers.Pool2D(conv, 2), 16, layers.Act("tanh")), 0.5)
	return m, []layers.Variable{layers.FC(hidden, 4, layers.Act("softmax")), hidden}
}

// words is a network for sequences: it has an output for each sequence, and one for each word.
func words(seed int64) (*layers.Model, []layers.Variable) {
	m := layers.NewModel().Seed(seed)
	w := layers.Data(m, "words", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
	age := layers.Data(m, "age", layers.Dims(1))
	each := layers.FC(layers.Embedding(w, 30, 8), 4, layers.Act("tanh"))
	return m, []layers.Variable{layers.FC(layers.Concat([]layers.Variable{layers.SequencePool(each, "max"), age}, 1), 2), each}
}

func open(t testing.TB, dir string, options ...serving.Option) *serving.Model {
	t.Helper()
	m, err := serving.Open(dir, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func images(rows int64, seed uint64) map[string]*tensor.Tensor {
	return map[string]*tensor.Tensor{"x": random(seed, rows, 1, 8, 8)}
}

func random(seed uint64, dims ...int64) *tensor.Tensor {
	r := rand.New(rand.NewPCG(seed, 1))
	v, _ := tensor.New(tensor.Float32, dims...)
	for i := range v.Float32s() {
		v.Float32s()[i] = r.Float32()*2 - 1
	}
	return v
}

// texts makes sequences of up to 9 words.
func texts(sequences int, seed uint64) map[string]*tensor.Tensor {
	r := rand.New(rand.NewPCG(seed, 2))
	lod, ids := []int64{0}, []int64{}
	for range sequences {
		for range 1 + r.IntN(9) {
			ids = append(ids, r.Int64N(30))
		}
		lod = append(lod, int64(len(ids)))
	}
	w, _ := tensor.FromSlice(ids, int64(len(ids)), 1)
	w.SetLoD([][]int64{lod})
	return map[string]*tensor.Tensor{"words": w, "age": random(seed, int64(sequences), 1)}
}

// same compares two tensors bit for bit.
func same(a, b *tensor.Tensor) bool {
	return a.DType() == b.DType() && slices.Equal(a.Dims(), b.Dims()) && slices.EqualFunc(a.LoD(), b.LoD(), slices.Equal[[]int64]) &&
		string(tensor.AppendStream(nil, a)) == string(tensor.AppendStream(nil, b))
}

// oracle returns what runs an inference program on a batch as it is.
func oracle(t testing.TB, p *program.Program, dir string) func(inputs map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	t.Helper()
	scope, err := export.LoadParams(dir, p, p)
	if err != nil {
		t.Fatal(err)
	}
	exe := executor.New(executor.WithScope(scope))
	t.Cleanup(func() { exe.Close() })
	return func(inputs map[string]*tensor.Tensor) map[string]*tensor.Tensor {
		values, err := exe.Run(t.Context(), p, inputs)
		if err != nil {
			t.Error(err)
			return nil
		}
		all := map[string]*tensor.Tensor{}
		for i, name := range p.Targets() {
			all[name] = values[i]
		}
		return all
	}
}
