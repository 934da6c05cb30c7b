package detection

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// A grid lays boxes over an image: the same ones around each place of a feature map. The boxes do not depend on data.
type grid struct {
	name, doc, boxes string // boxes is the output slot
	inputs           []ops.Slot
	attrs            []ops.Attr
	flat             bool // with flatten_to_2d the boxes of all places are rows
	// shapes returns the boxes of a place as half extents and centres relative to the place, and checks the attributes. step is the distance between places.
	shapes func(a opkit.Attributed, step [2]float64) []shape
	check  func(s *ops.Shapes) (perPlace int64, err error)
	// place says how places lie: their distance and the centre of the first, and what coordinates are divided by.
	place func(b *ops.Binding, feature, image []int64) (step, first, scale [2]float64)
	clip  func(b *ops.Binding) bool
}

// A shape is a box relative to its place: right and down.
type shape struct{ x, y, halfWidth, halfHeight float64 }

var (
	featureSlot = ops.Slot{Name: "Input", Doc: "float [N, C, H, W], the feature map; its elements are not read"}
	imageSlot   = ops.Slot{Name: "Image", Doc: "float [N, C, height, width], the images; their elements are not read"}
	stepAttrs   = []ops.Attr{
		{Name: "step_w", Doc: "distance between places, to the right; 0 for the width of the image over that of the map", Default: float32(0)},
		{Name: "step_h", Doc: "distance between places, down; 0 for the height of the image over that of the map", Default: float32(0)},
		{Name: "offset", Doc: "where the first place lies, as a share of the distance", Default: float32(0.5)}}
)

func (g grid) register() {
	ops.Register(ops.Def{
		Type: g.name, Doc: g.doc,
		Inputs: g.inputs,
		Outputs: []ops.Slot{
			{Name: g.boxes, Doc: "[H, W, boxes of a place, 4]"},
			{Name: "Variances", Doc: "of the dims of " + g.boxes + ": what codes of boxes are divided by"}},
		Attrs:     append(append([]ops.Attr{}, g.attrs...), variancesAttr),
		Infer:     g.infer,
		Bind:      opkit.BindFloats("Input", bindGrid[float32](g), bindGrid[float64](g)),
		MixesRows: opkit.Mixes, // the boxes are not rows of the batch
		FromDims:  true,
	})
}

func (g grid) infer(s *ops.Shapes) error {
	for _, slot := range g.inputs {
		if err := s.IsFloat(slot.Name); err != nil {
			return err
		}
		if err := s.Rank(slot.Name, 4); err != nil {
			return err
		}
	}
	if err := fourVariances(s); err != nil {
		return err
	}
	perPlace, err := g.check(s)
	if err != nil {
		return err
	}
	x := s.In("Input")
	dims := []int64{x.Dims[2], x.Dims[3], perPlace, 4}
	if g.flat && s.Bool("flatten_to_2d") {
		dims = []int64{ops.Product(dims[:3]), 4}
	}
	s.Set(g.boxes, x.DType, dims...)
	s.Set("Variances", x.DType, dims...)
	return nil
}

func bindGrid[T tensor.Float](g grid) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		feature := b.In("Input").Dims()
		var image []int64
		if t := b.In("Image"); t != nil {
			image = t.Dims()
		}
		boxes, variances := b.Out(g.boxes), b.Out("Variances")
		height, width := int(feature[2]), int(feature[3])
		step, first, scale := g.place(b, feature, image)
		shapes, clip, four := g.shapes(b, step), g.clip(b), floats(b, "variances", usualVariances...)
		each := len(shapes) * 4
		return b.Loops(ops.Loop{N: height * width, Reads: []string{}, Run: func(_, from, to int) error {
			for place := from; place < to; place++ {
				y, x := first[1]+float64(place/width)*step[1], first[0]+float64(place%width)*step[0]
				for i, s := range shapes {
					at := place*each + 4*i
					if boxes != nil {
						box := tensor.Data[T](boxes)[at:][:4]
						cx, cy := x+s.x, y+s.y
						for k, v := range [4]float64{cx - s.halfWidth, cy - s.halfHeight, cx + s.halfWidth, cy + s.halfHeight} {
							if v /= scale[k%2]; clip {
								v = min(max(v, 0), 1)
							}
							box[k] = T(v)
						}
					}
					if variances != nil {
						for k, v := range four {
							tensor.Data[T](variances)[at+k] = T(v)
						}
					}
				}
			}
			return nil
		}})
	}
}

