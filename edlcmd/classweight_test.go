package edlcmd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// classes is a model of three classes. weights are those of the classes, in the program itself; nil: none.
func classes(t *testing.T, weights []float64) *program.Program {
	t.Helper()
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(2)), layers.Field("y", layers.Dims(1), layers.DType(tensor.Int64)))
	batch := layers.Read(layers.Batch(r, 4))
	cost := layers.CrossEntropy(layers.FC(batch[0], 3, layers.Act("softmax"), layers.Name("prediction")), batch[1])
	if weights != nil {
		cost = layers.WeightRows(cost, layers.ClassWeights(batch[1], weights))
	}
	loss := layers.Mean(cost, layers.Name("loss"))
	optimizer.Momentum(0.1, 0.9).Minimize(loss)
	return testkit.Built(t, m, loss).Program
}

// --class-weight trains what a program does that weighs its rows itself, bit for bit.
func TestClassWeights(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	data := testkit.Records(t, path("data"), 30, func(i int) []*tensor.Tensor {
		x := testkit.Random(t, tensor.Float32, uint64(i), 2)
		y, err := tensor.FromSlice([]int64{int64(i % 3)}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return []*tensor.Tensor{x, y}
	})
	var globs []string
	for _, g := range data {
		globs = g
	}
	for name, p := range map[string]*program.Program{"plain.pb": classes(t, nil), "weighted.pb": classes(t, []float64{1, 5, 0.25})} {
		if err := p.Save(path(name)); err != nil {
			t.Fatal(err)
		}
	}
	edl := func(want int, says string, args ...string) {
		t.Helper()
		var out, diagnostics bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(""), &out, &diagnostics); code != want || !strings.Contains(diagnostics.String(), says) {
			t.Fatalf("edl %s ended with %d: %s", strings.Join(args, " "), code, diagnostics.String())
		}
	}
	train := func(want int, says, file, save string, args ...string) {
		t.Helper()
		edl(want, says, append([]string{"run", path(file), "--data", "train=" + globs[0], "--passes", "3", "--save", path(save)}, args...)...)
	}
	train(0, "", "weighted.pb", "itself")
	train(0, "", "plain.pb", "flag", "--class-weight", "1=5,2=0.25")
	train(0, "", "plain.pb", "none")
	read := func(save string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(path(save), "prediction.w_0"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if !bytes.Equal(read("itself"), read("flag")) || bytes.Equal(read("none"), read("flag")) {
		t.Error("the flag trains something else than the program that weighs its rows")
	}
	for file, args := range map[string][]string{"weighted.pb": nil, "plain.pb": {"--class-weight", "1=5,2=0.25"}} { // on a cluster, too
		cluster := exec.CommandContext(t.Context(), edlFile(t), append([]string{"run", path(file), "--data", "train=" + globs[0], "--passes", "3", "--save", path("cluster of " + file), "--remote", "--trainers", "2", "--pservers", "2"}, args...)...)
		if out, err := cluster.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v, %s", file, err, out)
		}
	}
	if !bytes.Equal(read("cluster of weighted.pb"), read("cluster of plain.pb")) || bytes.Equal(read("none"), read("cluster of plain.pb")) {
		t.Error("on a cluster the flag trains something else than the program that weighs its rows")
	}
	for value, says := range map[string]string{"1": "want CLASS=WEIGHT", "one=2": "want CLASS=WEIGHT", "1=-2": "want a weight from 0 to 1e+30", "1=1e31": "want a weight from 0 to 1e+30", "1=1e99": "want a weight from 0 to 1e+30", "1=NaN": "want a weight from 0",
		"-1=2": "want a class from 0 to 65535", "99999999999999999999=2": "want a class from 0 to 65535", "1=2,1=3": "want one weight for each class", "7=2": "classes of the program, 0 to 2"} {
		train(2, says, "plain.pb", "wrong", "--class-weight", value)
	}
	if err := testkit.Reading(t, 4, optimizer.SGD(0.1)).Program.Save(path("numbers.pb")); err != nil {
		t.Fatal(err)
	}
	train(2, "--class-weight", "numbers.pb", "wrong", "--class-weight", "1=2")
}
