package kernel

import "github.com/edl-go/edl/ops/kernel/internal/simd"

// A Winograd computes a convolution of 3 x 3 windows, or a gradient of it, with fewer products: 16 for four outputs, or 36 for sixteen, in place of 9 for each. The way is
// that of Lavin and Gray (winogradSize). Outputs are divided into tiles of m x m. A tile depends on (m+2) x (m+2) inputs d. With a filter g it is
// A'[(G g G') o (B' d B)]A, where o multiplies element by element, and the sums over channels are (m+2)^2 matrix products. The gradient of the filter is
// G'[sum over tiles of (A dout A') o (B' d B)]G. The gradient of the input is the convolution of dout with filters that are turned around and have inputs and outputs
// exchanged. Tiles of 4 x 4 have fewer products and numbers for each output than tiles of 2 x 2, and three times their rounding errors.
//
// Transformed tiles lie as [elements, tiles, channels], so that vectors are full for images of every size. They are made for a block of tiles at a time, which
// stays in the second-level cache: tiles of some whole images, or some rows of tiles of one image. Where blocks end depends on the shape alone. So an
// image has the same outputs in every batch, and the sums of a gradient of the filter have one order.
type Winograd struct {
	size                  *winogradSize
	in, out               imageShape
	top, left             int // places in front of the first input of the first tile: the padding; may be negative for a gradient
	tileRows, tileColumns int // of an output image
	product, sum          tileBlock
	turned                bool // computes with filters [in, out, 3, 3] that are turned around
}

// An imageShape is [channels, height, width].
type imageShape struct{ channels, height, width int }

func (s imageShape) size() int { return s.channels * s.height * s.width }

// A tileBlock is the extent of a block: some rows of tiles, all of them if there are several images.
type tileBlock struct{ images, rows int }

const (
	winogradProduct = 1 << 17 // elements of the transformed inputs and outputs of a block
	winogradSum     = 3 << 15 // the same for a gradient of a filter, whose sums also use the cache
	winogradFilters = 8       // filters or channels whose transforms are made at a time
	vectorLanes     = 8
)

// NewWinograd prepares a convolution of float32. It returns nil if the shape has no such way or if it does not pay. The choice depends on the shape alone.
func NewWinograd(s *Conv2DShape) *Winograd {
	if !s.isWinograd() || min(s.InChannels, s.OutChannels) < vectorLanes {
		return nil
	}
	var best *winogradSize
	least := s.pixels() * (9*s.InChannels*s.OutChannels + 3*16*s.InChannels) // the direct way: a patch takes as long as 3 vector multiplications for 16 numbers
	for _, size := range []*winogradSize{&winograd2x2, &winograd4x4} {
		if cost := s.winogradCost(size); cost < least && size.elements()*s.InChannels*s.OutChannels <= size.mostFilter {
			best, least = size, cost
		}
	}
	if best == nil {
		return nil
	}
	return newWinograd(s, best)
}

func (s *Conv2DShape) isWinograd() bool {
	return s.KernelHeight == 3 && s.KernelWidth == 3 && s.StrideHeight == 1 && s.StrideWidth == 1 && s.DilationHeight == 1 && s.DilationWidth == 1 &&
		s.Groups == 1 && s.InChannels > 0 && s.OutChannels > 0 && s.pixels() > 0
}

// winogradCost estimates the time of an image in vector multiplications. A transform of a tile takes about as long as 5 of them for each channel and element.
func (s *Conv2DShape) winogradCost(size *winogradSize) int {
	tiles := ceilDiv(s.OutHeight, size.outputs) * ceilDiv(s.OutWidth, size.outputs)
	return tiles * size.elements() * (s.InChannels*s.OutChannels + 5*(s.InChannels+s.OutChannels))
}

// newWinograd is NewWinograd for every shape that has this way, with tiles of one size.
func newWinograd(s *Conv2DShape, size *winogradSize) *Winograd {
	w := &Winograd{size: size, in: imageShape{s.InChannels, s.InHeight, s.InWidth}, out: imageShape{s.OutChannels, s.OutHeight, s.OutWidth},
		top: s.PaddingTop, left: s.PaddingLeft}
	return w.divide()
}

