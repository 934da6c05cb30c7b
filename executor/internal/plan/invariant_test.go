package plan

import (
	"testing"

	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

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
				all = append(all, use{v.span, v, k, i, write, uses(p.whole, v) || uses(p.scratch, v)})
			})
		}
	}
	return all
}

// Ranges of a step run in any order and at the same time, so what one iteration writes, no other may touch.
func TestIterationsOfAStepShareNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SampledFrom([]int64{3, 4, 24}).Draw(t, "rows")
		p, names := fixture.RandomProgram(t, rows == 4)
		scope := values{}
		for _, name := range []string{"w0", "w1", "w2", "w3"} {
			_, _ = scope.Var(name, tensor.Float32, []int64{4, 4})
		}
		compiled, err := Compile(Request{Block: p.Global(), Scope: scope, Workers: 3, Fetch: []string{rapid.SampledFrom(names).Draw(t, "fetch")},
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
