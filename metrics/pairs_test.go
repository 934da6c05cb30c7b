package metrics_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// build makes a program of a field x, a class y, a label z of 0 or 1 as float, and a target t.
func build(t *testing.T, body func(x, y, z, target layers.Variable)) *program.Program {
	t.Helper()
	m := layers.NewModel()
	body(layers.Data(m, "x", layers.Dims(4)), layers.Data(m, "y", layers.Dims(1), layers.DType(tensor.Int64)), layers.Data(m, "z", layers.Dims(1)),
		layers.Data(m, "t", layers.Dims(1)))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A metric without variables takes those of the only loss that fits. Where none or several fit, the error names them.
func TestFill(t *testing.T) {
	softmax := func(name string, classes int64) func(x, y layers.Variable) {
		return func(x, y layers.Variable) {
			layers.Mean(layers.CrossEntropy(layers.FC(x, classes, layers.Act("softmax"), layers.Name(name)), y))
		}
	}
	for _, c := range []struct {
		name  string
		body  func(x, y, z, target layers.Variable)
		fills map[string]string // metric: PREDICTION,LABEL, or what the error says
	}{
		{"two classes", func(x, y, _, _ layers.Variable) { softmax("p", 2)(x, y) },
			map[string]string{"auc": "p,y", "accuracy": "p,y", "log_loss": "p,y", "f1": "p,y", "mae": "no loss in the program"}},
		{"ten classes", func(x, y, _, _ layers.Variable) { softmax("p", 10)(x, y) }, map[string]string{"auc": "no loss", "top-3": "p,y", "recall": "no loss"}},
		{"logits", func(x, _, z, _ layers.Variable) {
			logit := layers.FC(x, 1, layers.Name("logit"))
			layers.SigmoidCrossEntropyWithLogits(logit, z)
		}, map[string]string{"auc": "logit,z", "log_loss": "no loss"}},
		{"logits and probability", func(x, _, z, _ layers.Variable) {
			logit := layers.FC(x, 1, layers.Name("logit"))
			layers.Sigmoid(logit, layers.Name("p"))
			layers.SigmoidCrossEntropyWithLogits(logit, z)
		}, map[string]string{"auc": "p,z", "log_loss": "p,z", "calibration": "p,z", "rmse": "no loss"}},
		{"a class as a number", func(x, y, _, _ layers.Variable) {
			logit := layers.FC(x, 1)
			layers.AUC(layers.Sigmoid(logit, layers.Name("p")), y)
			layers.SigmoidCrossEntropyWithLogits(logit, layers.Cast(y, tensor.Float32))
		}, map[string]string{"auc": "p,y", "log_loss": "p,y"}},
		{"regression", func(x, _, _, target layers.Variable) {
			layers.Mean(layers.SquareErrorCost(layers.FC(x, 1, layers.Name("price")), target))
		}, map[string]string{"rmse": "price,t", "r2": "price,t", "auc": "no loss"}},
		{"two losses", func(x, y, _, _ layers.Variable) { softmax("p", 2)(x, y); softmax("q", 2)(x, y) }, map[string]string{"auc": "p,y; q,y"}},
	} {
		p := build(t, c.body)
		for kind, want := range c.fills {
			got, err := metrics.Spec{Kind: kind}.Fill(p)
			if err != nil && strings.Contains(err.Error(), want) {
				continue
			}
			if err != nil || got.Prediction+","+got.Label != want {
				t.Errorf("%s: %s of %q,%q, %v; want %s", c.name, kind, got.Prediction, got.Label, err, want)
			}
		}
	}
	p := build(t, func(x, y, _, _ layers.Variable) { softmax("p", 2)(x, y) })
	if _, err := (metrics.Spec{Kind: "auc", Prediction: "p", Label: "yy"}).Fill(p); err == nil || !strings.Contains(err.Error(), `did you mean "y"`) {
		t.Errorf("a label that is not there: %v", err)
	}
	if _, err := (metrics.Spec{Kind: "auc", Prediction: "y", Label: "p"}).Fill(p); err == nil || !strings.Contains(err.Error(), `variable "y": type mismatch: got a prediction of int64`) {
		t.Errorf("a label in the place of the prediction: %v", err)
	}
}
