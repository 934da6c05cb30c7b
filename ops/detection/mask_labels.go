package detection

import (
	"context"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// mostMask bounds the numbers of a row of masks.
const mostMask = 1 << 26

func init() {
	ops.Register(ops.Def{
		Type: "generate_mask_labels", Class: ops.Control, Exempt: ops.FoundRows,
		Doc: "Says what the masks of regions should be (He et al. 2017, Mask R-CNN). For each region with a class it takes the object whose polygons have a box that overlaps it most, and draws these polygons on " +
			"resolution x resolution pixels that cover the region. The mask stands at the place of the class, and -1 elsewhere. An image without such regions gets its first one, with -1 everywhere. Polygons are " +
			"drawn as in COCO: on pixels of a fifth, whose column in the middle decides.",
		Inputs: []ops.Slot{{Name: "ImInfo", Doc: "float [N, 3]: height, width and scale of each image"}, {Name: "GtClasses", Doc: "int32 [objects, 1]: their classes, those of an image a sequence"},
			{Name: "IsCrowd", Doc: "int32 [objects, 1]: 1 for those that are left out"},
			{Name: "GtSegms", Doc: "[points, 2]: x and y in pixels of the original image, with the LoD levels objects of images, polygons of objects, and points of polygons"},
			{Name: "Rois", Doc: "[R, 4]: regions, those of an image a sequence"}, {Name: "LabelsInt32", Doc: "int32 [R, 1]: their classes, 0 for background"}},
		Outputs: []ops.Slot{{Name: "MaskRois", Doc: "[rows, 4]: the regions with a mask, those of an image a sequence"},
			{Name: "RoiHasMaskInt32", Doc: "int32 [rows, 1]: which of the regions of its image each is"},
			{Name: "MaskInt32", Doc: "int32 [rows, num_classes*resolution*resolution]: 1, 0, or -1 for what does not count"}},
		Attrs: []ops.Attr{{Name: "num_classes", Doc: "classes with background", Kind: int32(0)}, {Name: "resolution", Doc: "pixels of a side of a mask", Kind: int32(0)}},
		Infer: inferMaskLabels, Bind: byFloat("Rois", bindMaskLabels[float32], bindMaskLabels[float64]), MixesRows: opkit.Mixes,
		Finds: &ops.Finding{Rows: map[string]string{"MaskRois": "MaskRois", "MaskInt32": "MaskRois"}, Index: map[string]string{"RoiHasMaskInt32": "MaskRois"}},
	})
}

func inferMaskLabels(s *ops.Shapes) error {
	if err := boxesOf(s, "Rois"); err != nil {
		return err
	}
	if err := s.SameType("Rois", "ImInfo", "GtSegms"); err != nil {
		return err
	}
	if err := integers(s, "GtClasses", "IsCrowd", "LabelsInt32"); err != nil {
		return err
	}
	if !ops.Compatible(s.In("GtSegms").Dims, []int64{program.Unknown, 2}) || s.In("GtSegms").LoDLevel != 3 {
		return s.Errorf("GtSegms", "points [rows, 2] with three LoD levels")
	}
	if s.In("GtClasses").LoDLevel == 0 {
		return s.Errorf("GtClasses", "sequences: those of an image")
	}
	classes, side := s.Int("num_classes"), s.Int("resolution")
	if classes < 1 || side < 1 || side > 1<<12 || classes > mostMask/(side*side) {
		return opkit.BadAttr(s, "resolution", "at least 1, as num_classes, and at most %d numbers of a region", mostMask)
	}
	s.SetAt("MaskRois", 0, rowsMeta(s.In("Rois").DType, 4))
	s.SetAt("RoiHasMaskInt32", 0, rowsMeta(tensor.Int32, 1))
	s.SetAt("MaskInt32", 0, rowsMeta(tensor.Int32, classes*side*side))
	return nil
}

// A masking holds what generate_mask_labels needs.
type masking[T tensor.Float] struct {
	classes, side int
	lod           [][]int64 // of the points
	points        []T

	objects []int32 // of the image, that count
	boxes   []T     // of their polygons
	flips   []bool  // pixels, column after column, from which on a polygon covers the others
	regions []T
	index   []int32
	masks   []int32
}

func bindMaskLabels[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	info, classes, crowd, segments, rois, labels := b.In("ImInfo"), b.In("GtClasses"), b.In("IsCrowd"), b.In("GtSegms"), b.In("Rois"), b.In("LabelsInt32")
	k := &masking[T]{classes: int(b.Int("num_classes")), side: int(b.Int("resolution"))}
	k.flips = make([]bool, k.side*k.side+1)
	var m maker
	var regions, given []int64
	offsets := []int64{0}
	return func(context.Context) error {
		var err error
		if regions, err = offsetsFrom(b, "Rois", rois, nil, regions); err != nil {
			return err
		}
		if given, err = offsetsFrom(b, "GtClasses", classes, nil, given); err != nil {
			return err
		}
		images := len(given) - 1
		for _, err := range []error{sized(b, "ImInfo", info, 3*images), sized(b, "IsCrowd", crowd, classes.Len()), sized(b, "LabelsInt32", labels, rois.Len()/4), tensor.CheckLoD(segments)} {
			if err != nil {
				return err
			}
		}
		if k.lod = segments.LoD(); len(k.lod) != 3 || len(regions)-1 != images || len(k.lod[0])-1 != images || len(k.lod[1])-1 != classes.Len() {
			return fault.E(fault.ShapeMismatch, fault.On(b.Op()), fault.Gotf("GtSegms with %d LoD levels, and regions of %d images", len(k.lod), len(regions)-1),
				fault.Wantf("polygons of %d objects in %d images", classes.Len(), images))
		}
		k.points = tensor.Data[T](segments)
		k.regions, k.index, k.masks, offsets = k.regions[:0], k.index[:0], k.masks[:0], offsets[:1]
		for i := range images {
			first, end := regions[i], regions[i+1]
			k.gather(k.lod[0][i], k.lod[0][i+1], classes.Int32s(), crowd.Int32s())
			if err := k.mask(b, tensor.Data[T](rois)[4*first:4*end], labels.Int32s()[first:end], tensor.Data[T](info)[3*i+2]); err != nil {
				return err
			}
			offsets = append(offsets, int64(len(k.index)))
		}
		if err := makeRows(&m, b.Out("MaskRois"), k.regions, 4, offsets); err != nil {
			return err
		}
		if err := makeRows(&m, b.Out("RoiHasMaskInt32"), k.index, 1, offsets); err != nil {
			return err
		}
		return makeRows(&m, b.Out("MaskInt32"), k.masks, k.classes*k.side*k.side, offsets)
	}, nil
}

// gather finds the objects of an image that count, and the boxes of their polygons.
func (k *masking[T]) gather(first, end int64, classes, crowd []int32) {
	k.objects, k.boxes = k.objects[:0], k.boxes[:0]
	for o := first; o < end; o++ {
		if classes[o] <= 0 || crowd[o] != 0 {
			continue
		}
		box := [4]T{T(math.MaxFloat32), T(math.MaxFloat32), 0, 0}
		for at := k.lod[2][k.lod[1][o]]; at < k.lod[2][k.lod[1][o+1]]; at++ {
			for d := range int64(2) {
				box[d], box[d+2] = min(box[d], k.points[2*at+d]), max(box[d+2], k.points[2*at+d])
			}
		}
		k.objects, k.boxes = append(k.objects, int32(o)), append(k.boxes, box[:]...)
	}
}

// mask appends the regions of one image that have masks, and these.
func (k *masking[T]) mask(b *ops.Binding, rois []T, labels []int32, scale T) error {
	begin := len(k.index)
	for i, class := range labels {
		if class <= 0 {
			continue
		}
		if int(class) >= k.classes || len(k.objects) == 0 {
			return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("LabelsInt32")), fault.Gotf("class %d of region %d, in an image with %d objects", class, i, len(k.objects)),
				fault.Wantf("0 to %d, and 0 in an image without objects", k.classes-1))
		}
		var roi [4]T
		for d := range roi {
			roi[d] = rois[4*i+d] / scale
		}
		best, most := 0, T(0)
		for j := range k.objects {
			if v := overlap(roi[:], k.boxes[4*j:][:4], false); v > most {
				best, most = j, v
			}
		}
		k.draw(int64(k.objects[best]), roi, k.append(int32(i), rois[4*i:][:4])[int(class)*k.side*k.side:][:k.side*k.side])
	}
	if len(k.index) > begin {
		return nil
	}
	for i, class := range labels {
		if class == 0 {
			k.append(int32(i), rois[4*i:][:4])
			break
		}
	}
	return nil
}

