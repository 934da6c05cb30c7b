package nn

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	registerDeformable("deformable_conv", true)
	registerDeformable("deformable_conv_v1", false)
}

// registerDeformable adds deformable_conv, or its first generation, which has no mask.
func registerDeformable(name string, masked bool) {
	doc := "A convolution that looks beside its places (Dai et al. 2017): each element of the window reads the image at its place plus an offset of its own, interpolated linearly between four " +
		"pixels, 0 beyond the border."
	inputs := []ops.Slot{{Name: "Input", Doc: "float [N, C, H, W]"},
		{Name: "Offset", Doc: "[N, deformable_groups*window*2, height, width of Output]: for each element of the window how far down and to the right"},
		{Name: "Filter", Doc: "[filters, C/groups, window height, window width]"}}
	all := []string{"Input", "Offset", "Filter"}
	if masked {
		doc += " What it reads is multiplied by Mask (Zhu et al. 2018)."
		inputs = append(inputs, ops.Slot{Name: "Mask", Doc: "[N, deformable_groups*window, height, width of Output]"})
		all = append(all, "Mask")
	}
	opkit.Register(ops.Def{
		Type: name, Doc: doc, Inputs: inputs,
		Outputs: []ops.Slot{{Name: "Output", Doc: "[N, filters, height, width]"}},
		Attrs: []ops.Attr{{Name: "strides", Doc: "steps of the filter along each axis, at least 1", Default: []int32{1, 1}},
			{Name: "paddings", Doc: "zeros on both sides of each axis", Default: []int32{0, 0}},
			{Name: "dilations", Doc: "distances between the elements of the filter, at least 1", Default: []int32{1, 1}},
			{Name: "groups", Doc: "groups of channels that do not see each other", Default: int32(1)},
			{Name: "deformable_groups", Doc: "groups of channels with offsets of their own", Default: int32(1)},
			{Name: "im2col_step", Doc: "in Fluid, how many images are computed at a time; has no effect", Default: int32(64)}},
		Infer:     inferDeformable,
		MixesRows: opkit.RowsTogether(append([]string{"Input", "Offset"}, all[3:]...)...),
		Cost: func(s *ops.Shapes) ops.Cost {
			return ops.Cost{Flops: opkit.Size([]int64{2, opkit.Size(s.Outs("Output")[0].Dims), opkit.Size(s.In("Filter").Dims[1:])}), Bytes: opkit.Bytes(s)}
		},
		Bind: opkit.BindFloats("Input", bindDeformable[float32], bindDeformable[float64]),
	}, opkit.Gradient{
		Doc:    "each product gives dOutput*Filter to what it has read, and so to pixels, offsets and mask, and dOutput times that to dFilter.",
		Inputs: all, Wrt: all, Cost: opkit.PerElement(100),
		Bind: opkit.BindFloats("Input", bindDeformableGrad[float32], bindDeformableGrad[float64]),
	})
}

