package detection_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// masked has an object of class 1 with these polygons, and a region of 4 x 4 pixels that lies at 2, 2.
func masked(name string, mask []float64, polygons ...[]float64) finding {
	var points []float64
	ends := []int64{0}
	for _, p := range polygons {
		points = append(points, p...)
		ends = append(ends, int64(len(points)/2))
	}
	segments := Floats(dims{int64(len(points) / 2), 2}, points...)
	segments.SetLoD([][]int64{{0, 1}, {0, int64(len(polygons))}, ends})
	return finding{kind: "generate_mask_labels", name: name, attrs: attrs{"num_classes": int32(2), "resolution": int32(4)}, inputs: slots{"ImInfo": One(square40), "GtClasses": One(of32(1, 0, 1)),
		"IsCrowd": One(Int32s(dims{1, 1}, 0)), "GtSegms": One(segments), "Rois": One(of(Floats(dims{2, 4}, 0, 0, 9, 9, 2, 2, 6, 6), 0, 2)), "LabelsInt32": One(Int32s(dims{2, 1}, 0, 1))},
		outputs: map[string]int{"MaskRois": 1, "RoiHasMaskInt32": 1, "MaskInt32": 1},
		want: map[string][]want{"MaskRois": {{[]float64{2, 2, 6, 6}, []int64{0, 1}}}, "RoiHasMaskInt32": {{[]float64{1}, []int64{0, 1}}},
			"MaskInt32": {{slices.Concat(slices.Repeat([]float64{-1}, 16), mask), []int64{0, 1}}}}}
}

func of32(v int32, offsets ...int64) *tensor.Tensor {
	t := Int32s(dims{1, 1}, v)
	t.SetLoD([][]int64{offsets})
	return t
}

var masks = []finding{
	masked("a rectangle", []float64{
		0, 0, 0, 0,
		0, 1, 1, 0,
		0, 1, 1, 0,
		0, 1, 1, 0}, []float64{3, 3, 5, 3, 5, 9, 3, 9}),
	masked("a triangle", []float64{
		1, 0, 0, 0,
		1, 1, 0, 0,
		1, 1, 1, 0,
		1, 1, 1, 1}, []float64{2, 2, 6, 6, 2, 6}),
	masked("two parts", []float64{
		1, 0, 0, 0,
		0, 0, 0, 0,
		0, 0, 0, 0,
		0, 0, 1, 1}, []float64{2, 2, 3, 2, 3, 3, 2, 3}, []float64{6, 6, 4, 6, 4, 5, 6, 5}),
	masked("far outside", slices.Repeat([]float64{1}, 16), []float64{-1e30, -1e30, 1e30, -1e30, 1e30, 1e30, -1e30, 1e30}),
}

func TestMasksThatDoNotFit(t *testing.T) {
	for name, change := range map[string]func(slots){
		"class":   func(in slots) { in["LabelsInt32"] = One(Int32s(dims{2, 1}, 0, 2)) },
		"objects": func(in slots) { in["GtClasses"] = One(of32(0, 0, 1)) },
		"crowd":   func(in slots) { in["IsCrowd"] = One(Int32s(dims{1, 1}, 1)) },
	} {
		c := masked(name, nil, []float64{0, 0, 1, 0, 1, 1})
		change(c.inputs)
		if _, err := c.run(t); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := masked("", nil, []float64{0, 0, 1, 0, 1, 1})
	c.attrs = attrs{"num_classes": int32(1 << 30), "resolution": int32(4)}
	if err := c.infer(); fault.KindOf(err) != fault.InvalidArgument {
		t.Errorf("many classes: %v", err)
	}
	c = masked("", nil, []float64{0, 0, 1, 0, 1, 1})
	c.inputs["LabelsInt32"] = One(Int32s(dims{2, 1}, 0, 0)) // nothing but background: its first region, which does not count
	got, err := c.run(t)
	if err != nil || !near(numbersOf(got["MaskInt32"][0]), slices.Repeat([]float64{-1}, 32)) || !near(numbersOf(got["RoiHasMaskInt32"][0]), []float64{0}) {
		t.Errorf("%v, %v", got, err)
	}
}
