package executor_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// TestRowsOfDetections fetches what is known only when it was computed: how many boxes each image keeps. Fluid declares as many rows as there are boxes.
func TestRowsOfDetections(t *testing.T) {
	m := layers.NewModel()
	boxes := layers.Data(m, "boxes", layers.Dims(3, 4))
	scores := layers.Data(m, "scores", layers.Dims(1, 3))
	found := layers.MulticlassNMS(boxes, scores, layers.NMS{ScoreThreshold: 0.1, Threshold: 0.5, Background: -1}, layers.Name("found"))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	declared, _ := p.Global().Find(found.Name())
	declared.Dims = []int64{3, 6}
	place := []float32{0, 0, 4, 4, 0, 0, 4, 3, 6, 6, 8, 8}
	local := executor.New()
	defer local.Close()
	for _, c := range []struct {
		scores  []float32
		offsets []int64
	}{{[]float32{.9, .8, .7, 0, 0, .5}, []int64{0, 2, 3}}, {[]float32{0, 0, 0, .3, .4, .5}, []int64{0, 0, 2}}, {make([]float32, 6), []int64{0, 0, 0}}} {
		at, err := tensor.FromSlice(slices.Repeat(place, 2), 2, 3, 4)
		if err != nil {
			t.Fatal(err)
		}
		score, err := tensor.FromSlice(c.scores, 2, 1, 3)
		if err != nil {
			t.Fatal(err)
		}
		got, err := local.Run(t.Context(), p, executor.Feed{"boxes": at, "scores": score}, found.Name())
		if err != nil {
			t.Fatal(err)
		}
		if rows := c.offsets[2]; !slices.Equal(got[0].Dims(), []int64{rows, 6}) || len(got[0].LoD()) != 1 || !slices.Equal(got[0].LoD()[0], c.offsets) {
			t.Errorf("scores %v: %v with LoD %v, want offsets %v", c.scores, got[0].Dims(), got[0].LoD(), c.offsets)
		}
	}
}
