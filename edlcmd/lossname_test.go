package edlcmd

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A run of a program with a scaled loss reports the loss that the user has written, in steps and in evaluations.
func TestLossWithoutItsScaleIsReported(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	data := testkit.Records(t, path("data"), 8, func(i int) []*tensor.Tensor {
		return []*tensor.Tensor{testkit.Random(t, tensor.Float32, uint64(i), 2)}
	})
	glob := "train=" + data["train"][0]
	printed := map[bool]string{}
	for _, scales := range []bool{false, true} {
		m := layers.NewModel().Seed(3)
		r := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(2)))
		batch := layers.Read(layers.Batch(r, 4))
		loss := layers.Mean(layers.FC(batch[0], 1), layers.Name("cost"))
		o := optimizer.SGD(0.125)
		if scales {
			o = optimizer.ScaleLoss(o, optimizer.LossScaling{Initial: 1024})
		}
		o.Minimize(loss)
		p := testkit.Built(t, m, loss).Program
		file := path(fmt.Sprint(scales))
		if err := p.Save(file); err != nil {
			t.Fatal(err)
		}
		var out, diagnostics bytes.Buffer
		if code := run(t.Context(), []string{"run", file, "--data", glob, "--eval-data", glob, "--every", "1"}, strings.NewReader(""), &out, &diagnostics); code != 0 {
			t.Fatalf("%d %s", code, diagnostics.String())
		}
		for line := range strings.Lines(out.String() + diagnostics.String()) {
			if strings.Contains(line, "loss") {
				printed[scales] += line
			}
		}
	}
	if printed[true] != printed[false] || strings.Count(printed[true], "loss") < 2 {
		t.Errorf("with a scale:\n%s\nwithout:\n%s", printed[true], printed[false])
	}
}

// Paddle writes the factors in either order, and other products are losses themselves.
func TestLossName(t *testing.T) {
	const backward = `
		fill_constant -> Out=loss@GRAD | shape=[1L] value=1.0f dtype=5 op_role=257
		`
	for lines, want := range map[string]string{
		"elementwise_mul X=cost Y=scale -> Out=loss | axis=-1 op_role=256" + backward + "check_finite_and_unscale X=g Scale=scale -> Out=g FoundInfinite=f | op_role=2":                        "cost",
		"elementwise_mul X=scale Y=cost -> Out=loss | axis=-1 op_role=256" + backward + "update_loss_scaling X=g FoundInfinite=f PrevLossScaling=scale -> Out=g LossScaling=scale | op_role=2": "cost",
		"elementwise_mul X=cost Y=weight -> Out=loss | axis=-1 op_role=256" + backward + "check_finite_and_unscale X=g Scale=scale -> Out=g FoundInfinite=f | op_role=2":                       "loss",
		"elementwise_mul X=cost Y=scale -> Out=loss | axis=-1 op_role=256":                                                                                        "loss",
		"elementwise_mul X=cost Y=scale -> Out=loss | axis=-1 op_role=256" + backward + "elementwise_div X=w@GRAD.cast_fp32 Y=scale -> Out=g | axis=-1 op_role=2": "cost",
		"elementwise_mul X=cost Y=scale -> Out=loss | axis=-1 op_role=256" + backward + "elementwise_div X=h@GRAD Y=scale -> Out=g | axis=-1 op_role=1":           "loss",
		"mean X=cost -> Out=y | op_role=0": "",
	} {
		p := program.New()
		if err := fluidtext.Append(p.Global(), lines); err != nil {
			t.Fatal(err)
		}
		if got := lossName(p); got != want {
			t.Errorf("%s: %q, want %q", lines, got, want)
		}
	}
}