// InputGrad prepares the gradient of the input: a convolution of gradients of outputs.
func (w *Winograd) InputGrad() *Winograd {
	g := &Winograd{size: w.size, in: w.out, out: w.in, top: 2 - w.top, left: 2 - w.left, turned: true}
	return g.divide()
}

// divide sets the extents of tiles and blocks.
func (w *Winograd) divide() *Winograd {
	w.tileRows, w.tileColumns = ceilDiv(w.out.height, w.size.outputs), ceilDiv(w.out.width, w.size.outputs)
	channels := w.size.elements() * (wide(w.in.channels) + wide(w.out.channels))
	w.product = w.block(min(max(winogradProduct/channels, 48), vectorDepth))
	w.sum = w.block(min(max(winogradSum/channels, 64), vectorDepth))
	return w
}

// block returns a block of about so many tiles, and at most so many if a row has not more.
func (w *Winograd) block(tiles int) tileBlock {
	if all := w.tileRows * w.tileColumns; all <= tiles {
		return tileBlock{tiles / all, w.tileRows}
	}
	blocks := ceilDiv(w.tileRows*w.tileColumns, tiles)
	return tileBlock{1, max(1, ceilDiv(w.tileRows, blocks))}
}

func (w *Winograd) tiles(b tileBlock) int { return b.images * b.rows * w.tileColumns }

// wide returns the elements of rows of channels: those of whole vectors.
func wide(channels int) int { return roundUp(channels, vectorLanes) }

// elementLength returns the memory of one element of so many transformed tiles or filters. The gap keeps elements out of one set of the cache.
func elementLength(count, channels int) int { return count*wide(channels) + packedGap }

// FilterLength returns the elements of a transformed filter.
func (w *Winograd) FilterLength() int {
	return w.size.elements() * elementLength(w.in.channels, w.out.channels)
}

// Channels returns the channels of an input image.
func (w *Winograd) Channels() int { return w.in.channels }

// FilterWorkspace returns the workspace length of TransformFilter.
func (w *Winograd) FilterWorkspace() int { return winogradFilters * 9 * wide(w.out.channels) }

// TransformFilter overwrites what the input channels [first, last) need of transformed. The filter is [out, in, 3, 3] in channels of w, and [in, out, 3, 3]
// for the gradient of the input.
func (w *Winograd) TransformFilter(transformed, filter []float32, first, last int, workspace []float32) {
	width, apart := wide(w.out.channels), elementLength(w.in.channels, w.out.channels)
	at, step := 0, [3]int{3 * width, width, 9 * width}
	if w.turned {
		at, step = 8*width, [3]int{-3 * width, -width, 9 * width}
	}
	for c := first; c < last; c += winogradFilters {
		count := min(winogradFilters, last-c)
		if w.turned {
			for i := range count {
				simd.Transpose(workspace[i*9*width:], width, filter[(c+i)*w.out.channels*9:], 9, w.out.channels, 9)
			}
		} else {
			simd.Transpose(workspace, width, filter[c*9:], w.in.channels*9, w.out.channels, count*9)
		}
		transform(w.size.filter, transformed[c*width:], workspace, at, [3]int{w.size.extent() * apart, apart, width}, step, count, width)
	}
}

// ConvolveWorkspace returns the workspace length of Convolve. It does not depend on the number of images.
func (w *Winograd) ConvolveWorkspace() int {
	tiles := w.tiles(w.product)
	return w.size.elements()*(elementLength(tiles, w.in.channels)+elementLength(tiles, w.out.channels)) +
		w.placesLength(w.product)*wide(w.out.channels) + max(w.loadLength(w.product, w.in, 2), GemmWorkspace(tiles, w.out.channels, w.in.channels))
}

// placesLength returns the places of the outputs of a block in one image.
func (w *Winograd) placesLength(b tileBlock) int {
	return w.size.outputs * w.size.outputs * b.rows * w.tileColumns
}

// loadLength returns the memory that loading the places of a block in one image takes, with so many more rows and columns.
func (w *Winograd) loadLength(b tileBlock, s imageShape, more int) int {
	rows := w.size.outputs*b.rows + more
	return (rows*(w.size.outputs*w.tileColumns+more) + rows*s.width) * wide(s.channels)
}

