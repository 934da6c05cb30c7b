package detection

import (
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "psroi_pool",
		Doc: "Makes maps of one size from regions of feature maps, with channels of its own for each place (Dai et al. 2016, R-FCN): divides each region into pooled_height x pooled_width bins, and " +
			"takes the mean of bin (y, x) of channel (c*pooled_height + y)*pooled_width + x as element (c, y, x).",
		Inputs:  regionInputs,
		Outputs: []ops.Slot{{Name: "Out", Doc: "[R, output_channels, pooled_height, pooled_width]"}},
		Attrs:   append([]ops.Attr{{Name: "output_channels", Doc: "channels of Out", Kind: int32(0)}}, regionAttrs...),
		Infer: func(s *ops.Shapes) error {
			dims, err := inferRegions(s)
			if err != nil {
				return err
			}
			channels := s.Int("output_channels")
			if channels < 1 || channels > math.MaxInt32 || !opkit.Agree(ops.Product([]int64{channels, dims[2], dims[3]}), dims[1]) {
				return opkit.BadAttr(s, "output_channels", "a number that times pooled_height times pooled_width makes the channels of X %v", s.In("X").Dims)
			}
			dims[1] = channels
			s.Set("Out", s.In("X").DType, dims...)
			s.ShareLoD("Out", "ROIs")
			return nil
		},
		Bind:      opkit.BindFloats("X", bindPSRoi[float32], bindPSRoi[float64]),
		MixesRows: bothDivided("X", "ROIs"),
		RowsOf:    "ROIs",
	}, opkit.Gradient{
		Doc: "each element of dOut gives its share to the places of its bin.", Inputs: []string{"X", "ROIs", "RoisNum"}, Wrt: []string{"X"},
		Bind: opkit.BindFloats("X", bindPSRoiGrad[float32], bindPSRoiGrad[float64]),
	})
	inputs := slices.Clone(regionInputs)
	inputs[2] = ops.Slot{Name: "BatchRoINums", Doc: "int64 [N], number of boxes of each image, in the order of ROIs", Dispensable: true}
	opkit.Register(ops.Def{
		Type: "prroi_pool",
		Doc: "Makes maps of one size from regions of feature maps without rounding (Jiang et al. 2018, Precise RoI Pooling): takes the integral of the map, interpolated linearly between its places and 0 " +
			"beyond them, over each bin, divided by the area of the bin. A region without area gives 0.",
		Inputs:  inputs,
		Outputs: []ops.Slot{{Name: "Out", Doc: "[R, C, pooled_height, pooled_width]"}},
		Attrs:   regionAttrs,
		Infer: func(s *ops.Shapes) error {
			dims, err := inferRegions(s)
			if err != nil {
				return err
			}
			s.Set("Out", s.In("X").DType, dims...)
			s.ShareLoD("Out", "ROIs")
			return nil
		},
		Bind:      opkit.BindFloats("X", bindPrRoi[float32], bindPrRoi[float64]),
		MixesRows: bothDivided("X", "ROIs"),
		RowsOf:    "ROIs",
	}, opkit.Gradient{
		Doc:    "each element of dOut gives its share by weight to the places of its bin, and to the sides of the region the mean along that side of the bin less Out.",
		Inputs: []string{"X", "ROIs", "BatchRoINums"}, Outputs: []string{"Out"}, Wrt: []string{"X", "ROIs"},
		Bind: opkit.BindFloats("X", bindPrRoiGrad[float32], bindPrRoiGrad[float64]),
	})
}

// bin returns the places [from, to) of an axis that bin k of n covers.
func (r *regions) bin(first, last float64, k, n, places int) (from, to int) {
	start := math.Round(first) * r.scale
	size := max((math.Round(last)+1)*r.scale-start, 0.1) / float64(n)
	limit := func(v float64) int {
		if !(v > 0) {
			return 0
		}
		return int(min(v, float64(places)))
	}
	return limit(math.Floor(float64(k)*size + start)), limit(math.Ceil(float64(k+1)*size + start))
}

