package lineplot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A plot is well-formed XML with a panel for each quantity and a line for each curve, whatever the values and the names are.
func TestFile(t *testing.T) {
	var p Plot
	for i := range 50 {
		p.Add("loss", "train", uint64(i), 1/float64(i+1))
	}
	p.Add("loss", "eval", 20, 0.5)
	p.Add("a<b & c", "train", 0, math.NaN())
	p.Add("a<b & c", "train", 0, math.MaxFloat64)
	p.Add("a<b & c", "train", math.MaxUint64, -math.MaxFloat64)
	p.Add("constant", "train", 7, 0)
	path := filepath.Join(t.TempDir(), "loss.svg")
	for range 2 { // it replaces the older one
		if err := p.WriteFile(path); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(string(b))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := token.(xml.StartElement); ok {
			count[s.Name.Local]++
		}
	}
	if count["g"] != 3 || count["polyline"] != 4 || strings.Contains(string(b), "NaN") || strings.Contains(string(b), "Inf") {
		t.Errorf("%v in\n%s", count, b)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("%d files, want 1", len(entries))
	}
	if err := p.WriteFile(filepath.Join(path, "below")); err == nil {
		t.Error("a file serves as folder")
	}
}

// A curve of many values keeps bounded memory, and its points are means of neighbours.
func TestManyValues(t *testing.T) {
	c := &curve{stride: 1}
	const values = 10 * maxPoints
	for i := range values {
		c.add(float64(i), float64(2*i))
	}
	sum, n := 0.0, 0
	for _, v := range c.points {
		sum, n = sum+v.y, n+v.n
		if math.Abs(v.y/float64(v.n)-2*v.x/float64(v.n)) > 1e-9 {
			t.Fatalf("point %+v is not on the line", v)
		}
	}
	if len(c.points) > maxPoints || len(c.points) < maxPoints/2 || n != values || sum != values*(values-1) {
		t.Errorf("%d points of %d values with sum %v", len(c.points), n, sum)
	}
	var p Plot
	for i := range 2 * maxPanels {
		p.Add(strings.Repeat("x", i+1), "train", 0, 1)
	}
	if len(p.panels) != maxPanels {
		t.Errorf("%d panels", len(p.panels))
	}
}

// Ticks are round numbers within the range.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		from, to float64
		want     []float64
	}{
		{0, 10, []float64{0, 2, 4, 6, 8, 10}},
		{-1, 1, []float64{-1, -0.5, 0, 0.5, 1}},
		{3, 3.4, []float64{3, 3.1, 3.2, 3.3, 3.4}},
		{120, 990, []float64{200, 400, 600, 800}},
	} {
		a := axis{from: c.from, to: c.to}
		got := a.ticks(5)
		same := slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
		if !same {
			t.Errorf("from %v to %v: %v, want %v", c.from, c.to, got, c.want)
		}
	}
}
