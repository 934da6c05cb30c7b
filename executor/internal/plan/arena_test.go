package plan

import (
	"testing"

	"pgregory.net/rapid"
)

func TestBuffersThatLiveAtOneTimeDoNotOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a arena
		var all []*buffer
		for range rapid.IntRange(1, 30).Draw(t, "buffers") {
			first := rapid.IntRange(0, 20).Draw(t, "first")
			b := &buffer{elements: rapid.IntRange(0, 100).Draw(t, "elements"), first: first, last: first + rapid.IntRange(0, 5).Draw(t, "steps")}
			a.place(b)
			for _, other := range all {
				apart := b.offset+rounded(b.elements) <= other.offset || other.offset+rounded(other.elements) <= b.offset
				if b.first <= other.last && other.first <= b.last && !apart {
					t.Fatalf("%+v and %+v overlap", *b, *other)
				}
			}
			if b.offset%align != 0 || b.offset+b.elements > a.size {
				t.Fatalf("%+v in an arena of %d", *b, a.size)
			}
			all = append(all, b)
		}
	})
}

func TestArenaTakesTheSmallestGapThatFits(t *testing.T) {
	var a arena
	for _, b := range []*buffer{ // at step 1 there are gaps of 64 and 32 elements between the buffers that live on
		{elements: 16, first: 0, last: 9}, {elements: 64, first: 0, last: 0}, {elements: 16, first: 0, last: 9},
		{elements: 32, first: 0, last: 0}, {elements: 16, first: 0, last: 9},
	} {
		a.place(b)
	}
	small, large := &buffer{elements: 20, first: 1, last: 1}, &buffer{elements: 40, first: 1, last: 1}
	a.place(small)
	a.place(large)
	if small.offset != 96 || large.offset != 16 || a.size != 144 {
		t.Errorf("offsets %d and %d in %d elements", small.offset, large.offset, a.size)
	}
}