func bindPSRoi[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out := b.In("X"), b.Out("Out")
	r := newRegions(b, x.Dims(), out.Dims())
	pooled, plane, channels := r.pooledHeight*r.pooledWidth, r.height*r.width, int(out.Dims()[1])
	return b.Loops(r.locate(), ops.Loop{N: r.count, Apart: true, Reads: []string{"X", "ROIs"}, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			box, maps := boxAt(tensor.Data[T](r.boxes), i), tensor.Data[T](x)[int(r.image.Int32s()[i])*r.channels*plane:][:r.channels*plane]
			for place := range pooled {
				top, bottom := r.bin(box[1], box[3], place/r.pooledWidth, r.pooledHeight, r.height)
				left, right := r.bin(box[0], box[2], place%r.pooledWidth, r.pooledWidth, r.width)
				for c := range channels {
					sum, in := 0.0, maps[(c*pooled+place)*plane:][:plane]
					for row := top; row < bottom; row++ {
						for column := left; column < right; column++ {
							sum += float64(in[row*r.width+column])
						}
					}
					if bottom > top && right > left {
						sum /= float64((bottom - top) * (right - left))
					}
					tensor.Data[T](out)[(i*channels+c)*pooled+place] = T(sum)
				}
			}
		}
		return nil
	}})
}

func bindPSRoiGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx := b.In("Out@GRAD"), b.Out("X@GRAD")
	r := newRegions(b, dx.Dims(), dout.Dims())
	pooled, plane, channels := r.pooledHeight*r.pooledWidth, r.height*r.width, int(dout.Dims()[1])
	return b.Loops(r.locate(), ops.Loop{N: r.channels, Apart: true, Reads: []string{"ROIs", "Out@GRAD"}, Run: func(_, from, to int) error {
		made := tensor.Data[T](dx)
		for channel := from; channel < to; channel++ {
			for image := range r.images {
				clear(made[(image*r.channels+channel)*plane:][:plane])
			}
			place := channel % pooled
			for i := range r.count {
				box := boxAt(tensor.Data[T](r.boxes), i)
				top, bottom := r.bin(box[1], box[3], place/r.pooledWidth, r.pooledHeight, r.height)
				left, right := r.bin(box[0], box[2], place%r.pooledWidth, r.pooledWidth, r.width)
				if bottom <= top || right <= left {
					continue
				}
				share := tensor.Data[T](dout)[(i*channels+channel/pooled)*pooled+place] / T((bottom-top)*(right-left))
				to := made[(int(r.image.Int32s()[i])*r.channels+channel)*plane:][:plane]
				for row := top; row < bottom; row++ {
					for column := left; column < right; column++ {
						to[row*r.width+column] += share
					}
				}
			}
		}
		return nil
	}})
}

// An interval is a bin along an axis of a map.
type interval struct {
	start, end float64
	from, to   int // the places with a weight
}

// interval returns bin k of n of a region along an axis.
func (r *regions) interval(first, last float64, k, n, places int) (v interval) {
	size := max((last-first)*r.scale, 0) / float64(n)
	v.start = first*r.scale + float64(k)*size
	v.end = v.start + size
	if v.start < float64(places) && v.end > -1 {
		v.from, v.to = int(max(math.Floor(v.start), 0)), int(min(math.Ceil(v.end), float64(places-1)))+1
	}
	return v
}

// weight is the integral over the interval of the part that a place has in what lies between places.
func (v *interval) weight(place int) float64 {
	until := func(x float64) float64 { // of the integral of max(0, 1 - |x|)
		switch {
		case x <= -1:
			return 0
		case x <= 0:
			return (x + 1) * (x + 1) / 2
		case x < 1:
			return 1 - (1-x)*(1-x)/2
		}
		return 1
	}
	return until(v.end-float64(place)) - until(v.start-float64(place))
}

// tent is the part that a place has in what lies at x.
func tent(x float64, place int) float64 { return max(0, 1-math.Abs(x-float64(place))) }

// sumsOf adds up what lies in a bin of a map, with the weights that two functions give rows and columns.
func sumsOf[T tensor.Float](in []T, width int, y, x interval, ofRow, ofColumn func(int) float64) float64 {
	sum := 0.0
	for row := y.from; row < y.to; row++ {
		line, w := 0.0, ofRow(row)
		for column := x.from; column < x.to; column++ {
			line += ofColumn(column) * float64(in[row*width+column])
		}
		sum += w * line
	}
	return sum
}

