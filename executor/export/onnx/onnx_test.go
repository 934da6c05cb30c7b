package onnx_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/executor/export/onnx"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	format "github.com/edl-go/edl/proto/onnx"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/protobuf/proto"
)

// runtimeEnv names a folder in whose node_modules onnxruntime-node is (make onnx). Without it models are compared with their own reading.
const runtimeEnv = "EDL_ONNXRUNTIME"

// A subject is a network and what it is fed.
type subject struct {
	build func(m *layers.Model) []layers.Variable
	feed  executor.Feed
}

func floats(t testing.TB, seed uint32, dims ...int64) *tensor.Tensor {
	t.Helper()
	v, err := tensor.New(tensor.Float32, dims...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.Float32s() {
		seed = seed*1664525 + 1013904223
		v.Float32s()[i] = float32(seed>>8)/(1<<22) - 2
	}
	return v
}

func numbers(t testing.TB, list []int64, dims ...int64) *tensor.Tensor {
	t.Helper()
	v, err := tensor.FromSlice(list, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// subjects have every op that has a counterpart at least once, with attributes that are not the defaults of the other side.
func subjects(t testing.TB) map[string]subject {
	return map[string]subject{
		"images": {func(m *layers.Model) []layers.Variable {
			x := layers.Data(m, "image", layers.Dims(3, 12, 10))
			a := layers.BatchNorm(layers.Conv2D(x, 6, 3, layers.Padding(1, 0), layers.Stride(2, 1)), layers.Act("relu"))
			b := layers.Relu6(layers.Conv2D(a, 6, 3, layers.Groups(3), layers.PaddingSides(1, 0, 2, 1)))
			c := layers.HardSwish(layers.Conv2D(b, 4, 3, layers.Dilation(1, 2), layers.NoBias()))
			d := layers.LeakyRelu(layers.Conv2DTranspose(c, 5, 3, layers.Stride(2, 2)), 0.2)
			big := layers.Pool2D(d, 3, layers.Stride(2, 2), layers.Padding(1, 1))
			mean := layers.Pool2D(d, 3, layers.AvgPool(), layers.Stride(2, 2), layers.Padding(1, 1))
			both := layers.Concat([]layers.Variable{big, mean, layers.Pad2D(big, 0, 0, 0, 0)}, 1)
			up := layers.ResizeBilinear(layers.ResizeNearest(both, 9, 14, layers.AlignCorners(false)), 13, 7, layers.AlignCorners(false), layers.AlignCentres())
			up = layers.ResizeBilinear(up, 5, 9)
			up = layers.Pool2D(up, 1, layers.AvgPool(), layers.GlobalPooling())
			flat := layers.Dropout(layers.FC(layers.Concat([]layers.Variable{layers.Flatten(up), layers.Flatten(both)}, 1), 7, layers.Act("tanh")), 0.4)
			return []layers.Variable{layers.Softmax(layers.FC(flat, 4)), layers.ArgMax(flat, 1)}
		}, executor.Feed{"image": floats(t, 3, 5, 3, 12, 10)}},
		"clicks": {func(m *layers.Model) []layers.Variable {
			ids := layers.Data(m, "ids", layers.Dims(3, 1), layers.DType(tensor.Int64))
			dense := layers.Data(m, "dense", layers.Dims(4))
			rows := layers.Embedding(ids, 20, 6, layers.PaddingIndex(0))
			sum := layers.ReduceSum(rows, layers.Axes(1))
			pairs := layers.Scale(layers.Sub(layers.Square(sum), layers.ReduceSum(layers.Square(rows), layers.Axes(1))), 0.5, 0)
			deep := layers.FCs([]layers.Variable{rows, layers.Log(layers.Scale(layers.Abs(dense), 1, 1))}, 5, layers.Act("sigmoid"))
			first := layers.ReduceMean(layers.Embedding(ids, 20, 1), layers.Axes(1, 2), layers.KeepDims())
			logit := layers.Add(layers.ReduceSum(pairs, layers.Axes(1), layers.KeepDims()), layers.FC(layers.Concat([]layers.Variable{deep, layers.Clip(dense, -1, 1)}, 1), 1))
			return []layers.Variable{layers.Sigmoid(layers.Add(logit, layers.Reshape(first, []int64{-1, 1}))), layers.Mean(deep)}
		}, executor.Feed{"ids": numbers(t, []int64{0, 3, 19, 7, 0, 0}, 2, 3, 1), "dense": floats(t, 5, 2, 4)}},
		"attention": {func(m *layers.Model) []layers.Variable {
			x := layers.Data(m, "x", layers.Dims(4, 8))
			h := layers.LayerNorm(layers.FC(x, 12, layers.NumFlattenDims(2)), layers.BeginNormAxis(2))
			parts := layers.Split(h, 3, 2)
			heads := func(v layers.Variable) layers.Variable {
				return layers.Transpose(layers.Reshape(v, []int64{0, 0, 2, 2}), []int{0, 2, 1, 3})
			}
			scores := layers.Softmax(layers.Scale(layers.MatMul(heads(parts[0]), heads(parts[1]), layers.TransposeY()), 0.7, 0.1))
			mixed := layers.Reshape(layers.Transpose(layers.MatMul(scores, heads(parts[2])), []int{0, 2, 1, 3}), []int64{0, 0, 4})
			both := layers.Stack([]layers.Variable{layers.Gelu(mixed), layers.GeluTanh(mixed), layers.Swish(mixed, 1.5)}, 1)
			cut := layers.Slice(both, []int{1, 2}, []int64{1, -3}, []int64{3, 100})
			wide := layers.Tile(layers.Unsqueeze(layers.Squeeze(layers.Slice(cut, []int{1}, []int64{0}, []int64{1}), layers.Axes(1)), []int{1}), []int{1, 2, 1, 1})
			best, places := layers.TopK(layers.ReduceMax(wide, layers.Axes(1)), 2)
			return []layers.Variable{layers.LogSoftmax(best), layers.Cast(places, tensor.Float32), layers.Elu(layers.Softplus(layers.HardSigmoid(cut, 0.3, 0.4)), 0.5)}
		}, executor.Feed{"x": floats(t, 9, 3, 4, 8)}},
	}
}

// built is a subject as an inference program, with parameters.
func (s subject) built(t testing.TB) (*program.Program, func(string) (*tensor.Tensor, error)) {
	t.Helper()
	m := layers.NewModel().Seed(5)
	targets := s.build(m)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	exe := executor.New()
	t.Cleanup(func() { exe.Close() })
	if _, err := exe.Run(t.Context(), p, s.feed, layers.Names(targets...)...); err != nil { // which gives the parameters their first values
		t.Fatal(err)
	}
	inference, err := export.Program(p, nil, layers.Names(targets...))
	if err != nil {
		t.Fatal(err)
	}
	return inference, func(name string) (*tensor.Tensor, error) {
		v, ok := exe.Scope().Find(name)
		if !ok {
			return nil, fault.E(fault.NotFound, fault.Var(name))
		}
		return v, nil
	}
}

// predict runs an inference program.
func predict(t testing.TB, p *program.Program, value func(string) (*tensor.Tensor, error), feed executor.Feed) []*tensor.Tensor {
	t.Helper()
	scope := executor.NewScope()
	for _, name := range executor.Persistables(p) {
		v, err := value(name)
		if err != nil {
			t.Fatal(err)
		}
		scope.Set(name, v)
	}
	exe := executor.New(executor.WithScope(scope))
	defer exe.Close()
	out, err := exe.Run(t.Context(), p, feed, p.Targets()...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func near(t *testing.T, who, name string, want *tensor.Tensor, dims []int64, got []float64) {
	t.Helper()
	if !slices.Equal(want.Dims(), dims) {
		t.Errorf("%s: %s has dims %v, want %v", who, name, dims, want.Dims())
		return
	}
	for i, g := range got {
		w := 0.0
		if want.DType() == tensor.Int64 {
			w = float64(want.Int64s()[i])
		} else {
			w = float64(want.Float32s()[i])
		}
		if math.Abs(g-w) > 2e-5*max(1, math.Abs(w)) {
			t.Errorf("%s: element %d of %s is %v, want %v", who, i, name, g, w)
			return
		}
	}
}

// A model that is written predicts what the program predicts: read again, and by ONNX Runtime.
func TestModelsPredictTheSame(t *testing.T) {
	for name, s := range subjects(t) {
		t.Run(name, func(t *testing.T) {
			p, value := s.built(t)
			want := predict(t, p, value, s.feed)
			var file bytes.Buffer
			if err := onnx.Write(&file, p, value); err != nil {
				t.Fatal(err)
			}
			again, err := onnx.Read(file.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if got, want := again.Program.Feeds(), p.Feeds(); !slices.Equal(got, want) {
				t.Errorf("fed %v, want %v", got, want)
			}
			got := predict(t, again.Program, func(name string) (*tensor.Tensor, error) { return again.Values[name], nil }, s.feed)
			for i, target := range p.Targets() {
				near(t, "read again", target, want[i], got[i].Dims(), elements(got[i]))
			}
			if folder := os.Getenv(runtimeEnv); folder != "" {
				path := filepath.Join(t.TempDir(), "model.onnx")
				if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
				for target, v := range byRuntime(t, folder, path, s.feed) {
					i := slices.Index(p.Targets(), target)
					if i < 0 {
						t.Errorf("ONNX Runtime computes %s, want %v", target, p.Targets())
						continue
					}
					near(t, "ONNX Runtime", target, want[i], v.Dims, v.Data)
				}
			}
		})
	}
}

func elements(v *tensor.Tensor) []float64 {
	var all []float64
	if v.DType() == tensor.Int64 {
		for _, x := range v.Int64s() {
			all = append(all, float64(x))
		}
		return all
	}
	for _, x := range v.Float32s() {
		all = append(all, float64(x))
	}
	return all
}

// A value is one of a request to run.js, or of its answer.
type value struct {
	Type string    `json:"type"`
	Dims []int64   `json:"dims"`
	Data []float64 `json:"data"`
}

func byRuntime(t *testing.T, folder, model string, feed executor.Feed) map[string]value {
	t.Helper()
	script, err := filepath.Abs("testdata/run.js")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]value{}
	for name, v := range feed {
		values[name] = value{v.DType().String(), v.Dims(), elements(v)}
	}
	request, err := json.Marshal(map[string]any{"model": model, "feed": values})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", script)
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(folder, "node_modules"))
	cmd.Stdin = bytes.NewReader(request)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	answer := map[string]value{}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// A transformer that PyTorch 1.13 has traced, whose batch is open, predicts what it predicted there. Its reshapes take extents that the model computes.
func TestTracedModel(t *testing.T) {
	file, err := os.ReadFile("testdata/traced.onnx")
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("testdata/traced.json")
	if err != nil {
		t.Fatal(err)
	}
	var wanted struct {
		X []int64   `json:"x"`
		Y []float64 `json:"y"`
	}
	if err := json.Unmarshal(b, &wanted); err != nil {
		t.Fatal(err)
	}
	got := predict(t, m.Program, func(name string) (*tensor.Tensor, error) { return m.Values[name], nil }, executor.Feed{"x": numbers(t, wanted.X, 3, 7)})
	for i, want := range wanted.Y {
		if g := float64(got[0].Float32s()[i]); math.Abs(g-want) > 1e-5 {
			t.Fatalf("element %d is %v, want %v", i, g, want)
		}
	}
}

// Ops without a counterpart are named, all at once, and nothing is written.
func TestOpsWithoutACounterpartAreNamed(t *testing.T) {
	s := subject{func(m *layers.Model) []layers.Variable {
		x := layers.Data(m, "x", layers.Dims(4))
		return []layers.Variable{layers.Expm1(layers.Maxout(layers.Reshape(layers.Expm1(x), []int64{-1, 4, 1, 1}), 2))}
	}, executor.Feed{"x": floats(t, 3, 2, 4)}}
	p, values := s.built(t)
	var file bytes.Buffer
	err := onnx.Write(&file, p, values)
	if !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "2 expm1") || !strings.Contains(err.Error(), "1 maxout") || file.Len() > 0 {
		t.Errorf("%v, and %d bytes", err, file.Len())
	}
}

// A list of extents that is joined with itself again and again, so that a small file would take all memory, is an error.
func TestExtentsDoNotGrow(t *testing.T) {
	name := func(i int) string { return fmt.Sprint("list", i) }
	extent := &format.TensorShapeProto_Dimension{Value: &format.TensorShapeProto_Dimension_DimValue{DimValue: 4}}
	float := &format.TypeProto_Tensor{ElemType: int32(format.TensorProto_FLOAT), Shape: &format.TensorShapeProto{Dim: []*format.TensorShapeProto_Dimension{extent, extent}}}
	kind := &format.TypeProto{Value: &format.TypeProto_TensorType{TensorType: float}}
	g := &format.GraphProto{Input: []*format.ValueInfoProto{{Name: "x", Type: kind}}, Output: []*format.ValueInfoProto{{Name: "y", Type: kind}}}
	g.Node = append(g.Node, &format.NodeProto{OpType: "Shape", Input: []string{"x"}, Output: []string{name(0)}})
	for i := range 50 {
		g.Node = append(g.Node, &format.NodeProto{OpType: "Concat", Input: []string{name(i), name(i)}, Output: []string{name(i + 1)},
			Attribute: []*format.AttributeProto{{Name: "axis", Type: format.AttributeProto_INT, I: 0}}})
	}
	g.Node = append(g.Node, &format.NodeProto{OpType: "Relu", Input: []string{"x"}, Output: []string{"y"}})
	file, err := proto.Marshal(&format.ModelProto{IrVersion: 8, OpsetImport: []*format.OperatorSetIdProto{{Version: 17}}, Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := onnx.Read(file); err == nil || !strings.Contains(err.Error(), "Concat") {
		t.Errorf("got %v, want an error that names the node", err)
	}
}

// Whatever a file holds, reading it gives a model or an error.
func FuzzRead(f *testing.F) {
	for _, s := range subjects(f) {
		p, value := s.built(f)
		var file bytes.Buffer
		if err := onnx.Write(&file, p, value); err != nil {
			f.Fatal(err)
		}
		f.Add(file.Bytes())
		f.Add(file.Bytes()[:file.Len()/2])
	}
	traced, err := os.ReadFile("testdata/traced.onnx")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(traced)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		m, err := onnx.Read(file)
		if err != nil {
			return
		}
		if err := ops.Verify(m.Program, program.StageInference); err != nil {
			t.Errorf("a model that Verify refuses: %v", err)
		}
	})
}
