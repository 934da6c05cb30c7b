package edlcmd

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/tensor"
)

// testdata returns a path below the folder of real datasets and models, or skips the test.
func testdata(t *testing.T, elements ...string) string {
	t.Helper()
	root := os.Getenv("EDL_TESTDATA")
	if root == "" {
		t.Skip("EDL_TESTDATA is not set: no models that were saved by Fluid")
	}
	return filepath.Join(append([]string{root}, elements...)...)
}

// fetchedBy runs edl with --output json and returns the one variable that it fetches.
func fetchedBy(t *testing.T, args ...string) []float64 {
	t.Helper()
	var out, diagnostics bytes.Buffer
	if code := run(t.Context(), append(args, "--output", "json"), strings.NewReader(""), &out, &diagnostics); code != 0 {
		t.Fatalf("edl %s ended with %d: %s", strings.Join(args, " "), code, diagnostics.String())
	}
	var event struct {
		Event string
		Data  []float64
	}
	if err := json.Unmarshal(out.Bytes(), &event); err != nil || event.Event != "fetch" {
		t.Fatalf("edl printed %s: %v", out.String(), err)
	}
	return event.Data
}

func near(t *testing.T, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > tolerance {
			t.Errorf("element %d is %.9f, want %.9f", i, got[i], want[i])
		}
	}
}

func writeFeed(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeArray writes a .npy file of an element type as NumPy does.
func writeArray(t *testing.T, path, element string, dims []int64, data any) {
	t.Helper()
	shape := strings.ReplaceAll(strings.Trim(fmt.Sprint(dims), "[]"), " ", ", ")
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", element, shape)
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	file := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), 0)
	file, err := binary.Append(append(file, header...), binary.LittleEndian, data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file, 0o666); err != nil {
		t.Fatal(err)
	}
}

// mnist returns the 10,000 test images of MNIST, as the network of dims wants them, and their labels.
func mnist(t *testing.T, dims ...int64) (images *tensor.Tensor, labels []int64) {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.Open(testdata(t, "mnist", name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	var pixels []float32
	collect := recordFunc(func(record []byte) error {
		tensors, err := dataset.DecodeRecord(record)
		if err != nil {
			return err
		}
		pixels = append(pixels, tensors[0].Float32s()...)
		labels = append(labels, tensors[1].Int64s()[0])
		return nil
	})
	_, err := convert.MNIST(t.Context(), open("t10k-images-idx3-ubyte.gz"), open("t10k-labels-idx1-ubyte.gz"), collect, convert.MNISTOptions{Dims: dims})
	if err != nil {
		t.Fatal(err)
	}
	images, err = tensor.FromSlice(pixels, append([]int64{int64(len(labels))}, dims...)...)
	if err != nil {
		t.Fatal(err)
	}
	return images, labels
}

type recordFunc func([]byte) error

func (f recordFunc) Write(record []byte) error { return f(record) }

// classify returns what a saved model says of images when edl runs it, and the share of labels that it gets right.
func classify(t *testing.T, model string, images *tensor.Tensor, labels []int64) (scores []float64, accuracy float64) {
	t.Helper()
	const batch, classes = 1000, 10
	path := filepath.Join(t.TempDir(), "images.npy")
	right := 0
	for from := 0; from < len(labels); from += batch {
		rows, err := images.Rows(int64(from), int64(min(from+batch, len(labels))))
		if err != nil {
			t.Fatal(err)
		}
		writeArray(t, path, "<f4", rows.Dims(), rows.Float32s())
		scores = append(scores, fetchedBy(t, "run", model, "--feed", path, "--workers", "2")...)
	}
	for i, label := range labels {
		row := scores[i*classes : (i+1)*classes]
		best := 0
		for c, score := range row {
			if score > row[best] {
				best = c
			}
		}
		if int64(best) == label {
			right++
		}
	}
	return scores, float64(right) / float64(len(labels))
}

func TestPerceptronOf2018TellsDigits(t *testing.T) {
	model := testdata(t, "models", "mnist_mlp_2018")
	images, labels := mnist(t, mlpDims(t, model)...)
	scores, accuracy := classify(t, model, images, labels)
	if accuracy != 0.6084 {
		t.Errorf("accuracy %.4f, want 0.6084", accuracy)
	}
	near(t, scores[:10], []float64{0.00736, 0.02525, 0.02408, 0.04131, 0.02078, 0.02103, 0.01891, 0.47369, 0.07213, 0.29547}, 1e-5)
}

func TestConvolutionsTellDigits(t *testing.T) {
	model := testdata(t, "models", "mnist_conv")
	if testing.Short() {
		t.Skip("10,000 images take a while")
	}
	images, labels := mnist(t, 1, 28, 28)
	if _, accuracy := classify(t, model, images, labels); accuracy != 0.9862 {
		t.Errorf("accuracy %.4f, want 0.9862", accuracy)
	}
}

// mlpDims returns the dims of one record of a model's only feed.
func mlpDims(t *testing.T, model string) []int64 {
	t.Helper()
	p, _, err := loadProgram(model)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := p.Global().Var(p.Feeds()[0])
	return v.Dims[1:]
}

// oneHouse is the input whose price the authors of the uci_housing model published.
const oneHouse = "0.0137,-0.1136,0.2553,-0.0692,0.0582,-0.0727,-0.1583,-0.0584,0.6283,0.4919,0.1856,0.0795,-0.0332\n"

func TestHousingModelGivesThePublishedPrice(t *testing.T) {
	model := testdata(t, "models", "uci_housing")
	near(t, fetchedBy(t, "run", model, "--feed", "x="+writeFeed(t, "x.csv", oneHouse)), []float64{18.901151657104492}, 4e-6)
}

// The line of 2018 is computed once more here, from its 13 weights.
func TestLineOf2018(t *testing.T) {
	model := testdata(t, "models", "fit_a_line_2018")
	p, _, err := loadProgram(model)
	if err != nil {
		t.Fatal(err)
	}
	scope := executor.NewScope()
	if err := executor.LoadParams(scope, model, p); err != nil {
		t.Fatal(err)
	}
	w, _ := scope.Find("fc_0.w_0")
	b, _ := scope.Find("fc_0.b_0")
	want := float64(b.Float32s()[0])
	for i, weight := range w.Float32s() {
		want += float64(weight) * float64(i) / 4
	}
	house := "0,0.25,0.5,0.75,1,1.25,1.5,1.75,2,2.25,2.5,2.75,3\n"
	near(t, fetchedBy(t, "run", model, "--feed", writeFeed(t, "x.csv", house)), []float64{want}, 1e-5*math.Abs(want))
}

func TestPongPlayer(t *testing.T) {
	model := testdata(t, "models", "dqn_pong")
	state := make([]uint8, 4*84*84)
	for i := range state {
		state[i] = uint8(i)
	}
	path := filepath.Join(t.TempDir(), "state.npy")
	writeArray(t, path, "|u1", []int64{1, 4, 84, 84}, state)
	want := []float64{0.49592587, 0.51072258, 0.44459975, 0.60065556, 0.41136983, 0.58217990}
	near(t, fetchedBy(t, "run", model, "--feed", "state="+path), want, 1e-5)
}
