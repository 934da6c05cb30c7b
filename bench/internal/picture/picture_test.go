package picture

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestDraw(t *testing.T) {
	var panels []*Panel
	for _, title := range []string{"one", "two", "three"} {
		p := New(title, "x", "y")
		for _, dashed := range []bool{false, true} {
			if err := p.Add(title+" line", []Point{{X: 1, Y: 10}, {X: 100, Y: 20}}, dashed); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Add("nothing", nil, false); err != nil || p.Lines() != 2 {
			t.Errorf("%d lines, %v", p.Lines(), err)
		}
		panels = append(panels, p)
	}
	for _, columns := range []int{1, 2, 5} {
		file := filepath.Join(t.TempDir(), "picture.svg")
		if err := Draw(file, panels, columns); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"<svg", "three line"} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("%d columns: no %q", columns, want)
			}
		}
	}
	if err := Draw(filepath.Join(t.TempDir(), "picture.txt"), panels, 1); err == nil {
		t.Error("no error for a file of no known kind")
	}
}
