package pages

import "testing"

// Memory begins with zeros, belongs to its user until it is closed, and what is before and behind a released part stays.
func TestArea(t *testing.T) {
	for _, large := range []bool{false, true} {
		for _, bytes := range []int{0, 1, 5 << 20} {
			a, err := New(bytes, large)
			if err != nil {
				t.Fatal(err)
			}
			b := a.Bytes()
			if large {
				a.Populate()
			}
			if len(b) != bytes {
				t.Fatalf("%d bytes, want %d", len(b), bytes)
			}
			for i := range b {
				if b[i] != 0 {
					t.Fatalf("byte %d of new memory is %d", i, b[i])
				}
				b[i] = 7
			}
			from, to := bytes/3, bytes/3*2
			a.Release(from, to)
			for i := range b {
				if b[i] != 7 && (i < from || i >= to || b[i] != 0) {
					t.Fatalf("byte %d of %d is %d after [%d, %d) was released", i, bytes, b[i], from, to)
				}
			}
			a.Close()
			a.Close()
		}
	}
	if _, err := New(-1, false); err == nil {
		t.Error("an area of less than no bytes")
	}
}
