package detection

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "yolo_box",
		Doc: "Reads boxes from the output of YOLO v3 (Redmon and Farhadi 2018): X has for each anchor x, y, w, h, a confidence and a score for each class. At place (i, j) of " +
			"an H x W map the centre is ((j + s(x))/W, (i + s(y))/H) of the image, with s the sigmoid, and the width anchor*e**w/(downsample_ratio*W) of it. Scores are " +
			"s(confidence)*s(score). Boxes whose confidence is below conf_thresh are zeros. With iou_aware, X begins with a map of the expected overlap for each anchor, and the " +
			"confidence is s(confidence)**(1 - iou_aware_factor) * s(overlap)**iou_aware_factor.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float [N, anchors*(5 + class_num), H, W], with iou_aware anchors*(6 + class_num) channels"}, {Name: "ImgSize", Doc: "int32 [N, 2]: height and width of each image"}},
		Outputs: []ops.Slot{{Name: "Boxes", Doc: "[N, anchors*H*W, 4], in pixels of the image"},
			{Name: "Scores", Doc: "[N, anchors*H*W, class_num]"}},
		Attrs: []ops.Attr{
			{Name: "anchors", Doc: "width and height of each anchor, in pixels of the input of the network", Default: []int32{}},
			{Name: "class_num", Doc: "number of classes", Kind: int32(0)},
			{Name: "conf_thresh", Doc: "the least confidence of a box", Default: float32(0.01)},
			{Name: "downsample_ratio", Doc: "side of the input of the network over that of X", Default: int32(32)},
			{Name: "clip_bbox", Doc: "whether boxes end at the border of the image", Default: true},
			{Name: "scale_x_y", Doc: "how far centres may leave their place: s becomes s*scale - (scale - 1)/2", Default: float32(1)},
			{Name: "iou_aware", Doc: "whether the confidence follows from an expected overlap, too", Default: false},
			{Name: "iou_aware_factor", Doc: "share of the overlap in the confidence, 0 to 1", Default: float32(0.5)}},
		Infer:     inferYoloBox,
		Cost:      opkit.PerElement(20),
		Bind:      opkit.BindFloats("X", bindYoloBox[float32], bindYoloBox[float64]),
		MixesRows: bothDivided("X", "ImgSize"),
	})
}

func inferYoloBox(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.Rank("X", 4); err != nil {
		return err
	}
	x, size := s.In("X"), s.In("ImgSize")
	if err := opkit.CheckType(s, "ImgSize", size.DType == tensor.Int32, "int32"); err != nil {
		return err
	}
	if !ops.Compatible(size.Dims, []int64{x.Dims[0], 2}) {
		return s.Errorf("ImgSize", "dims [%d, 2], a row for each image of X", x.Dims[0])
	}
	anchors, classes := s.Ints("anchors"), s.Int("class_num")
	if len(anchors) == 0 || len(anchors)%2 != 0 || len(anchors) > mostNumbers {
		return opkit.BadAttr(s, "anchors", "pairs of width and height, up to %d numbers", mostNumbers)
	}
	n, more := int64(len(anchors)/2), int64(5)
	if s.Bool("iou_aware") {
		more = 6
		if f := s.Float("iou_aware_factor"); !(f >= 0 && f <= 1) {
			return opkit.BadAttr(s, "iou_aware_factor", "0 to 1")
		}
	}
	if classes < 1 || classes > math.MaxInt16 || !opkit.Agree(x.Dims[1], n*(more+classes)) {
		return opkit.BadAttr(s, "class_num", "a number with which X %v has %d + class_num channels for each of %d anchors", x.Dims, more, n)
	}
	if ratio := s.Int("downsample_ratio"); ratio < 1 || ratio > math.MaxInt16 {
		return opkit.BadAttr(s, "downsample_ratio", "1 to %d", math.MaxInt16)
	}
	boxes := int64(program.Unknown)
	if places := ops.Product([]int64{n, x.Dims[2], x.Dims[3]}); places >= 0 {
		boxes = places
	}
	s.Set("Boxes", x.DType, x.Dims[0], boxes, 4)
	s.Set("Scores", x.DType, x.Dims[0], boxes, classes)
	return nil
}

func bindYoloBox[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, size, boxes, scores := b.In("X"), b.In("ImgSize"), b.Out("Boxes"), b.Out("Scores")
	dims, anchors, classes := x.Dims(), b.Ints("anchors"), int(b.Int("class_num"))
	height, width := int(dims[2]), int(dims[3])
	plane, perImage := height*width, len(anchors)/2
	threshold, ratio, clip := b.Float("conf_thresh"), float64(b.Int("downsample_ratio")), b.Bool("clip_bbox")
	scale, overlaps, share := b.Float("scale_x_y"), 0, b.Float("iou_aware_factor")
	if b.Bool("iou_aware") {
		overlaps = perImage * plane
	}
	return b.Loops(ops.Loop{N: int(dims[0]) * perImage, Apart: true, Run: func(_, from, to int) error {
		for each := from; each < to; each++ { // an anchor of an image
			in := tensor.Data[T](x)[each*(5+classes)*plane+(each/perImage+1)*overlaps:][:(5+classes)*plane]
			overlap := tensor.Data[T](x)[each/perImage*(perImage*(5+classes)*plane+overlaps)+each%perImage*plane:]
			image, anchor := size.Int32s()[each/perImage*2:][:2], anchors[each%perImage*2:][:2]
			imageHeight, imageWidth := float64(image[0]), float64(image[1])
			for at := range plane {
				confidence := sigmoid(in[4*plane+at])
				if overlaps > 0 {
					confidence = math.Pow(confidence, 1-share) * math.Pow(sigmoid(overlap[at]), share)
				}
				found := confidence >= threshold
				if boxes != nil {
					box := tensor.Data[T](boxes)[(each*plane+at)*4:][:4]
					clear(box)
					if found {
						cx := (float64(at%width) + sigmoid(in[at])*scale - (scale-1)/2) * imageWidth / float64(width)
						cy := (float64(at/width) + sigmoid(in[plane+at])*scale - (scale-1)/2) * imageHeight / float64(height)
						w := math.Exp(float64(in[2*plane+at])) * float64(anchor[0]) * imageWidth / (ratio * float64(width))
						h := math.Exp(float64(in[3*plane+at])) * float64(anchor[1]) * imageHeight / (ratio * float64(height))
						sides := [4]float64{cx - w/2, cy - h/2, cx + w/2, cy + h/2}
						if clip {
							sides[0], sides[1] = max(sides[0], 0), max(sides[1], 0)
							sides[2], sides[3] = min(sides[2], imageWidth-1), min(sides[3], imageHeight-1)
						}
						for k, v := range sides {
							box[k] = T(v)
						}
					}
				}
				if scores != nil {
					row := tensor.Data[T](scores)[(each*plane+at)*classes:][:classes]
					for class := range row {
						row[class] = 0
						if found {
							row[class] = T(confidence * sigmoid(in[(5+class)*plane+at]))
						}
					}
				}
			}
		}
		return nil
	}})
}

func sigmoid[T tensor.Float](x T) float64 { return 1 / (1 + math.Exp(-float64(x))) }