// Convolve computes images output images of images input images. bias and activation are as in Conv2D. With InputGrad the inputs are gradients of outputs,
// and the outputs gradients of inputs.
func (w *Winograd) Convolve(images int, out, x, transformed, bias []float32, activation func(out, x []float32), workspace []float32) {
	b, size, pixels, m := w.product, w.out.size(), w.out.height*w.out.width, w.size.outputs
	width, filter := wide(w.out.channels), elementLength(w.in.channels, w.out.channels)
	apart, apartOut := elementLength(w.tiles(b), w.in.channels), elementLength(w.tiles(b), w.out.channels)
	inputs, rest := cut(workspace, w.size.elements()*apart)
	outputs, rest := cut(rest, w.size.elements()*apartOut)
	places, rest := cut(rest, w.placesLength(b)*width)
	for first := 0; first < images; first += b.images {
		count := min(b.images, images-first)
		for row := 0; row < w.tileRows; row += b.rows {
			rows := min(b.rows, w.tileRows-row)
			each := rows * w.tileColumns
			for i := range count {
				w.transformInputs(inputs[i*each*wide(w.in.channels):], apart, x[(first+i)*w.in.size():][:w.in.size()], 0, w.in.channels, row, rows, rest)
			}
			for e := range w.size.elements() {
				Gemm(false, false, count*each, w.out.channels, w.in.channels, 1, inputs[e*apart:], wide(w.in.channels), transformed[e*filter:], width,
					0, outputs[e*apartOut:], width, rest)
			}
			for i := range count {
				for r := range rows {
					transform(w.size.output, places[m*m*r*w.tileColumns*width:], outputs[(i*each+r*w.tileColumns)*width:], 0,
						[3]int{m * w.tileColumns * width, width, m * width}, [3]int{w.size.extent() * apartOut, apartOut, width}, w.tileColumns, width)
				}
				w.out.store(out[(first+i)*size:][:size], places, m*row, m*rows, m*w.tileColumns)
			}
		}
		e := Epilogue[float32]{Bias: bias, ByRow: true, Activation: activation}
		for i := range count {
			e.finish(out[(first+i)*size:][:size], pixels, 0, w.out.channels, 0, pixels)
		}
	}
}

// transformInputs makes transformed tiles of some channels of an image and some rows of tiles. Elements are apart from each other.
func (w *Winograd) transformInputs(to []float32, apart int, image []float32, first, channels, row, rows int, workspace []float32) {
	m := w.size.outputs
	width, columns := wide(channels), m*w.tileColumns+2
	loaded, rest := cut(workspace, (m*rows+2)*columns*width)
	w.in.load(loaded, image, first, channels, m*row-w.top, -w.left, m*rows+2, columns, rest)
	for r := range rows {
		transform(w.size.input, to[r*w.tileColumns*width:], loaded[m*r*columns*width:], 0,
			[3]int{w.size.extent() * apart, apart, width}, [3]int{columns * width, width, m * width}, w.tileColumns, width)
	}
}

// SumWorkspace returns the workspace length of FilterGrad.
func (w *Winograd) SumWorkspace() int {
	tiles, channels, filters := w.tiles(w.sum), w.in.channels, w.out.channels
	return w.size.elements()*(elementLength(filters, channels)+elementLength(tiles, channels)+elementLength(tiles, filters)) +
		max(w.loadLength(w.sum, w.in, 2), w.loadLength(w.sum, w.out, 0), winogradFilters*9*wide(channels), GemmWorkspace(filters, channels, tiles))
}

