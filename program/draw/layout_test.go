package draw

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// drawProgram is a block of random ops over few variables. Ops write some of them again.
func drawProgram(t *rapid.T) *program.Program {
	p := program.New()
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "a longer name"}), 0, 4)
	for i := range rapid.IntRange(0, 40).Draw(t, "ops") {
		p.Global().Append(&program.Op{
			Type:    fmt.Sprint("op_", i),
			Inputs:  map[string][]string{"X": names.Draw(t, "inputs")},
			Outputs: map[string][]string{"Out": names.Draw(t, "outputs")},
		})
	}
	return p
}

func TestEdgesLeadDownAndNothingOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := plan(drawProgram(t))
		f := d.layered(0, maxSlots)
		if err := f.arrange(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, e := range d.edges {
			if from, to := f.slots[f.place[e.from]], f.slots[f.place[e.to]]; from.row >= to.row {
				t.Fatalf("an edge leads from row %d to row %d", from.row, to.row)
			}
		}
		for i, s := range f.slots {
			for _, below := range s.down {
				if f.slots[below].row != s.row+1 {
					t.Fatalf("slot %d in row %d is linked to row %d", i, s.row, f.slots[below].row)
				}
			}
		}
		for _, row := range f.rows {
			for i := 1; i < len(row); i++ {
				left, right := f.slots[row[i-1]], f.slots[row[i]]
				if gap := right.x - right.width/2 - left.x - left.width/2; gap < slotGap-1e-6 {
					t.Fatalf("two slots of a row are %g apart", gap)
				}
			}
		}
	})
}

func TestReadersAreReachedByLinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := plan(drawProgram(t))
		f := d.layered(0, maxSlots)
		for _, e := range d.edges {
			reached := map[int]bool{}
			todo := []int{f.place[e.from]}
			for len(todo) > 0 {
				s := f.slots[todo[0]]
				todo = todo[1:]
				for _, below := range s.down {
					reached[below] = true
					if f.slots[below].line {
						todo = append(todo, below)
					}
				}
			}
			if !reached[f.place[e.to]] {
				t.Fatalf("no line leads from %q to %q", d.nodes[e.from].text, d.nodes[e.to].text)
			}
		}
	})
}

func TestASourceStandsAboveItsFirstReader(t *testing.T) {
	p := program.New()
	for i := range 5 {
		p.Global().Append(&program.Op{Type: "relu", Inputs: map[string][]string{"X": {fmt.Sprint(i)}},
			Outputs: map[string][]string{"Out": {fmt.Sprint(i + 1)}}})
	}
	p.Global().Append(&program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {"one"}}})
	p.Global().Append(&program.Op{Type: "mul", Inputs: map[string][]string{"X": {"5"}, "Y": {"one", "weight"}},
		Outputs: map[string][]string{"Out": {"y"}}})
	d := plan(p)
	f := d.layered(0, maxSlots)
	for _, s := range f.slots {
		if n := d.nodes[s.node]; (n.text == "one" || n.text == "weight") && s.row != 10 {
			t.Errorf("%s is in row %d, want 10, above its reader", n.text, s.row)
		}
	}
}

func TestTooManyLinesAreRefused(t *testing.T) {
	p := program.New()
	var all []string
	for i := range 1400 { // every value has a line to the last op
		all = append(all, fmt.Sprint(i))
		p.Global().Append(&program.Op{Type: "relu", Inputs: map[string][]string{"X": {fmt.Sprint(i)}},
			Outputs: map[string][]string{"Out": {fmt.Sprint(i + 1)}}})
	}
	p.Global().Append(&program.Op{Type: "sum", Inputs: map[string][]string{"X": all}, Outputs: map[string][]string{"Out": {"y"}}})
	if _, err := SVG(context.Background(), p); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("a picture of a million lines: %v", err)
	}
}
