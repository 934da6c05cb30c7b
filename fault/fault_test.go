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
