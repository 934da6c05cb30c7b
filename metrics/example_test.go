package metrics_test

import (
	"fmt"

	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/tensor"
)

// Two machines score two rows each. What they merge is the AUC of all four.
func ExampleMetric_Merge() {
	part := func(scores []float32, labels []int64) *metrics.Metric {
		m, err := metrics.New("auc")
		if err != nil {
			panic(err)
		}
		prediction, _ := tensor.FromSlice(scores, int64(len(scores)))
		label, _ := tensor.FromSlice(labels, int64(len(labels)))
		if err := m.Add(prediction, label, nil); err != nil {
			panic(err)
		}
		return m
	}
	all := part([]float32{0.9, 0.2}, []int64{1, 0})
	if err := all.Merge(part([]float32{0.4, 0.2}, []int64{0, 1})); err != nil {
		panic(err)
	}
	value, _, err := all.Value()
	fmt.Println(all.Rows(), "rows, AUC", value, err)
	// Output: 4 rows, AUC 0.625 <nil>
}

// A rule ends training when the metric has not been better for two evaluations.
func ExampleRule_Step() {
	rule, err := metrics.ParseRule("auc not better for 2")
	if err != nil {
		panic(err)
	}
	var now metrics.Trend
	for i, auc := range []float64{0.71, 0.74, 0.73, 0.74, 0.79} {
		var ends bool
		if now, ends = rule.Step(now, metrics.Result{Name: "auc", Kind: "auc", Value: auc}); ends {
			fmt.Println("ends after evaluation", i+1)
			return
		}
	}
	// Output: ends after evaluation 4
}
