package detection

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "deformable_psroi_pooling",
		Doc: "Makes maps of one size from regions whose parts are moved (Dai et al. 2017, Deformable Convolutional Networks): divides each region into pooled_height x pooled_width bins, moves each bin by " +
			"trans_std*Trans times the size of the region, and takes the mean of sample_per_part x sample_per_part points of it, interpolated linearly. Bin (y, x) of channel c reads channel " +
			"(c*group_size[0] + gy)*group_size[1] + gx, where (gy, gx) is the group of the bin. Points beyond the map by more than half a place do not count.",
		Inputs: []ops.Slot{{Name: "Input", Doc: "float [N, C, H, W], feature maps"},
			{Name: "ROIs", Doc: "boxes [R, 4] in pixels of the images; those of an image are a sequence"},
			{Name: "Trans", Doc: "[R, 2*classes, part_size[0], part_size[1]]: how far the parts of each region move to the right and down; output_dim/classes channels move alike. Not read with no_trans"}},
		Outputs: []ops.Slot{{Name: "TopCount", Doc: "of the dims of Output: the number of points of each bin", Intermediate: true},
			{Name: "Output", Doc: "[R, output_dim, pooled_height, pooled_width]"}},
		Attrs: []ops.Attr{{Name: "no_trans", Doc: "whether bins stay where they are", Kind: false},
			{Name: "spatial_scale", Doc: "size of Input over that of the images, above 0", Kind: float32(0)},
			{Name: "output_dim", Doc: "channels of Output", Kind: int32(0)},
			{Name: "group_size", Doc: "rows and columns of groups of channels", Kind: []int32{}},
			{Name: "pooled_height", Doc: "height of what a region becomes, at least 1", Kind: int32(0)},
			{Name: "pooled_width", Doc: "width of what a region becomes, at least 1", Kind: int32(0)},
			{Name: "part_size", Doc: "rows and columns of parts that move", Kind: []int32{}},
			{Name: "sample_per_part", Doc: "points of a bin along each axis, from 1", Kind: int32(0)},
			{Name: "trans_std", Doc: "factor of Trans, at least 0", Kind: float32(0)}},
		Infer:     inferDeformedRegions,
		Bind:      opkit.BindFloats("Input", bindDeformed[float32], bindDeformed[float64]),
		MixesRows: bothDivided("Input", "ROIs"),
	}, opkit.Gradient{
		Doc: "each element of dOutput gives its share by weight to the places around the points of its bin, and to Trans what the bin would gain by moving. Fluid's gradient finds parts along both axes by the rows of " +
			"part_size along both axes.",
		Inputs: []string{"Input", "ROIs", "Trans"}, Outputs: []string{"TopCount"}, From: []string{"Output"}, Wrt: []string{"Input", "Trans"},
		Bind: opkit.BindFloats("Input", bindDeformedGrad[float32], bindDeformedGrad[float64]),
	})
}

// pair reads an attribute of two numbers, each from 1.
func pair(s *ops.Shapes, name string) ([]int64, error) {
	v := s.Ints(name)
	if len(v) != 2 || min(v[0], v[1]) < 1 || max(v[0], v[1]) > mostPooled {
		return nil, opkit.BadAttr(s, name, "two numbers from 1 to %d", mostPooled)
	}
	return v, nil
}

func inferDeformedRegions(s *ops.Shapes) error {
	if err := boxesOf(s, "ROIs"); err != nil {
		return err
	}
	dims, err := inferRegionsOf(s, "Input", "pooled")
	if err != nil {
		return err
	}
	if err := s.SameType("Input", "Trans"); err != nil {
		return err
	}
	group, err := pair(s, "group_size")
	if err != nil {
		return err
	}
	part, err := pair(s, "part_size")
	if err != nil {
		return err
	}
	channels := s.Int("output_dim")
	if all := dims[1]; channels < 1 || channels > math.MaxInt32 || all >= 0 && channels*group[0]*group[1] > all {
		return opkit.BadAttr(s, "output_dim", "a number from 1 that times group_size is at most the channels of Input, %d", all)
	}
	if n := s.Int("sample_per_part"); n < 1 || n > mostSamples {
		return opkit.BadAttr(s, "sample_per_part", "1 to %d", mostSamples)
	}
	if std := s.Float("trans_std"); !(std >= 0) || math.IsInf(std, 0) {
		return opkit.BadAttr(s, "trans_std", "at least 0")
	}
	if !s.Bool("no_trans") {
		trans := s.In("Trans").Dims
		if !ops.Compatible(trans, []int64{dims[0], program.Unknown, part[0], part[1]}) {
			return s.Errorf("Trans", "dims [%d, 2*classes, %d, %d]", dims[0], part[0], part[1])
		}
		if all := trans[1]; all >= 0 && (all == 0 || all%2 != 0 || channels%(all/2) != 0) {
			return s.Errorf("Trans", "2*classes channels, where classes divides output_dim %d", channels)
		}
	}
	s.Set("Output", s.In("Input").DType, dims[0], channels, dims[2], dims[3])
	s.Set("TopCount", s.In("Input").DType, dims[0], channels, dims[2], dims[3])
	s.ShareLoD("Output", "ROIs")
	return nil
}

