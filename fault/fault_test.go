package fault

import "testing"

func TestAPlaceLiesInALargerOne(t *testing.T) {
	for _, c := range []struct{ where, want string }{{"", "file"}, {"line 3", "file, line 3"}} {
		f := E(Corrupt, At(c.where), Got("a comma"))
		in := f.In("file", ", ")
		if in.Where != c.want || in.Kind != Corrupt || in.Got != "a comma" {
			t.Errorf("a fault of %q becomes %+v, want one of %q", c.where, in, c.want)
		}
		if f.Where != c.where {
			t.Errorf("the fault itself becomes one of %q", f.Where)
		}
	}
}

func TestClosest(t *testing.T) {
	names := []string{"x", "fc_0.w_0", "fc_0.b_0", "learning_rate_0"}
	for name, want := range map[string]string{"fc_0.w0": "fc_0.w_0", "learning_rate": "learning_rate_0", "": "", "accuracy": "",
		"fc_0.b_0": "fc_0.b_0"} {
		if got := Closest(name, names); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
