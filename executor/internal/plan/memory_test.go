package plan

import (
	"testing"

	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
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

// values is a Scope.
type values map[string]*tensor.Tensor

func (s values) Find(name string) (*tensor.Tensor, bool) { t, ok := s[name]; return t, ok }

func (s values) Var(name string, dtype tensor.DType, dims []int64) (t *tensor.Tensor, err error) {
	if s[name] == nil {
		s[name], err = tensor.New(dtype, dims...)
	}
	return s[name], err
}

func (s values) MarkReady(...string) {}

// noComm is the wire of programs that do not run.
type noComm struct{ ops.Comm }

// A use is one piece of a step touching memory.
type use struct {
	span
	variable *variable
	chain    int
	piece    int
	write    bool
	whole    bool // in other places than the iteration's own
}

func usesOf(s *step) []use {
	var all []use
	for k, c := range s.chains {
		for i, p := range c.pieces {
			p.touches(func(v *variable, write bool) {
				all = append(all, use{v.span, v, k, i, write, p.isApart(v) || uses(p.scratch, v)})
			})
		}
	}
	return all
}

// Ranges of a step run in any order and at the same time, so what one iteration writes, no other may touch.
func TestIterationsOfAStepShareNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SampledFrom([]int64{3, 4, 24}).Draw(t, "rows")
		p, names := fixture.RandomProgram(t, rows)
		scope := values{}
		for _, name := range []string{"w0", "w1", "w2", "w3"} {
			_, _ = scope.Var(name, tensor.Float32, []int64{4, 4})
		}
		compiled, err := Compile(Request{Block: p.Global(), Scope: scope, Workers: 3, Env: ops.Env{Comm: noComm{}}, Fetch: []string{rapid.SampledFrom(names).Draw(t, "fetch")},
			Feeds: map[string]ops.Meta{"x": {Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{rows, 4}}}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range compiled.steps {
			all := usesOf(&compiled.steps[i])
			for _, a := range all {
				for _, b := range all {
					if !a.write || !a.overlaps(b.span) || a.chain == b.chain && a.piece == b.piece && a.variable == b.variable {
						continue
					}
					if a.chain != b.chain || a.whole || b.whole || a.span != b.span {
						t.Fatalf("step %s: piece %d of chain %d writes %q at %v, and piece %d of chain %d touches %q at %v",
							compiled.steps[i].name(), a.piece, a.chain, a.variable.name, a.span, b.piece, b.chain, b.variable.name, b.span)
					}
				}
			}
		}
	})
}
