package sequence_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// What torch.nn.LSTM(3, 2) of PyTorch 1.13 computes in float64 for three sequences of 3, 1 and 2 rows, and the gradients of
// the sum of its outputs weighted by formula(5). Its weights, with gates in the order input, forget, candidate, output, are formula(1) [8, 3] and
// formula(2) [8, 2], its first bias is formula(3) and its second one 0; sequence i is formula(10+i).
var (
	torchHidden = []float64{0.0473852311637, -0.14654880307, 0.0596430008792, -0.181386041635, 0.111524963768, -0.136174575698,
		0.0493774709567, -0.135552503598,
		0.0925085050775, -0.0585349269216, 0.124740087001, -0.0642760412138}
	torchInputGrad = []float64{0.0122082631141, 0.0535750777275, -0.0262908987773, 0.00241164179951, -0.0220974609282, 0.0213583440829, 0.00141588569726,
		-0.0327801230953, 0.0221599605735, -0.0110228068132, -0.0395270376756, 0.0139092292109, 0.013407391589, 0.0419529220738, -0.0180944403503,
		0.00434993871543,
		0.00129264814375, 0.00757300122303}
	torchWeightGrad = []float64{-0.00298997138468, 0.00613227251873, -0.000113362265477, 9.42634211722e-05, -0.00120570966037,
		0.00230342520472, 0.000106678080296,
		-0.000554789283642, -0.0133878306649, 0.0309477119773, 0.000982828669555, 0.00175749536736, -0.0038294440802, 0.00738883503222, -0.000273901134832,
		0.000390211086528}
	torchBiasGrad = []float64{-0.0468966783589, -0.016124821229, -0.0177595740456, 0.00187777885332, -0.200059063841, 0.114332203627,
		-0.0465952835826, -0.0164599142502}
)

func formula(seed, n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = float64((i*37+seed*11)%101)/101 - 0.5
	}
	return values
}

const (
	torchInputs = 3
	torchWidth  = 2
)

// fluidColumn returns which column of Fluid's weights a row of PyTorch's is.
func fluidColumn(torchRow int) int {
	gate := []int{1, 2, 0, 3}[torchRow/torchWidth]
	return gate*torchWidth + torchRow%torchWidth
}

func TestLSTMIsThatOfPyTorch(t *testing.T) {
	var x []float64
	lengths := []int64{3, 1, 2}
	for i, n := range lengths {
		x = append(x, formula(10+i, int(n)*torchInputs)...)
	}
	const gates = 4 * torchWidth
	rows := len(x) / torchInputs
	ofInput, ofHidden, ofBias := formula(1, gates*torchInputs), formula(2, gates*torchWidth), formula(3, gates)
	projected, weight, bias := make([]float64, rows*gates), make([]float64, torchWidth*gates), make([]float64, gates)
	for j := range gates {
		column := fluidColumn(j)
		bias[column] = ofBias[j]
		for k := range torchWidth {
			weight[k*gates+column] = ofHidden[j*torchWidth+k]
		}
		for r := range rows {
			for k := range torchInputs {
				projected[r*gates+column] += x[r*torchInputs+k] * ofInput[j*torchInputs+k]
			}
		}
	}
	op := &program.Op{Type: "lstm", Attrs: attrs{"use_peepholes": false},
		Inputs:  map[string][]string{"Input": {"x"}, "Weight": {"w"}, "Bias": {"b"}},
		Outputs: map[string][]string{"Hidden": {"h"}, "Cell": {"c"}, "BatchGate": {"g"}, "BatchCellPreAct": {"a"}}}
	m := gradcheck.NewInterpreter(map[string]*tensor.Tensor{
		"x": gradcheck.Sequences(gradcheck.Floats(dims{int64(rows), gates}, projected...), lengths...),
		"w": gradcheck.Floats(dims{torchWidth, gates}, weight...), "b": gradcheck.Floats(dims{1, gates}, bias...),
		"h@GRAD": gradcheck.Floats(dims{int64(rows), torchWidth}, formula(5, rows*torchWidth)...),
	}, ops.Step{})
	if err := m.Run(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	def, _ := ops.Lookup("lstm")
	backward, err := def.Gradient(ops.NewGrad(op, def, func(name string) bool { return name == "h" }, func(string) bool { return true }))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(t.Context(), backward...); err != nil {
		t.Fatal(err)
	}
	compare(t, "Hidden", m.Vars["h"].Float64s(), torchHidden)
	dprojected, dweight, dbias := m.Vars["x@GRAD"].Float64s(), make([]float64, gates*torchWidth), make([]float64, gates)
	dx := make([]float64, len(x))
	for j := range gates {
		column := fluidColumn(j)
		dbias[j] = m.Vars["b@GRAD"].Float64s()[column]
		for k := range torchWidth {
			dweight[j*torchWidth+k] = m.Vars["w@GRAD"].Float64s()[k*gates+column]
		}
		for r := range rows {
			for k := range torchInputs {
				dx[r*torchInputs+k] += dprojected[r*gates+column] * ofInput[j*torchInputs+k]
			}
		}
	}
	compare(t, "the gradient of the inputs", dx, torchInputGrad)
	compare(t, "the gradient of Weight", dweight, torchWeightGrad)
	compare(t, "the gradient of Bias", dbias, torchBiasGrad)
}

func compare(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-11 {
			t.Errorf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}