// overImage places boxes by the attributes of stepAttrs, as shares of the image.
func overImage(b *ops.Binding, feature, image []int64) (step, first, scale [2]float64) {
	scale = [2]float64{float64(image[3]), float64(image[2])}
	step = [2]float64{b.Float("step_w"), b.Float("step_h")}
	if step[0] == 0 || step[1] == 0 {
		step = [2]float64{scale[0] / float64(feature[3]), scale[1] / float64(feature[2])}
	}
	offset := b.Float("offset")
	return step, [2]float64{offset * step[0], offset * step[1]}, scale
}

func clips(b *ops.Binding) bool { return b.Bool("clip") }

func init() {
	grid{
		name: "prior_box", boxes: "Boxes", inputs: []ops.Slot{featureSlot, imageSlot},
		doc: "Lays boxes over images (Liu et al. 2016, SSD): around each place of a feature map a box of area min_size**2 for each of the aspect ratios, and with " +
			"max_sizes a square of side sqrt(min_size*max_size). Coordinates are shares of the image.",
		attrs: append([]ops.Attr{
			{Name: "min_sizes", Doc: "sides of squares, in pixels", Kind: []float32(nil)},
			{Name: "max_sizes", Doc: "a larger size for each of min_sizes, or none", Default: []float32{}},
			{Name: "aspect_ratios", Doc: "width over height, in addition to 1", Default: []float32{}},
			{Name: "flip", Doc: "whether 1/ratio counts for each ratio, too", Default: true},
			{Name: "clip", Doc: "whether boxes end at the border of the image", Default: true},
			{Name: "min_max_aspect_ratios_order", Doc: "whether the square of max_sizes follows that of min_sizes, before the other ratios", Default: false}}, stepAttrs...),
		check: func(s *ops.Shapes) (int64, error) {
			least, err := positive(s, "min_sizes")
			if err != nil || len(least) == 0 {
				return 0, opkit.BadAttr(s, "min_sizes", "1 to %d numbers above 0", mostNumbers)
			}
			most := floats(s, "max_sizes")
			if len(most) != 0 && len(most) != len(least) {
				return 0, opkit.BadAttr(s, "max_sizes", "none, or one for each of min_sizes")
			}
			for i, v := range most {
				if !(v > least[i]) {
					return 0, opkit.BadAttr(s, "max_sizes", "numbers above those of min_sizes")
				}
			}
			if _, err := positive(s, "aspect_ratios"); err != nil {
				return 0, err
			}
			return int64(len(ratiosOf(s))*len(least) + len(most)), nil
		},
		shapes: func(a opkit.Attributed, _ [2]float64) (all []shape) {
			most, ratios := floats(a, "max_sizes"), ratiosOf(a)
			early, _ := a.Op().Bool("min_max_aspect_ratios_order")
			for i, size := range floats(a, "min_sizes") {
				var between []shape
				if len(most) > 0 {
					half := math.Sqrt(size*most[i]) / 2
					between = []shape{{halfWidth: half, halfHeight: half}}
				}
				for k, ratio := range ratios {
					if k == 1 && early {
						all, between = append(all, between...), nil
					}
					root := math.Sqrt(ratio)
					all = append(all, shape{halfWidth: size * root / 2, halfHeight: size / root / 2})
				}
				all = append(all, between...)
			}
			return all
		},
		place: overImage, clip: clips,
	}.register()

	grid{
		name: "density_prior_box", boxes: "Boxes", inputs: []ops.Slot{featureSlot, imageSlot}, flat: true,
		doc: "Lays boxes over images densely (Zhang et al. 2017, FaceBoxes): around each place of a feature map density x density boxes for each of fixed_sizes and " +
			"fixed_ratios, at even distances. Coordinates are shares of the image, and boxes end at its border.",
		attrs: append([]ops.Attr{
			{Name: "fixed_sizes", Doc: "sides of squares, in pixels", Default: []float32{}},
			{Name: "fixed_ratios", Doc: "width over height", Default: []float32{}},
			{Name: "densities", Doc: "number of boxes along each axis, one number for each of fixed_sizes", Default: []int32{}},
			{Name: "clip", Doc: "no effect: boxes always end at the border of the image", Default: true},
			{Name: "flatten_to_2d", Doc: "whether the boxes of all places are rows", Default: false}}, stepAttrs...),
		check: func(s *ops.Shapes) (int64, error) {
			sizes, err := positive(s, "fixed_sizes")
			if err != nil {
				return 0, err
			}
			ratios, err := positive(s, "fixed_ratios")
			if err != nil {
				return 0, err
			}
			total := int64(0)
			densities := s.Ints("densities")
			if len(densities) != len(sizes) {
				return 0, opkit.BadAttr(s, "densities", "one number for each of fixed_sizes")
			}
			for _, d := range densities {
				if d < 1 || d > mostNumbers {
					return 0, opkit.BadAttr(s, "densities", "numbers in [1, %d]", mostNumbers)
				}
				if total += d * d * int64(len(ratios)); total > mostNumbers*mostNumbers {
					return 0, opkit.BadAttr(s, "densities", "fewer than %d boxes at a place", mostNumbers*mostNumbers)
				}
			}
			return total, nil
		},
		shapes: func(a opkit.Attributed, step [2]float64) (all []shape) {
			average := float64(int((step[0] + step[1]) * 0.5))
			densities, _ := a.Op().Ints("densities")
			for i, size := range floats(a, "fixed_sizes") {
				density := int(densities[i])
				shift := float64(int(average) / density)
				for _, ratio := range floats(a, "fixed_ratios") {
					root := math.Sqrt(ratio)
					for k := range density * density {
						all = append(all, shape{
							x: -average/2 + shift/2 + float64(k%density)*shift, y: -average/2 + shift/2 + float64(k/density)*shift,
							halfWidth: size * root / 2, halfHeight: size / root / 2,
						})
					}
				}
			}
			return all
		},
		place: overImage, clip: func(*ops.Binding) bool { return true },
	}.register()

	grid{
		name: "anchor_generator", boxes: "Anchors", inputs: []ops.Slot{featureSlot},
		doc: "Lays boxes over images (Ren et al. 2015, Faster R-CNN): around each place of a feature map a box for each of aspect_ratios and anchor_sizes. " +
			"Coordinates are pixels of the image, the last ones included.",
		attrs: []ops.Attr{
			{Name: "anchor_sizes", Doc: "sides of squares, in pixels", Kind: []float32(nil)},
			{Name: "aspect_ratios", Doc: "height over width", Kind: []float32(nil)},
			{Name: "stride", Doc: "distances between places, to the right and down", Kind: []float32(nil)},
			{Name: "offset", Doc: "where the first place lies, as a share of the distance", Default: float32(0.5)}},
		check: func(s *ops.Shapes) (int64, error) {
			sizes, err := positive(s, "anchor_sizes")
			if err != nil {
				return 0, err
			}
			ratios, err := positive(s, "aspect_ratios")
			if err != nil {
				return 0, err
			}
			if stride, err := positive(s, "stride"); err != nil || len(stride) != 2 {
				return 0, opkit.BadAttr(s, "stride", "two numbers above 0")
			}
			return int64(len(sizes) * len(ratios)), nil
		},
		shapes: func(a opkit.Attributed, step [2]float64) (all []shape) {
			for _, ratio := range floats(a, "aspect_ratios") {
				width := math.Round(math.Sqrt(step[0] * step[1] / ratio))
				height := math.Round(width * ratio)
				for _, size := range floats(a, "anchor_sizes") {
					all = append(all, shape{halfWidth: (size/step[0]*width - 1) / 2, halfHeight: (size/step[1]*height - 1) / 2})
				}
			}
			return all
		},
		place: func(b *ops.Binding, _, _ []int64) (step, first, scale [2]float64) {
			stride, offset := floats(b, "stride"), b.Float("offset")
			return [2]float64{stride[0], stride[1]}, [2]float64{offset * (stride[0] - 1), offset * (stride[1] - 1)}, [2]float64{1, 1}
		},
		clip: func(*ops.Binding) bool { return false },
	}.register()
}

// ratiosOf returns the different aspect ratios of prior_box, 1 first.
func ratiosOf(a opkit.Attributed) []float64 {
	flip, set := a.Op().Bool("flip")
	all := []float64{1}
	for _, ratio := range floats(a, "aspect_ratios") {
		known := false
		for _, other := range all {
			known = known || math.Abs(ratio-other) < 1e-6
		}
		if known {
			continue
		}
		if all = append(all, ratio); flip || !set {
			all = append(all, 1/ratio)
		}
	}
	return all
}
