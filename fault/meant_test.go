package fault

import "testing"

func TestClosest(t *testing.T) {
	names := []string{"x", "fc_0.w_0", "fc_0.b_0", "learning_rate_0"}
	for name, want := range map[string]string{"fc_0.w0": "fc_0.w_0", "learning_rate": "learning_rate_0", "": "", "accuracy": "",
		"fc_0.b_0": "fc_0.b_0"} {
		if got := closest(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
