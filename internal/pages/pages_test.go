package pages

import (
	"os"
	"runtime"
	"testing"
)

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

// An area in a file has zeros first, keeps what is written, and leaves no name behind. One that has no room is refused.
func TestInFile(t *testing.T) {
	dir := t.TempDir()
	a, err := InFile(dir, 3<<20+5)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := a.Bytes()
	if len(b) != 3<<20+5 || b[0] != 0 || b[len(b)-1] != 0 {
		t.Fatalf("%d bytes, the first %d and the last %d", len(b), b[0], b[len(b)-1])
	}
	b[0], b[len(b)-1] = 1, 2
	if b := a.Bytes(); b[0] != 1 || b[len(b)-1] != 2 {
		t.Error("what was written is not there")
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("the folder has %v, %v", names, err)
	}
	if a, err := InFile(dir+"/none", 1); err == nil && runtime.GOOS == "linux" {
		a.Close()
		t.Error("a file in a folder that is not there")
	}
}