// A deformer divides regions into bins that move.
type deformer[T tensor.Float] struct {
	*regions
	trans        *tensor.Tensor // nil: bins stay
	std          float64
	samples      int // points of a bin along each axis
	made         int // channels of the output
	group, part  []int64
	classes      int
	perClass     int // channels that move alike
	transPerArea int // numbers of Trans of a region
}

func newDeformer[T tensor.Float](b *ops.Binding, x, out []int64) *deformer[T] {
	d := &deformer[T]{regions: newRegions(b, x, out), std: b.Float("trans_std"), samples: int(b.Int("sample_per_part")), made: int(out[1]), group: b.Ints("group_size"), part: b.Ints("part_size"), classes: 1}
	if !b.Bool("no_trans") {
		d.trans = b.In("Trans")
		d.classes = int(d.trans.Dims()[1] / 2)
	}
	d.perClass = d.made / d.classes
	d.transPerArea = 2 * d.classes * int(d.part[0]*d.part[1])
	return d
}

// A moved is a bin of a region: where its points begin and how far apart they are, in places of the map.
type moved struct {
	top, left, rowStep, columnStep float64
	height, width                  float64 // of the region
	at                             int     // of the horizontal move in Trans; the vertical one follows after a part
}

// bin returns a bin of region i and a channel of the output.
func (d *deformer[T]) bin(i, channel, row, column int) (m moved) {
	box := boxAt(tensor.Data[T](d.boxes), i)
	side := func(v float64) float64 { return math.Round(v)*d.scale - 0.5 }
	m.top, m.left = side(box[1]), side(box[0])
	m.height, m.width = max(side(box[3]+1)-m.top, 0.1), max(side(box[2]+1)-m.left, 0.1)
	binHeight, binWidth := m.height/float64(d.pooledHeight), m.width/float64(d.pooledWidth)
	m.rowStep, m.columnStep = binHeight/float64(d.samples), binWidth/float64(d.samples)
	m.top += float64(row) * binHeight
	m.left += float64(column) * binWidth
	if d.trans != nil {
		y, x := row*int(d.part[0])/d.pooledHeight, column*int(d.part[1])/d.pooledWidth
		m.at = i*d.transPerArea + ((channel/d.perClass*2)*int(d.part[0])+y)*int(d.part[1]) + x
		m.left += float64(tensor.Data[T](d.trans)[m.at]) * d.std * m.width
		m.top += float64(tensor.Data[T](d.trans)[m.at+int(d.part[0]*d.part[1])]) * d.std * m.height
	}
	return m
}

// point returns the places around point k of a bin; ok is false for one that does not count.
func (d *deformer[T]) point(m *moved, k int) (y, x taps, ok bool) {
	h, w := m.top+float64(k/d.samples)*m.rowStep, m.left+float64(k%d.samples)*m.columnStep
	if !(h >= -0.5 && h <= float64(d.height)-0.5 && w >= -0.5 && w <= float64(d.width)-0.5) {
		return y, x, false
	}
	y, _ = tapsAt(max(h, 0), d.height)
	x, _ = tapsAt(max(w, 0), d.width)
	return y, x, true
}

// reads returns the channel of Input that a bin of a channel reads.
func (d *deformer[T]) reads(channel, row, column int) int {
	return (channel*int(d.group[0])+row*int(d.group[0])/d.pooledHeight)*int(d.group[1]) + column*int(d.group[1])/d.pooledWidth
}

