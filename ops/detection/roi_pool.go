package detection

import (
	"math"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Inputs and attributes of ops that pool regions of feature maps.
var (
	regionInputs = []ops.Slot{
		{Name: "X", Doc: "float [N, C, H, W], feature maps"},
		{Name: "ROIs", Doc: "boxes [R, 4] in pixels of the images; those of an image are a sequence, unless RoisNum is there"},
		{Name: "RoisNum", Doc: "int32 [N], number of boxes of each image, in the order of ROIs", Dispensable: true}}
	regionAttrs = []ops.Attr{
		{Name: "pooled_height", Doc: "height of what a region becomes, at least 1", Default: int32(1)},
		{Name: "pooled_width", Doc: "width of what a region becomes, at least 1", Default: int32(1)},
		{Name: "spatial_scale", Doc: "size of X over that of the images, above 0", Default: float32(1)}}
)

// mostPooled bounds the extents of what a region becomes.
const mostPooled = 1 << 12

// inferRegions returns the dims of the output, R regions of the channels of X.
func inferRegions(s *ops.Shapes) ([]int64, error) {
	if err := boxesOf(s, "ROIs"); err != nil {
		return nil, err
	}
	return inferRegionsOf(s, "X", "pooled")
}

// inferRegionsOf is inferRegions for maps in a slot and for attributes with another name, but leaves it to its caller to check what a row of ROIs is.
func inferRegionsOf(s *ops.Shapes, maps, made string) ([]int64, error) {
	if err := s.IsFloat(maps); err != nil {
		return nil, err
	}
	if err := s.Rank(maps, 4); err != nil {
		return nil, err
	}
	if err := s.SameType(maps, "ROIs"); err != nil {
		return nil, err
	}
	x, rois := s.In(maps), s.In("ROIs")
	for _, extent := range x.Dims[2:] {
		if extent == 0 {
			return nil, s.Errorf(maps, "maps with places")
		}
	}
	images := x.Dims[0]
	if slot, dtype := numbersSlot(s.Op()); s.Has(slot) {
		if err := opkit.CheckType(s, slot, s.In(slot).DType == dtype, dtype.String()); err != nil {
			return nil, err
		}
		if !ops.Compatible(s.In(slot).Dims, []int64{images}) {
			return nil, s.Errorf(slot, "dims [%d], one number for each image", images)
		}
	} else if n, err := s.CountSequences("ROIs"); err != nil {
		return nil, err
	} else if !opkit.Agree(n, images) {
		return nil, s.Errorf("ROIs", "%d sequences, one for each image of %s", images, maps)
	}
	dims := []int64{rois.Dims[0], x.Dims[1], 0, 0}
	for i, name := range []string{made + "_height", made + "_width"} {
		if dims[2+i] = s.Int(name); dims[2+i] < 1 || dims[2+i] > mostPooled {
			return nil, opkit.BadAttr(s, name, "1 to %d", mostPooled)
		}
	}
	if scale := s.Float("spatial_scale"); !(scale > 0) || math.IsInf(scale, 0) {
		return nil, opkit.BadAttr(s, "spatial_scale", "a number above 0")
	}
	return dims, nil
}

// numbersSlot returns the slot that gives the number of boxes of each image, and its type.
func numbersSlot(op *program.Op) (string, tensor.DType) {
	if strings.HasPrefix(op.Type, "prroi_pool") {
		return "BatchRoINums", tensor.Int64
	}
	return "RoisNum", tensor.Int32
}

// integerAt returns an element of a tensor of integers.
func integerAt(t *tensor.Tensor, i int) int64 {
	if t.DType() == tensor.Int32 {
		return int64(t.Int32s()[i])
	}
	return t.Int64s()[i]
}

// A regions knows the image of each region.
type regions struct {
	b           *ops.Binding
	boxes, nums *tensor.Tensor
	image       *tensor.Tensor // int32, of each region, set by locate

	count, images, channels, height, width int // of regions and maps
	pooledHeight, pooledWidth              int
	scale                                  float64
}

func newRegions(b *ops.Binding, x, out []int64) *regions {
	slot, _ := numbersSlot(b.Op())
	return &regions{
		b: b, boxes: b.In("ROIs"), nums: b.In(slot), image: b.Scratch(tensor.Int32, int(out[0])),
		count: int(out[0]), images: int(x[0]), channels: int(x[1]), height: int(x[2]), width: int(x[3]),
		pooledHeight: int(out[2]), pooledWidth: int(out[3]), scale: b.Float("spatial_scale"),
	}
}

// locate is a loop that finds the image of each region. RoisNum comes from outside, so it checks the numbers.
func (r *regions) locate() ops.Loop {
	return ops.Loop{N: 1, Apart: true, Writes: []string{}, Run: func(_, _, _ int) error {
		image, at := r.image.Int32s(), 0
		var offsets []int64
		if r.nums == nil {
			var err error
			if offsets, err = offsetsOf(r.b, "ROIs", r.images); err != nil {
				return err
			}
		}
		for i := range r.images {
			n := 0
			if r.nums != nil {
				n = int(max(min(integerAt(r.nums, i), int64(r.count)+1), -1))
			} else {
				n = int(offsets[i+1] - offsets[i])
			}
			if n < 0 || n > r.count-at {
				return fault.E(fault.InvalidArgument, fault.On(r.b.Op()), fault.Gotf("%d regions of image %d", n, i), fault.Wantf("%d in all", r.count))
			}
			for range n {
				image[at] = int32(i)
				at++
			}
		}
		if at != r.count {
			return fault.E(fault.InvalidArgument, fault.On(r.b.Op()), fault.Gotf("%d regions of all images", at), fault.Wantf("%d, the rows of ROIs", r.count))
		}
		return nil
	}}
}

func init() {
	opkit.Register(ops.Def{
		Type: "roi_pool",
		Doc: "Makes maps of one size from regions of feature maps (Girshick 2015, Fast R-CNN): divides each region into pooled_height x pooled_width bins of whole " +
			"places, which may overlap by one, and takes the largest element of each, 0 of an empty one.",
		Inputs: regionInputs,
		Outputs: []ops.Slot{{Name: "Out", Doc: "[R, C, pooled_height, pooled_width]"},
			{Name: "Argmax", Doc: "int64, of the dims of Out: the place of each element in its map, -1 for none", Intermediate: true}},
		Attrs: regionAttrs,
		Infer: func(s *ops.Shapes) error {
			dims, err := inferRegions(s)
			if err != nil {
				return err
			}
			s.Set("Out", s.In("X").DType, dims...)
			s.Set("Argmax", tensor.Int64, dims...)
			s.ShareLoD("Out", "ROIs")
			return nil
		},
		Bind:      opkit.BindFloats("X", bindRoiPool[float32], bindRoiPool[float64]),
		MixesRows: bothDivided("X", "ROIs"),
		RowsOf:    "ROIs",
	}, opkit.Gradient{
		Doc:     "dX sums, for each place, dOut of the bins whose largest element it has.",
		Inputs:  []string{"X", "ROIs", "RoisNum"},
		Outputs: []string{"Argmax"},
		From:    []string{"Out"},
		Wrt:     []string{"X"},
		Bind:    opkit.BindFloats("X", bindRoiPoolGrad[float32], bindRoiPoolGrad[float64]),
	})
}

// bin returns the places [first, end) of bin i of n along an axis of so many places, for a region from start that is length long.
func bin(i, n, start, length, places int) (first, end int) {
	size := float64(length) / float64(n)
	first = start + int(math.Floor(float64(i)*size))
	end = start + int(math.Ceil(float64(i+1)*size))
	return min(max(first, 0), places), min(max(end, 0), places)
}

// rounded returns a coordinate in places. Huge ones become places far beyond a map.
func (r *regions) rounded(v float64) int {
	if v != v {
		return 0
	}
	return int(min(max(math.Round(v*r.scale), math.MinInt32), math.MaxInt32))
}

func bindRoiPool[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out, argmax := b.In("X"), b.Out("Out"), b.Out("Argmax")
	made := out
	if made == nil {
		made = argmax
	}
	r := newRegions(b, x.Dims(), made.Dims())
	plane, pooled := r.height*r.width, r.pooledHeight*r.pooledWidth
	return b.Loops(r.locate(), ops.Loop{N: r.count, Apart: true, Reads: []string{"X", "ROIs"}, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			box := tensor.Data[T](r.boxes)[4*i:][:4]
			left, top := r.rounded(float64(box[0])), r.rounded(float64(box[1]))
			width, height := max(r.rounded(float64(box[2]))-left+1, 1), max(r.rounded(float64(box[3]))-top+1, 1)
			for c := range r.channels {
				in := tensor.Data[T](x)[(int(r.image.Int32s()[i])*r.channels+c)*plane:][:plane]
				for place := range pooled {
					firstRow, endRow := bin(place/r.pooledWidth, r.pooledHeight, top, height, r.height)
					first, end := bin(place%r.pooledWidth, r.pooledWidth, left, width, r.width)
					best := -1
					for y := firstRow; y < endRow; y++ {
						for k := y*r.width + first; k < y*r.width+end; k++ {
							if best < 0 || in[k] > in[best] {
								best = k
							}
						}
					}
					at := (i*r.channels+c)*pooled + place
					if argmax != nil {
						argmax.Int64s()[at] = int64(best)
					}
					if out != nil {
						tensor.Data[T](out)[at] = 0
						if best >= 0 {
							tensor.Data[T](out)[at] = in[best]
						}
					}
				}
			}
		}
		return nil
	}})
}

func bindRoiPoolGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	argmax, dout, dx := b.In("Argmax"), b.In("Out@GRAD"), b.Out("X@GRAD")
	r := newRegions(b, dx.Dims(), dout.Dims())
	plane, pooled := r.height*r.width, r.pooledHeight*r.pooledWidth
	return b.Loops(r.locate(), ops.Loop{N: r.channels, Apart: true, Reads: []string{"Argmax", "Out@GRAD"}, Run: func(_, from, to int) error {
		for c := from; c < to; c++ {
			for i := range r.images {
				clear(tensor.Data[T](dx)[(i*r.channels+c)*plane:][:plane])
			}
			for i := range r.count {
				image := tensor.Data[T](dx)[(int(r.image.Int32s()[i])*r.channels+c)*plane:][:plane]
				first := (i*r.channels + c) * pooled
				for k, place := range argmax.Int64s()[first:][:pooled] {
					if place >= 0 && place < int64(plane) {
						image[place] += tensor.Data[T](dout)[first+k]
					}
				}
			}
		}
		return nil
	}})
}
