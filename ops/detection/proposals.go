package detection

import (
	"context"
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// largestGrowth is the logarithm of how much wider or higher than its anchor a box may be.
var largestGrowth = math.Log(1000. / 16)

func init() {
	registerProposals("generate_proposals", ops.Slot{Name: "ImInfo", Doc: "[N, 3]: height, width and scale of each image"}, nil,
		" Sides are counted in pixels of the original image.")
	registerProposals("generate_proposals_v2", ops.Slot{Name: "ImShape", Doc: "[N, 2]: height and width of each image"},
		[]ops.Attr{{Name: "pixel_offset", Doc: "whether a box includes the pixels of both sides", Default: true}}, "")
}

// registerProposals adds one generation of generate_proposals.
func registerProposals(name string, image ops.Slot, attrs []ops.Attr, note string) {
	ops.Register(ops.Def{
		Type: name, Class: ops.Control, Exempt: ops.FoundRows,
		Doc: "Finds regions of images that may hold objects (Ren et al. 2015, Faster R-CNN): takes the pre_nms_topN boxes of an image with the largest scores, reads them relative to their " +
			"anchors, limits them to the image, drops those with a side below min_size, and keeps the best post_nms_topN of boxes that overlap by more than nms_thresh." + note +
			" An image without boxes gets one of zeros.",
		Inputs: []ops.Slot{{Name: "Scores", Doc: "float [N, A, H, W]"}, {Name: "BboxDeltas", Doc: "[N, 4*A, H, W]: codes of boxes"}, image,
			{Name: "Anchors", Doc: "[H, W, A, 4]"}, {Name: "Variances", Doc: "as Anchors: factors of the codes"}},
		Outputs: []ops.Slot{{Name: "RpnRois", Doc: "[rows, 4], those of an image a sequence"}, {Name: "RpnRoiProbs", Doc: "[rows, 1]: their scores"},
			{Name: "RpnRoisNum", Doc: "int32 [N]: how many boxes each image has", Dispensable: true}},
		Attrs: append([]ops.Attr{{Name: "pre_nms_topN", Doc: "boxes of an image that are looked at; up to 0 for all", Default: int32(6000)},
			{Name: "post_nms_topN", Doc: "the most boxes of an image; up to 0 for all", Default: int32(1000)},
			{Name: "nms_thresh", Doc: "the largest overlap of boxes that are both kept; up to 0 keeps all", Default: float32(0.5)},
			{Name: "min_size", Doc: "the least side of a box; below 1 counts as 1", Default: float32(0.1)},
			{Name: "eta", Doc: "what nms_thresh is multiplied by after each box that is kept, as long as it is above 0.5", Default: float32(1)}}, attrs...),
		Infer:     func(s *ops.Shapes) error { return inferProposals(s, image.Name) },
		Bind:      byFloat("Scores", bindProposals[float32](image.Name), bindProposals[float64](image.Name)),
		MixesRows: opkit.Mixes,
		Finds:     &ops.Finding{Rows: map[string]string{"RpnRois": "RpnRois", "RpnRoiProbs": "RpnRois"}},
	})
}

func inferProposals(s *ops.Shapes, image string) error {
	if err := s.IsFloat("Scores"); err != nil {
		return err
	}
	if err := s.SameType("Scores", "BboxDeltas", image, "Anchors", "Variances"); err != nil {
		return err
	}
	for _, slot := range []string{"Scores", "BboxDeltas"} {
		if err := s.Rank(slot, 4); err != nil {
			return err
		}
	}
	if err := s.Rank(image, 2); err != nil {
		return err
	}
	if err := opkit.SameShape(s, "Anchors", "Variances"); err != nil {
		return err
	}
	if !(s.Float("eta") > 0) {
		return opkit.UnsupportedAttr(s, "eta", "above 0; from 1 on the threshold stays")
	}
	dtype := s.In("Scores").DType
	s.SetAt("RpnRois", 0, rowsMeta(dtype, 4))
	s.SetAt("RpnRoiProbs", 0, rowsMeta(dtype, 1))
	s.Set("RpnRoisNum", tensor.Int32, s.In("Scores").Dims[0])
	return nil
}

// A proposing holds what generate_proposals needs for one image.
type proposing[T tensor.Float] struct {
	before, after      int
	least              T
	overlapLimit, fade T
	normalized         bool
	image              []T // height, width and, of the first generation, scale
	scaled, pixels     bool

	boxes        []T
	sorted, best []detection[T]
	anchors      int // of a place
	places       int
	kept         []T
	probable     []T
}

func bindProposals[T tensor.Float](imageSlot string) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		scores, deltas, image, anchors, variances := b.In("Scores"), b.In("BboxDeltas"), b.In(imageSlot), b.In("Anchors"), b.In("Variances")
		rois, probs, nums := b.Out("RpnRois"), b.Out("RpnRoiProbs"), b.Out("RpnRoisNum")
		p := &proposing[T]{before: int(b.Int("pre_nms_topN")), after: int(b.Int("post_nms_topN")), least: T(max(b.Float("min_size"), 1)), scaled: imageSlot == "ImInfo", pixels: true}
		if !p.scaled {
			p.pixels = b.Bool("pixel_offset")
		}
		p.overlapLimit, p.fade, p.normalized = T(b.Float("nms_thresh")), T(b.Float("eta")), !p.pixels
		numbers := 2
		if p.scaled {
			numbers = 3
		}
		var m maker
		offsets := []int64{0}
		return func(context.Context) error {
			dims := scores.Dims()
			n := int(dims[0])
			p.anchors, p.places = int(dims[1]), int(dims[2]*dims[3])
			each := p.anchors * p.places
			for _, c := range []struct {
				slot string
				t    *tensor.Tensor
				n    int
			}{{"BboxDeltas", deltas, 4 * n * each}, {imageSlot, image, numbers * n}, {"Anchors", anchors, 4 * each}, {"Variances", variances, 4 * each}} {
				if err := sized(b, c.slot, c.t, c.n); err != nil {
					return err
				}
			}
			p.kept, p.probable, offsets = p.kept[:0], p.probable[:0], offsets[:1]
			for i := range n {
				p.image = tensor.Data[T](image)[i*numbers:][:numbers]
				p.find(tensor.Data[T](scores)[i*each:][:each], tensor.Data[T](deltas)[i*4*each:][:4*each], tensor.Data[T](anchors), tensor.Data[T](variances))
				offsets = append(offsets, int64(len(p.probable)))
			}
			if err := makeRows(&m, rois, p.kept, 4, offsets); err != nil {
				return err
			}
			if err := makeRows(&m, probs, p.probable, 1, offsets); err != nil {
				return err
			}
			return makeCounts(&m, nums, offsets)
		}, nil
	}
}