// append appends a region whose mask is -1 everywhere, and returns the mask.
func (k *masking[T]) append(at int32, roi []T) []int32 {
	k.regions, k.index = append(k.regions, roi...), append(k.index, at)
	first := len(k.masks)
	for range k.classes * k.side * k.side {
		k.masks = append(k.masks, -1)
	}
	return k.masks[first:]
}

// draw sets the pixels of a mask to 1 that a polygon of the object covers, and others to 0.
func (k *masking[T]) draw(object int64, roi [4]T, mask []int32) {
	clear(mask)
	across, down := float64(k.side)/float64(max(roi[2]-roi[0], 1)), float64(k.side)/float64(max(roi[3]-roi[1], 1))
	for polygon := k.lod[1][object]; polygon < k.lod[1][object+1]; polygon++ {
		first, end := k.lod[2][polygon], k.lod[2][polygon+1]
		clear(k.flips)
		corner := func(at int64) (x, y int64) {
			return fifths(float64(k.points[2*at]-roi[0]) * across), fifths(float64(k.points[2*at+1]-roi[1]) * down)
		}
		for at := first; at < end; at++ {
			next := at + 1
			if next == end {
				next = first
			}
			x, y := corner(at)
			toX, toY := corner(next)
			k.cross(x, y, toX, toY)
		}
		covered := false
		for at := range mask {
			if covered = covered != k.flips[at]; covered {
				mask[at%k.side*k.side+at/k.side] = 1
			}
		}
	}
}

