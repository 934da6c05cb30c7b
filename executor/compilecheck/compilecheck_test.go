package compilecheck

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/executor/internal/plan"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// sums registers an op that writes X + 1 to Out, and to Half the half of Out, by way of scratch memory. Its first loop lists what it writes.
func sums(name string, writes []string, inPlace map[string]string) {
	ops.Register(ops.Def{
		Type: name, Doc: "Is only for tests.", Inputs: []ops.Slot{{Name: "X"}}, Outputs: []ops.Slot{{Name: "Out"}, {Name: "Half"}}, InPlace: inPlace,
		Infer: func(s *ops.Shapes) error { s.Like("Out", "X"); s.Like("Half", "X"); return nil },
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			x, out, half := b.In("X"), b.Out("Out"), b.Out("Half")
			kept := b.Scratch(tensor.Float64, x.Len())
			return b.Loops(ops.Loop{N: x.Len(), Writes: writes, Run: func(_, from, till int) error {
				for i := from; i < till; i++ {
					kept.Float64s()[i] = x.Float64s()[i] + 1
					if out != nil {
						out.Float64s()[i] = kept.Float64s()[i]
					}
				}
				return nil
			}}, ops.Loop{N: x.Len(), Reads: []string{}, Writes: []string{"Half"}, Run: func(_, from, till int) error {
				for i := from; half != nil && i < till; i++ {
					half.Float64s()[i] = kept.Float64s()[i] / 2
				}
				return nil
			}})
		}})
}

func init() {
	sums("test_whole", nil, map[string]string{"Out": "X"})
	sums("test_drops", []string{"Out"}, nil)
	ops.Register(ops.Def{ // writes the first element last, and reads the last one then
		Type: "test_overwrites", Doc: "Is only for tests.", Inputs: []ops.Slot{{Name: "X"}}, Outputs: []ops.Slot{{Name: "Out"}}, InPlace: map[string]string{"Out": "X"},
		Infer: func(s *ops.Shapes) error { s.Like("Out", "X"); return nil },
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			x, out := b.In("X"), b.Out("Out")
			return opkit.Loop(b, 1, func(int, int) {
				for i := range x.Len() {
					out.Float64s()[i] = 2 * x.Float64s()[x.Len()-1-i]
				}
			})
		}})
}

const firstLength = 4

func TestTheKitNoticesWhatPlansGetWrong(t *testing.T) {
	pool := plan.NewPool(workers)
	defer pool.Close()
	caseOf := func(name string) gradcheck.Case {
		return gradcheck.Case{Type: name, Inputs: map[string][]*tensor.Tensor{"X": gradcheck.One(gradcheck.Spread(1, firstLength, 1))}}
	}
	for name, want := range map[string]string{"test_whole": "", "test_drops": "for [Half.0]", "test_overwrites": "for [Out.0]"} {
		resized, err := check(caseOf(name), pool, false)
		switch {
		case want == "" && (err != nil || resized == 0):
			t.Errorf("%s: %v, %d times with other dims", name, err, resized)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want an error %s", name, err, want)
		}
	}
}
