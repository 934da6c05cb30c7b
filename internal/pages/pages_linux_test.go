package pages

import (
	"os"
	"testing"
)

// What is released has gone to the system, but for the pages of which a part stays.
func TestReleaseGivesBack(t *testing.T) {
	a, err := New(3<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := a.Bytes()
	for i := range b {
		b[i] = 7
	}
	from, to, page := 1000, 3<<20-1000, os.Getpagesize()
	a.Release(from, to)
	for i := from + page; i < to-page; i++ {
		if b[i] != 0 {
			t.Fatalf("byte %d is still %d", i, b[i])
		}
	}
}

func TestMoreMemoryThanThereIs(t *testing.T) {
	if a, err := New(1<<62, true); err == nil {
		a.Close()
		t.Error("an area of 4 EiB")
	}
}