func bindPrRoi[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out := b.In("X"), b.Out("Out")
	r := newRegions(b, x.Dims(), out.Dims())
	pooled, plane := r.pooledHeight*r.pooledWidth, r.height*r.width
	return b.Loops(r.locate(), ops.Loop{N: r.count, Apart: true, Reads: []string{"X", "ROIs"}, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			box, maps := boxAt(tensor.Data[T](r.boxes), i), tensor.Data[T](x)[int(r.image.Int32s()[i])*r.channels*plane:][:r.channels*plane]
			for place := range pooled {
				v, u := r.interval(box[1], box[3], place/r.pooledWidth, r.pooledHeight, r.height), r.interval(box[0], box[2], place%r.pooledWidth, r.pooledWidth, r.width)
				area := (v.end - v.start) * (u.end - u.start)
				for c := range r.channels {
					sum := 0.0
					if area > 0 {
						sum = sumsOf(maps[c*plane:][:plane], r.width, v, u, v.weight, u.weight) / area
					}
					tensor.Data[T](out)[(i*r.channels+c)*pooled+place] = T(sum)
				}
			}
		}
		return nil
	}})
}

func bindPrRoiGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, made, dout, dx, drois := b.In("X"), b.In("Out"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Out(program.GradName("ROIs"))
	r := newRegions(b, x.Dims(), dout.Dims())
	pooled, plane := r.pooledHeight*r.pooledWidth, r.height*r.width
	loops := []ops.Loop{r.locate()}
	bin := func(i, place int) (v, u interval, area float64) {
		box := boxAt(tensor.Data[T](r.boxes), i)
		v, u = r.interval(box[1], box[3], place/r.pooledWidth, r.pooledHeight, r.height), r.interval(box[0], box[2], place%r.pooledWidth, r.pooledWidth, r.width)
		return v, u, (v.end - v.start) * (u.end - u.start)
	}
	if dx != nil {
		loops = append(loops, ops.Loop{N: r.channels, Apart: true, Writes: []string{"X@GRAD"}, Run: func(_, from, to int) error {
			all := tensor.Data[T](dx)
			for c := from; c < to; c++ {
				for image := range r.images {
					clear(all[(image*r.channels+c)*plane:][:plane])
				}
				for i := range r.count {
					to := all[(int(r.image.Int32s()[i])*r.channels+c)*plane:][:plane]
					for place := range pooled {
						v, u, area := bin(i, place)
						share := float64(tensor.Data[T](dout)[(i*r.channels+c)*pooled+place]) / area
						for row := v.from; area > 0 && row < v.to; row++ {
							w := share * v.weight(row)
							for column := u.from; column < u.to; column++ {
								to[row*r.width+column] += T(w * u.weight(column))
							}
						}
					}
				}
			}
			return nil
		}})
	}
	if drois != nil {
		loops = append(loops, ops.Loop{N: r.count, Apart: true, Writes: []string{"ROIs@GRAD"}, Run: func(_, from, to int) error {
			for i := from; i < to; i++ {
				var sides [4]float64 // left, top, right, bottom
				maps := tensor.Data[T](x)[int(r.image.Int32s()[i])*r.channels*plane:][:r.channels*plane]
				for place := range pooled {
					v, u, area := bin(i, place)
					if !(area > 0) {
						continue
					}
					// How far the first side of the region moves the start and the end of the bin; the last side moves them by the rest.
					row, column := float64(place/r.pooledWidth), float64(place%r.pooledWidth)
					topStart, topEnd := 1-row/float64(r.pooledHeight), 1-(row+1)/float64(r.pooledHeight)
					leftStart, leftEnd := 1-column/float64(r.pooledWidth), 1-(column+1)/float64(r.pooledWidth)
					for c := range r.channels {
						in, at := maps[c*plane:][:plane], (i*r.channels+c)*pooled+place
						mean, d := float64(tensor.Data[T](made)[at]), float64(tensor.Data[T](dout)[at])*r.scale
						along := func(own interval, side float64, wide interval, rows bool) float64 {
							edge := func(k int) float64 { return tent(side, k) }
							length := wide.end - wide.start
							if rows {
								return sumsOf(in, r.width, own, wide, edge, wide.weight)/area - mean*length/area
							}
							return sumsOf(in, r.width, wide, own, wide.weight, edge)/area - mean*length/area
						}
						start, end := -along(v, v.start, u, true), along(v, v.end, u, true)
						sides[1] += d * (start*topStart + end*topEnd)
						sides[3] += d * (start*(1-topStart) + end*(1-topEnd))
						start, end = -along(u, u.start, v, false), along(u, u.end, v, false)
						sides[0] += d * (start*leftStart + end*leftEnd)
						sides[2] += d * (start*(1-leftStart) + end*(1-leftEnd))
					}
				}
				for k, v := range sides {
					tensor.Data[T](drois)[4*i+k] = T(v)
				}
			}
			return nil
		}})
	}
	return b.Loops(loops...)
}