// FilterGrad overwrites the gradient of the input channels [from, to) of the filter, summed over images in their order. It does not touch the rest. Every
// range gives an element the same bits.
func (w *Winograd) FilterGrad(from, to, images int, dfilter, x, dout, workspace []float32) {
	channels, filters, b := to-from, w.out.channels, w.sum
	if channels == 0 {
		return
	}
	width, wideOut := wide(channels), wide(filters)
	apartSum, apart, apartOut := elementLength(filters, channels), elementLength(w.tiles(b), channels), elementLength(w.tiles(b), filters)
	sums, rest := cut(workspace, w.size.elements()*apartSum)
	inputs, rest := cut(rest, w.size.elements()*apart)
	outputs, rest := cut(rest, w.size.elements()*apartOut)
	if images == 0 {
		clear(sums)
	}
	beta := float32(0)
	for first := 0; first < images; first += b.images {
		count := min(b.images, images-first)
		for row := 0; row < w.tileRows; row += b.rows {
			rows := min(b.rows, w.tileRows-row)
			each := rows * w.tileColumns
			for i := range count {
				w.transformInputs(inputs[i*each*width:], apart, x[(first+i)*w.in.size():][:w.in.size()], from, channels, row, rows, rest)
				w.transformOutputGrads(outputs[i*each*wideOut:], apartOut, dout[(first+i)*w.out.size():][:w.out.size()], row, rows, rest)
			}
			for e := range w.size.elements() {
				Gemm(true, false, filters, channels, count*each, 1, outputs[e*apartOut:], wideOut, inputs[e*apart:], width, beta, sums[e*apartSum:], width, rest)
			}
			beta = 1
		}
	}
	for f := 0; f < filters; f += winogradFilters {
		count := min(winogradFilters, filters-f)
		transform(w.size.filterGrad, rest, sums[f*width:], 0, [3]int{3 * width, width, 9 * width}, [3]int{w.size.extent() * apartSum, apartSum, width}, count, width)
		for i := range count {
			simd.Transpose(dfilter[((f+i)*w.in.channels+from)*9:], 9, rest[i*9*width:], width, 9, channels)
		}
	}
}

// transformOutputGrads makes transformed tiles of the gradient of an output image, for some rows of tiles.
func (w *Winograd) transformOutputGrads(to []float32, apart int, dout []float32, row, rows int, workspace []float32) {
	m := w.size.outputs
	width, columns := wide(w.out.channels), m*w.tileColumns
	loaded, rest := cut(workspace, m*rows*columns*width)
	w.out.load(loaded, dout, 0, w.out.channels, m*row, 0, m*rows, columns, rest)
	for r := range rows {
		transform(w.size.outputGrad, to[r*w.tileColumns*width:], loaded[m*r*columns*width:], 0,
			[3]int{w.size.extent() * apart, apart, width}, [3]int{columns * width, width, m * width}, w.tileColumns, width)
	}
}

// cut returns the first n elements of memory and the rest.
func cut(memory []float32, n int) (head, rest []float32) { return memory[:n], memory[n:] }

// load copies some channels of rows and columns of an image from place (y, x) on to [row, column, channel], with zeros beside the image.
func (s imageShape) load(to, image []float32, first, channels, y, x, rows, columns int, workspace []float32) {
	width, pixels := wide(channels), s.height*s.width
	top, bottom := max(y, 0), min(y+rows, s.height)
	left, right := max(x, 0), min(x+columns, s.width)
	if top >= bottom || left >= right {
		clear(to)
		return
	}
	inPlace := right-left >= vectorLanes // otherwise vectors are full only over several rows
	if !inPlace {
		simd.Transpose(workspace, width, image[first*pixels+top*s.width:], pixels, channels, (bottom-top)*s.width)
	}
	for r := range rows {
		line := to[r*columns*width:][:columns*width]
		if y+r < top || y+r >= bottom {
			clear(line)
			continue
		}
		clear(line[:(left-x)*width])
		if inside := line[(left-x)*width:][:(right-left)*width]; inPlace {
			simd.Transpose(inside, width, image[first*pixels+(y+r)*s.width+left:], pixels, channels, right-left)
		} else {
			copy(inside, workspace[((y+r-top)*s.width+left)*width:])
		}
		clear(line[(right-x)*width:])
	}
}

// store copies [row, column, channel] to rows of an image from row y on, without what is beside the image.
func (s imageShape) store(image, from []float32, y, rows, columns int) {
	width, pixels := wide(s.channels), s.height*s.width
	rows = min(rows, s.height-y)
	if columns == s.width {
		simd.Transpose(image[y*s.width:], pixels, from, width, rows*columns, s.channels)
		return
	}
	for r := range rows {
		simd.Transpose(image[(y+r)*s.width:], pixels, from[r*columns*width:], width, s.width, s.channels)
	}
}
