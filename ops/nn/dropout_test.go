package nn_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var fourNumbers = Floats(dims{4, 1}, 1, 2, -3, 4)

func dropoutCase(name string, a attrs, want ...float64) Case {
	c := Case{Type: "dropout", Name: name, Attrs: a, Inputs: slots{"X": One(fourNumbers)}, Loss: []string{"Out"}}
	if want != nil {
		c.Want = slots{"Out": One(Floats(dims{4, 1}, want...))}
	}
	return c
}

var dropoutCases = append(noiseCases,
	dropoutCase("", attrs{"seed": int32(7)}),
	dropoutCase("upscaled", attrs{"seed": int32(7), "dropout_implementation": "upscale_in_train"}),
	dropoutCase("nothing", attrs{"dropout_prob": float32(0)}, 1, 2, -3, 4),
	dropoutCase("everything", attrs{"dropout_prob": float32(1), "dropout_implementation": "upscale_in_train"}, 0, 0, 0, 0),
	dropoutCase("test", attrs{"dropout_prob": float32(0.25), "is_test": true}, 0.75, 1.5, -2.25, 3),
	dropoutCase("test upscaled", attrs{"is_test": true, "dropout_implementation": "upscale_in_train"}, 1, 2, -3, 4),
)

// drop runs dropout over ones and returns the mask.
func drop(t *testing.T, rows, width int64, out string, seed int32, step ops.Step) []float32 {
	t.Helper()
	x, err := tensor.New(tensor.Float32, rows, width)
	if err != nil {
		t.Fatal(err)
	}
	m := NewInterpreter(map[string]*tensor.Tensor{"x": x}, step)
	op := &program.Op{Type: "dropout", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {out}, "Mask": {"mask"}},
		Attrs: attrs{"dropout_prob": float32(0.25), "seed": seed}}
	if err := m.Run(context.Background(), op); err != nil {
		t.Fatal(err)
	}
	return m.Vars["mask"].Float32s()
}

func TestDropoutOfASplitBatchIsThatOfTheWhole(t *testing.T) {
	whole := drop(t, 12, 5, "out", 1, ops.Step{Round: 3, Rows: 12})
	part := drop(t, 4, 5, "out", 1, ops.Step{Round: 3, RowOffset: 7, Rows: 4})
	if !slices.Equal(part, whole[7*5:11*5]) {
		t.Error("rows 7 to 10 are dropped otherwise than in the whole")
	}
	flattened := drop(t, 8, 5, "out", 1, ops.Step{Round: 3, RowOffset: 2, Rows: 4})
	if !slices.Equal(flattened[:40], drop(t, 12, 5, "out", 1, ops.Step{Round: 3, Rows: 6})[20:60]) {
		t.Error("two rows of the op for one of the batch: the offset is not doubled")
	}
}

// TestDropoutOfSequencesIsThatOfTheWhole draws for a batch of three sequences, and for its last two, of two levels.
func TestDropoutOfSequencesIsThatOfTheWhole(t *testing.T) {
	whole := dropSequences(t, [][]int64{{0, 2, 2, 4}, {0, 3, 5, 5, 9}}, ops.Step{Round: 3, Rows: 3})
	part := dropSequences(t, [][]int64{{0, 0, 2}, {0, 0, 4}}, ops.Step{Round: 3, Rows: 2, RowOffset: 1})
	if !slices.Equal(part, whole[5*5:]) {
		t.Errorf("the last sequences are dropped otherwise than in the whole:\n%v\n%v", part, whole)
	}
	long := dropSequences(t, [][]int64{{0, 400}}, ops.Step{Rows: 1})
	dropped := 0.0
	for _, kept := range long {
		dropped += 1 - float64(kept)
	}
	if math.Abs(dropped/2000-0.25) > 0.05 {
		t.Errorf("%v of 2000 dropped with probability 0.25", dropped)
	}
}

// dropSequences runs dropout over ones of width 5 with a LoD and returns the mask.
func dropSequences(t *testing.T, lod [][]int64, step ops.Step) []float32 {
	t.Helper()
	last := lod[len(lod)-1]
	x, err := tensor.New(tensor.Float32, last[len(last)-1], 5)
	if err != nil {
		t.Fatal(err)
	}
	x.SetLoD(lod)
	m := NewInterpreter(map[string]*tensor.Tensor{"x": x}, step)
	op := &program.Op{Type: "dropout", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"out"}, "Mask": {"mask"}},
		Attrs: attrs{"dropout_prob": float32(0.25), "seed": int32(1)}}
	if err := m.Run(context.Background(), op); err != nil {
		t.Fatal(err)
	}
	return m.Vars["mask"].Float32s()
}

func TestDropoutDependsOnSeedNameRoundAndLane(t *testing.T) {
	step := ops.Step{Round: 3, Rows: 100}
	base := drop(t, 100, 10, "out", 1, step)
	dropped := 0.0
	for _, kept := range base {
		dropped += 1 - float64(kept)
	}
	if math.Abs(dropped/1000-0.25) > 0.05 {
		t.Errorf("%v of 1000 dropped with probability 0.25", dropped)
	}
	for what, other := range map[string][]float32{
		"seed":  drop(t, 100, 10, "out", 2, step),
		"name":  drop(t, 100, 10, "out2", 1, step),
		"round": drop(t, 100, 10, "out", 1, ops.Step{Round: 4, Rows: 100}),
		"lane":  drop(t, 100, 10, "out", 1, ops.Step{Round: 3, Lane: 1, Rows: 100}),
	} {
		equal := 0
		for i := range base {
			if base[i] == other[i] {
				equal++
			}
		}
		if equal > 720 { // 625 are expected of independent masks
			t.Errorf("another %s leaves %d of 1000 elements as they were", what, equal)
		}
	}
}
