package layers_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/layers"
)

func TestNamesAreFluids(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(4))
	layers.FC(layers.FC(x, 3, layers.Act("tanh")), 2, layers.Name("out"), layers.Bias(layers.ParamAttr{Name: "offset"}))
	want := []string{"x", "fc_0.w_0", "fc_0.tmp_0", "fc_0.b_0", "fc_0.tmp_1", "fc_0.tmp_2", "out.w_0", "out.tmp_0", "offset", "out"}
	if got := variableNames(finish(t, m).Global()); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestNamesAvoidThoseThatTheUserGave(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "fc_0.tmp_0", layers.Dims(4))
	y := layers.FC(x, 3, layers.NoBias())
	finish(t, m)
	if y.Name() == x.Name() || !y.OK() {
		t.Errorf("the result is called %s", y.Name())
	}
}