func bindDeformed[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	input, out, count := b.In("Input"), b.Out("Output"), b.Out("TopCount")
	dims := append([]int64{b.In("ROIs").Dims()[0], b.Int("output_dim")}, b.Int("pooled_height"), b.Int("pooled_width"))
	d := newDeformer[T](b, input.Dims(), dims)
	pooled, plane := d.pooledHeight*d.pooledWidth, d.height*d.width
	return b.Loops(d.locate(), ops.Loop{N: d.count, Apart: true, Reads: []string{"Input", "ROIs", "Trans"}, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			maps := tensor.Data[T](input)[int(d.image.Int32s()[i])*d.channels*plane:][:d.channels*plane]
			for k := range d.made * pooled {
				channel, row, column := k/pooled, k%pooled/d.pooledWidth, k%d.pooledWidth
				m := d.bin(i, channel, row, column)
				in, sum, n := maps[d.reads(channel, row, column)*plane:][:plane], 0.0, 0
				for s := range d.samples * d.samples {
					y, x, ok := d.point(&m, s)
					if !ok {
						continue
					}
					upper, lower := y.low*d.width, y.high*d.width
					sum += y.lowWeight*(x.lowWeight*float64(in[upper+x.low])+x.highWeight*float64(in[upper+x.high])) +
						y.highWeight*(x.lowWeight*float64(in[lower+x.low])+x.highWeight*float64(in[lower+x.high]))
					n++
				}
				if out != nil {
					tensor.Data[T](out)[i*d.made*pooled+k] = T(sum / float64(max(n, 1)))
				}
				if count != nil {
					tensor.Data[T](count)[i*d.made*pooled+k] = T(n)
				}
			}
		}
		return nil
	}})
}

func bindDeformedGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	input, count, dout, dinput, dtrans := b.In("Input"), b.In("TopCount"), b.In("Output@GRAD"), b.Out("Input@GRAD"), b.Out("Trans@GRAD")
	d := newDeformer[T](b, input.Dims(), dout.Dims())
	pooled, plane, groups := d.pooledHeight*d.pooledWidth, d.height*d.width, int(d.group[0]*d.group[1])
	share := func(i, channel, place int) float64 {
		at := (i*d.made+channel)*pooled + place
		return float64(tensor.Data[T](dout)[at]) / max(float64(tensor.Data[T](count)[at]), 1)
	}
	loops := []ops.Loop{d.locate()}
	if dinput != nil {
		loops = append(loops, ops.Loop{N: d.channels, Apart: true, Writes: []string{"Input@GRAD"}, Run: func(_, from, to int) error {
			all := tensor.Data[T](dinput)
			for c := from; c < to; c++ {
				for image := range d.images {
					clear(all[(image*d.channels+c)*plane:][:plane])
				}
				channel := c / groups
				if channel >= d.made {
					continue // which no bin reads
				}
				for k := range d.count * pooled {
					i, row, column := k/pooled, k%pooled/d.pooledWidth, k%d.pooledWidth
					if d.reads(channel, row, column) != c {
						continue
					}
					m, g := d.bin(i, channel, row, column), share(i, channel, k%pooled)
					to := all[(int(d.image.Int32s()[i])*d.channels+c)*plane:][:plane]
					for s := range d.samples * d.samples {
						if y, x, ok := d.point(&m, s); ok {
							to[y.low*d.width+x.low] += T(g * y.lowWeight * x.lowWeight)
							to[y.low*d.width+x.high] += T(g * y.lowWeight * x.highWeight)
							to[y.high*d.width+x.low] += T(g * y.highWeight * x.lowWeight)
							to[y.high*d.width+x.high] += T(g * y.highWeight * x.highWeight)
						}
					}
				}
			}
			return nil
		}})
	}
	if dtrans != nil {
		each := dtrans.Len() / max(d.count, 1)
		loops = append(loops, ops.Loop{N: d.count, Apart: true, Writes: []string{"Trans@GRAD"}, Run: func(_, from, to int) error {
			all := tensor.Data[T](dtrans)
			clear(all[from*each : to*each])
			for k := from * d.made * pooled; d.trans != nil && k < to*d.made*pooled; k++ {
				i, channel, row, column := k/pooled/d.made, k/pooled%d.made, k%pooled/d.pooledWidth, k%d.pooledWidth
				m, g := d.bin(i, channel, row, column), share(i, channel, k%pooled)*d.std
				in := tensor.Data[T](input)[(int(d.image.Int32s()[i])*d.channels+d.reads(channel, row, column))*plane:][:plane]
				right, down := 0.0, 0.0
				for s := range d.samples * d.samples {
					y, x, ok := d.point(&m, s)
					if !ok {
						continue
					}
					at := func(row, column int) float64 { return float64(in[row*d.width+column]) }
					if x.highWeight > 0 { // the value does not change beyond the border, and at a place Fluid takes it not to
						right += y.lowWeight*(at(y.low, x.high)-at(y.low, x.low)) + y.highWeight*(at(y.high, x.high)-at(y.high, x.low))
					}
					if y.highWeight > 0 {
						down += x.lowWeight*(at(y.high, x.low)-at(y.low, x.low)) + x.highWeight*(at(y.high, x.high)-at(y.low, x.high))
					}
				}
				all[m.at] += T(g * right * m.width)
				all[m.at+int(d.part[0]*d.part[1])] += T(g * down * m.height)
			}
			return nil
		}})
	}
	return b.Loops(loops...)
}