func inferDeformable(s *ops.Shapes) error {
	if err := s.IsFloat("Input"); err != nil {
		return err
	}
	if err := s.SameType("Input", "Offset", "Filter", "Mask"); err != nil {
		return err
	}
	for _, slot := range []string{"Input", "Offset", "Filter"} {
		if err := s.Rank(slot, 4); err != nil {
			return err
		}
	}
	x, f := s.In("Input").Dims, s.In("Filter").Dims
	groups, own := s.Int("groups"), s.Int("deformable_groups")
	if groups < 1 || f[0] >= 0 && f[0]%groups != 0 || groups > mostWindow || x[1] >= 0 && f[1] >= 0 && ops.Product([]int64{f[1], groups}) != x[1] {
		return opkit.BadAttr(s, "groups", "a number that divides filters and channels, with which Filter %v fits Input %v", f, x)
	}
	if own < 1 || own > mostWindow || x[1] >= 0 && x[1]%own != 0 {
		return opkit.BadAttr(s, "deformable_groups", "a number that divides the channels of Input %v", x)
	}
	places := []int64{program.Unknown, program.Unknown}
	for name, least := range opkit.InOrder(map[string]int64{"strides": 1, "paddings": 0, "dilations": 1}) {
		list := s.Ints(name)
		if len(list) != 2 || min(list[0], list[1]) < least || max(list[0], list[1]) > mostWindow {
			return opkit.BadAttr(s, name, "two numbers from %d to %d", least, mostWindow)
		}
	}
	for i := range places {
		if in, window := x[2+i], f[2+i]; in >= 0 && window >= 0 {
			room := in + 2*s.Ints("paddings")[i] - s.Ints("dilations")[i]*(window-1) - 1
			if window < 1 || window > mostWindow || room < 0 || in == 0 {
				return s.Errorf("Filter", "a window that fits into the images of Input %v", x)
			}
			places[i] = room/s.Ints("strides")[i] + 1
		}
	}
	window := ops.Product(f[2:])
	for slot, numbers := range opkit.InOrder(map[string]int64{"Offset": 2, "Mask": 1}) {
		want := []int64{x[0], ops.Product([]int64{own, window, numbers}), places[0], places[1]}
		if s.Has(slot) && !ops.Compatible(s.In(slot).Dims, want) {
			return s.Errorf(slot, "dims %v", want)
		}
	}
	for i, extent := range s.In("Offset").Dims[2:] {
		if places[i] == program.Unknown {
			places[i] = extent
		}
	}
	s.Set("Output", s.In("Input").DType, x[0], f[0], places[0], places[1])
	return nil
}

// A deformable convolution of images of one size.
type deformable struct {
	batch, channels, height, width, filters    int
	window, windowWidth, outHeight, outWidth   int
	places, groups, own                        int
	stride, padding, dilation                  []int64
	columns                                    int // elements of what the windows of an image read: [channels*window, places]
	workForward, workColumns, workFilter, work int // of products
}

func deformableOf(b *ops.Binding, x, f, out []int64) *deformable {
	d := &deformable{batch: int(x[0]), channels: int(x[1]), height: int(x[2]), width: int(x[3]), filters: int(f[0]), window: int(f[2] * f[3]), windowWidth: int(f[3]),
		outHeight: int(out[2]), outWidth: int(out[3]), groups: int(b.Int("groups")), own: int(b.Int("deformable_groups")),
		stride: b.Ints("strides"), padding: b.Ints("paddings"), dilation: b.Ints("dilations")}
	d.places = d.outHeight * d.outWidth
	d.columns = d.channels * d.window * d.places
	rows, depth := d.filters/d.groups, d.channels/d.groups*d.window
	d.workForward, d.workColumns, d.workFilter = kernel.GemmWorkspace(rows, d.places, depth), kernel.GemmWorkspace(depth, d.places, rows), kernel.GemmWorkspace(rows, depth, d.places)
	d.work = max(d.workForward, d.workColumns, d.workFilter)
	return d
}

// A looked is where an element of a window reads an image: the pixel above and to the left, -1 where both are beyond the border, and how far it is from there.
type looked struct {
	top, left  int
	down, over float64
	inside     bool
}

// look finds where element k of the window reads at a place. offsets are those of a group of channels in an image.
func look[T tensor.Float](d *deformable, offsets []T, k, place int) (l looked) {
	row, column := place/d.outWidth, place%d.outWidth
	y := float64(int64(row)*d.stride[0]-d.padding[0]+int64(k/d.windowWidth)*d.dilation[0]) + float64(offsets[2*k*d.places+place])
	x := float64(int64(column)*d.stride[1]-d.padding[1]+int64(k%d.windowWidth)*d.dilation[1]) + float64(offsets[(2*k+1)*d.places+place])
	if !(y > -1 && x > -1 && y < float64(d.height) && x < float64(d.width)) {
		return l
	}
	top, left := math.Floor(y), math.Floor(x)
	return looked{int(top), int(left), y - top, x - left, true}
}