// parts is how many places a pixel has in each direction while polygons are drawn.
const parts = 5

// fifths is the nearest place of a coordinate in pixels. What lies far outside is brought nearer, so that integers hold it.
func fifths(v float64) int64 {
	if !(math.Abs(v) < 1e8) {
		v = math.Copysign(1e8, v)
	}
	return int64(parts*v + 0.5)
}

// cross notes where a side of a polygon crosses the middle of a column of pixels: between the places column*parts+2 and +3. The side is a line of places, one in each column of
// places where it is rather flat, and one in each row where it is rather steep.
func (k *masking[T]) cross(x, y, toX, toY int64) {
	dx, dy := toX-x, toY-y
	flat := max(dx, -dx) >= max(dy, -dy)
	if flat && dx < 0 || !flat && dy < 0 {
		x, y, toX, toY, dx, dy = toX, toY, x, y, -dx, -dy
	}
	if dx == 0 {
		return
	}
	for column := range int64(k.side) {
		at := parts*column + parts/2
		if at < min(x, toX) || at+1 > max(x, toX) {
			continue
		}
		var top int64
		if flat {
			slope := float64(dy) / float64(dx)
			height := func(place int64) int64 { return int64(float64(y) + slope*float64(place-x) + 0.5) }
			top = min(height(at), height(at+1))
		} else {
			slope := float64(dx) / float64(dy)
			beyond := func(t int64) bool { // whether row t from the first is beyond the middle
				u := int64(float64(x) + slope*float64(t) + 0.5)
				return dx > 0 && u > at || dx < 0 && u <= at
			}
			low, high := int64(0), dy // the first row beyond
			for low < high {
				if mid := (low + high) / 2; beyond(mid) {
					high = mid
				} else {
					low = mid + 1
				}
			}
			top = y + low - 1
		}
		row := math.Ceil((float64(top)+0.5)/parts - 0.5)
		flip := int(column)*k.side + int(max(0, min(row, float64(k.side))))
		k.flips[flip] = !k.flips[flip]
	}
}
