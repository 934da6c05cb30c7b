package metrics

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// A rule ends training with the evaluation that its words say.
func TestRules(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		rule   string
		kind   string
		values []float64
		ends   int // number of the evaluation; -1: none
	}{
		{"auc not better for 2", "auc", []float64{0.5, 0.6, 0.6, 0.7, 0.7, 0.65, 0.9}, 5},
		{"auc not better for 1", "auc", []float64{0.5, 0.6, 0.6}, 2},
		{"auc not better for 2", "auc", []float64{nan, nan, nan, 0.5}, 2},
		{"auc not better for 2", "auc", []float64{nan, 0.5, nan, 0.6, 0.7}, -1},
		{"loss not better for 2", "loss", []float64{3, 2, 2.5, 1, 1, 1}, 5},
		{"log_loss  not better for 1", "log_loss", []float64{3, 2, 2.5}, 2},
		{"calibration not better for 1", "calibration", []float64{0.5, 1.25, 0.9, 1.3}, 3},
		{"auc above 0.75", "auc", []float64{0.5, 0.75, nan, 0.8}, 3},
		{"loss below -1e-3", "loss", []float64{0, nan, -1}, 2},
	} {
		rule, err := ParseRule(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseRule(rule.String()); err != nil || again != rule {
			t.Errorf("%q is written %q", c.rule, rule)
		}
		var now Trend
		at := slices.IndexFunc(c.values, func(v float64) (ends bool) {
			now, ends = rule.Step(now, Result{Name: rule.Metric, Kind: c.kind, Value: v})
			return ends
		})
		if at != c.ends {
			t.Errorf("%q ends with evaluation %d of %v, want %d", c.rule, at, c.values, c.ends)
		}
	}
	for _, text := range []string{"", "auc", "auc better", "auc not better for", "auc not better for 0", "auc not better for x", "auc above", "auc above NaN", "auc above +Inf", "auc > 3"} {
		if _, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), `such as "auc not better for 3"`) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