// pixel returns a corner of what is read: its index in a plane, -1 beyond the image, its weight, and how the weight changes downwards and to the right.
func (d *deformable) pixel(l looked, corner int) (at int, weight, byY, byX float64) {
	row, column := l.top+corner/2, l.left+corner%2
	wy, wx, sy, sx := 1-l.down, 1-l.over, -1.0, -1.0
	if corner/2 == 1 {
		wy, sy = l.down, 1
	}
	if corner%2 == 1 {
		wx, sx = l.over, 1
	}
	if at = row*d.width + column; row < 0 || row >= d.height || column < 0 || column >= d.width {
		at = -1
	}
	return at, wy * wx, sy * wx, wy * sx
}

// part returns the elements of image i of a tensor.
func part[T tensor.Float](t *tensor.Tensor, i, n int) []T {
	each := t.Len() / n
	return tensor.Data[T](t)[i*each:][:each]
}

// readDeformed writes what the windows of an image read to columns.
func readDeformed[T tensor.Float](d *deformable, columns, image, offsets, mask []T) {
	plane := d.height * d.width
	for g := range d.own {
		own := offsets[g*2*d.window*d.places:]
		for k := range d.window {
			for place := range d.places {
				l := look(d, own, k, place)
				factor := 1.0
				if mask != nil {
					factor = float64(mask[(g*d.window+k)*d.places+place])
				}
				for c := g * d.channels / d.own; c < (g+1)*d.channels/d.own; c++ {
					sum := 0.0
					for corner := 0; l.inside && corner < 4; corner++ {
						if at, weight, _, _ := d.pixel(l, corner); at >= 0 {
							sum += weight * float64(image[c*plane+at])
						}
					}
					columns[(c*d.window+k)*d.places+place] = T(sum * factor)
				}
			}
		}
	}
}

func bindDeformable[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, offset, filter, mask, out := b.In("Input"), b.In("Offset"), b.In("Filter"), b.In("Mask"), b.Out("Output")
	d := deformableOf(b, x.Dims(), filter.Dims(), out.Dims())
	columns, work := b.Scratch(tensor.Of[T](), b.Parts()*d.columns), b.Scratch(tensor.Of[T](), b.Parts()*d.work)
	return b.Loops(ops.Loop{N: d.batch, Whole: []string{"Filter"}, Run: func(n, from, to int) error {
		read := ops.Part(tensor.Data[T](columns), n, d.columns)
		for i := from; i < to; i++ {
			var factors []T
			if mask != nil {
				factors = part[T](mask, i, d.batch)
			}
			readDeformed(d, read, part[T](x, i, d.batch), part[T](offset, i, d.batch), factors)
			rows, depth := d.filters/d.groups, d.channels/d.groups*d.window
			made := part[T](out, i, d.batch)
			for g := range d.groups {
				kernel.Gemm(false, false, rows, d.places, depth, 1, tensor.Data[T](filter)[g*rows*depth:][:rows*depth], depth, read[g*depth*d.places:][:depth*d.places], d.places, 0,
					made[g*rows*d.places:][:rows*d.places], d.places, ops.Part(tensor.Data[T](work), n, d.work))
			}
		}
		return nil
	}})
}

func bindDeformableGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, offset, filter, mask, dout := b.In("Input"), b.In("Offset"), b.In("Filter"), b.In("Mask"), b.In("Output@GRAD")
	dx, doffset, dfilter, dmask := b.Out("Input@GRAD"), b.Out("Offset@GRAD"), b.Out("Filter@GRAD"), b.Out("Mask@GRAD")
	d := deformableOf(b, x.Dims(), filter.Dims(), dout.Dims())
	columns, work := b.Scratch(tensor.Of[T](), b.Parts()*d.columns), b.Scratch(tensor.Of[T](), b.Parts()*d.work)
	rows, depth := d.filters/d.groups, d.channels/d.groups*d.window
	factors := func(i int) []T {
		if mask == nil {
			return nil
		}
		return part[T](mask, i, d.batch)
	}
	var loops []ops.Loop
	if dfilter != nil { // image after image, because they add up
		loops = append(loops, ops.Loop{N: 1, Apart: true, Writes: []string{"Filter@GRAD"}, Run: func(n, _, _ int) error {
			read, made := ops.Part(tensor.Data[T](columns), n, d.columns), tensor.Data[T](dfilter)
			clear(made)
			for i := range d.batch {
				readDeformed(d, read, part[T](x, i, d.batch), part[T](offset, i, d.batch), factors(i))
				for g := range d.groups {
					kernel.Gemm(false, true, rows, depth, d.places, 1, part[T](dout, i, d.batch)[g*rows*d.places:][:rows*d.places], d.places, read[g*depth*d.places:][:depth*d.places], d.places, 1,
						made[g*rows*depth:][:rows*depth], depth, ops.Part(tensor.Data[T](work), n, d.work))
				}
			}
			return nil
		}})
	}
	if dx != nil || doffset != nil || dmask != nil {
		loops = append(loops, ops.Loop{N: d.batch, Whole: []string{"Filter"}, Writes: []string{"Input@GRAD", "Offset@GRAD", "Mask@GRAD"}, Run: func(n, from, to int) error {
			read := ops.Part(tensor.Data[T](columns), n, d.columns)
			for i := from; i < to; i++ {
				for g := range d.groups {
					kernel.Gemm(true, false, depth, d.places, rows, 1, tensor.Data[T](filter)[g*rows*depth:][:rows*depth], depth, part[T](dout, i, d.batch)[g*rows*d.places:][:rows*d.places], d.places, 0,
						read[g*depth*d.places:][:depth*d.places], d.places, ops.Part(tensor.Data[T](work), n, d.work))
				}
				var pixels, offsets, masks []T
				for _, c := range []struct {
					t  *tensor.Tensor
					to *[]T
				}{{dx, &pixels}, {doffset, &offsets}, {dmask, &masks}} {
					if c.t != nil {
						*c.to = part[T](c.t, i, d.batch)
						clear(*c.to)
					}
				}
				giveDeformed(d, read, part[T](x, i, d.batch), part[T](offset, i, d.batch), factors(i), pixels, offsets, masks)
			}
			return nil
		}})
	}
	return b.Loops(loops...)
}

// giveDeformed adds the gradients of what the windows of an image read to those of its pixels, offsets and mask, where they are wanted.
func giveDeformed[T tensor.Float](d *deformable, columns, image, offsets, mask, dimage, doffsets, dmask []T) {
	plane := d.height * d.width
	for g := range d.own {
		own := offsets[g*2*d.window*d.places:]
		for k := range d.window {
			for place := range d.places {
				l := look(d, own, k, place)
				if !l.inside {
					continue
				}
				factor := 1.0
				if mask != nil {
					factor = float64(mask[(g*d.window+k)*d.places+place])
				}
				value, down, over := 0.0, 0.0, 0.0
				for corner := range 4 {
					at, weight, byY, byX := d.pixel(l, corner)
					if at < 0 {
						continue
					}
					for c := g * d.channels / d.own; c < (g+1)*d.channels/d.own; c++ {
						share, v := float64(columns[(c*d.window+k)*d.places+place]), float64(image[c*plane+at])
						if dimage != nil {
							dimage[c*plane+at] += T(share * weight * factor)
						}
						value += share * weight * v
						down += share * byY * v
						over += share * byX * v
					}
				}
				if doffsets != nil {
					to := doffsets[g*2*d.window*d.places:]
					to[2*k*d.places+place], to[(2*k+1)*d.places+place] = T(down*factor), T(over*factor)
				}
				if dmask != nil {
					dmask[(g*d.window+k)*d.places+place] = T(value)
				}
			}
		}
	}
}