// find appends the boxes of one image that are kept, and their scores.
func (p *proposing[T]) find(scores, deltas, anchors, variances []T) {
	p.sorted = p.sorted[:0]
	for at := range p.places {
		for a := range p.anchors {
			p.sorted = append(p.sorted, detection[T]{score: scores[a*p.places+at], box: int32(at*p.anchors + a)})
		}
	}
	slices.SortStableFunc(p.sorted, descending[T])
	if p.before > 0 && p.before < len(p.sorted) {
		p.sorted = p.sorted[:p.before]
	}
	p.boxes = grow(p.boxes, 4*len(p.sorted))
	left := p.sorted[:0]
	for _, d := range p.sorted {
		at, a := int(d.box)/p.anchors, int(d.box)%p.anchors
		var code [4]T
		for k := range code {
			code[k] = deltas[(4*a+k)*p.places+at]
		}
		box := p.boxes[4*len(left):][:4]
		p.decode(box, code, anchors[4*d.box:][:4], variances[4*d.box:][:4])
		if p.fits(box) {
			left = append(left, detection[T]{score: d.score, box: int32(len(left))})
		}
	}
	if len(left) == 0 {
		p.kept, p.probable = append(p.kept, 0, 0, 0, 0), append(p.probable, 0)
		return
	}
	if p.overlapLimit > 0 {
		p.best = suppress(p.best[:0], left, p.boxes, p.overlapLimit, p.fade, p.normalized)
		if left = p.best; p.after > 0 && p.after < len(left) {
			left = left[:p.after]
		}
	}
	for _, d := range left {
		p.kept, p.probable = append(p.kept, p.boxes[4*d.box:][:4]...), append(p.probable, d.score)
	}
}

// decode reads a box relative to an anchor and limits it to the image.
func (p *proposing[T]) decode(box []T, code [4]T, anchor, variance []T) {
	w, h := span(anchor[0], anchor[2], !p.pixels), span(anchor[1], anchor[3], !p.pixels)
	x, y := variance[0]*code[0]*w+anchor[0]+w/2, variance[1]*code[1]*h+anchor[1]+h/2
	w *= T(math.Exp(min(float64(variance[2]*code[2]), largestGrowth)))
	h *= T(math.Exp(min(float64(variance[3]*code[3]), largestGrowth)))
	last := T(0)
	if p.pixels {
		last = 1
	}
	right, bottom := p.image[1]-last, p.image[0]-last
	box[0], box[1] = max(min(x-w/2, right), 0), max(min(y-h/2, bottom), 0)
	box[2], box[3] = max(min(x+w/2-last, right), 0), max(min(y+h/2-last, bottom), 0)
}

// fits reports whether a box is large enough and has its centre within the image.
func (p *proposing[T]) fits(box []T) bool {
	w, h := span(box[0], box[2], !p.pixels), span(box[1], box[3], !p.pixels)
	if !p.pixels {
		return w >= p.least && h >= p.least
	}
	x, y := box[0]+w/2, box[1]+h/2
	if p.scaled {
		w, h = (box[2]-box[0])/p.image[2]+1, (box[3]-box[1])/p.image[2]+1
	}
	return w >= p.least && h >= p.least && x <= p.image[1] && y <= p.image[0]
}
