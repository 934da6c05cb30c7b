package kernel

import "github.com/edl-go/edl/tensor"

// Conv3DShape holds the extents of a convolution of volumes. Arrays are depth, height and width. An input volume is [InChannels, In...], an output volume
// [OutChannels, Out...], the filter [OutChannels, InChannels/Groups, Kernel...]. Groups divides both numbers of channels. Out is what ConvOutSize gives
// along each axis, or less: then the last windows do not count.
type Conv3DShape struct {
	InChannels, OutChannels  int
	In, Out                  [3]int
	Kernel, Stride, Dilation [3]int
	Before, After            [3]int // zeros around a volume
	Groups                   int
}

func volume(extents [3]int) int { return extents[0] * extents[1] * extents[2] }

// patch returns the number of input elements of one group that one output element depends on.
func (s *Conv3DShape) patch() int { return s.InChannels / s.Groups * volume(s.Kernel) }

// padded returns the extents of a channel of a volume with its padding.
func (s *Conv3DShape) padded() (extents [3]int) {
	for i := range extents {
		extents[i] = s.Before[i] + s.In[i] + s.After[i]
	}
	return extents
}

// Conv3DWorkspace returns the workspace length of the three functions that follow. It does not depend on the number of volumes.
func Conv3DWorkspace(s *Conv3DShape) int {
	filters, patch, places := s.OutChannels/s.Groups, s.patch(), volume(s.Out)
	return patch*places + s.InChannels/s.Groups*volume(s.padded()) + max(
		GemmWorkspace(filters, places, patch),
		GemmWorkspace(patch, places, filters),
		GemmWorkspace(filters, patch, places))
}

// The convolutions of volumes go volume by volume and group by group through a matrix of patches, [channel, place in the kernel] x [output place], and
// Gemm, as those of images do. workspace holds Conv3DWorkspace elements. x and dx hold volumes input volumes, out and dout as many output volumes.

// Conv3D computes the convolution (cross-correlation, as in Fluid's conv3d) of volumes volumes with filter. bias and activation are as in Conv2D.
func Conv3D[T tensor.Float](s *Conv3DShape, volumes int, out, x, filter, bias []T, activation func(out, x []T), workspace []T) {
	filters, patch, places := s.OutChannels/s.Groups, s.patch(), volume(s.Out)
	m, rest := newPatchVolume(s, s.InChannels/s.Groups, workspace)
	group := s.InChannels / s.Groups * volume(s.In)
	for g := range volumes * s.Groups {
		at := g % s.Groups
		e := Epilogue[T]{ByRow: true, Activation: activation}
		if bias != nil {
			e.Bias = bias[at*filters:][:filters]
		}
		m.gather(x[g*group:][:group])
		GemmEpilogue(false, false, filters, places, patch, 1, filter[at*filters*patch:], patch, m.columns, places, 0,
			out[g*filters*places:][:filters*places], places, e, rest)
	}
}

// Conv3DInputGrad overwrites dx with the gradient of the input.
func Conv3DInputGrad[T tensor.Float](s *Conv3DShape, volumes int, dx, filter, dout, workspace []T) {
	filters, patch, places := s.OutChannels/s.Groups, s.patch(), volume(s.Out)
	m, rest := newPatchVolume(s, s.InChannels/s.Groups, workspace)
	group := s.InChannels / s.Groups * volume(s.In)
	for g := range volumes * s.Groups {
		Gemm(true, false, patch, places, filters, 1, filter[g%s.Groups*filters*patch:], patch, dout[g*filters*places:], places, 0,
			m.columns, places, rest)
		m.spread(dx[g*group:][:group])
	}
}

// Conv3DFilterGrad overwrites the channels [first, last) of dfilter, in each group, with the gradient of the filter, summed over volumes in their order. It
// does not touch the rest. An element has the same bits for every range of channels.
func Conv3DFilterGrad[T tensor.Float](s *Conv3DShape, first, last, volumes int, dfilter, x, dout, workspace []T) {
	if first == last {
		return
	}
	filters, patch, places := s.OutChannels/s.Groups, s.patch(), volume(s.Out)
	m, rest := newPatchVolume(s, last-first, workspace)
	perChannel, plane := volume(s.Kernel), volume(s.In)
	part := (last - first) * perChannel
	for f := range s.OutChannels {
		clear(dfilter[f*patch+first*perChannel:][:part])
	}
	for g := range volumes * s.Groups {
		m.gather(x[(g*s.InChannels/s.Groups+first)*plane:][:(last-first)*plane])
		Gemm(false, true, filters, part, places, 1, dout[g*filters*places:], places, m.columns, places, 1,
			dfilter[g%s.Groups*filters*patch+first*perChannel:], patch, rest)
	}
}

// A patchVolume converts between some channels of a volume and their matrix of patches.
type patchVolume[T tensor.Float] struct {
	shape    *Conv3DShape
	channels int
	extents  [3]int // of a padded channel
	columns  []T
	copied   []T // the channels with their padding
}

// newPatchVolume takes its memory from workspace and returns the rest.
func newPatchVolume[T tensor.Float](s *Conv3DShape, channels int, workspace []T) (m patchVolume[T], rest []T) {
	m = patchVolume[T]{shape: s, channels: channels, extents: s.padded()}
	size, copied := channels*volume(s.Kernel)*volume(s.Out), channels*volume(m.extents)
	m.columns, m.copied = workspace[:size], workspace[size:][:copied]
	return m, workspace[size+copied:]
}

// rows returns the number of rows of the matrix of patches, 0 if they are empty.
func (m *patchVolume[T]) rows() int {
	if len(m.columns) == 0 {
		return 0
	}
	return m.channels * volume(m.shape.Kernel)
}

// row returns the index in copied of row (z, y) of channel c of the volume.
func (m *patchVolume[T]) row(c, z, y int) int {
	s := m.shape
	return ((c*m.extents[0]+s.Before[0]+z)*m.extents[1]+s.Before[1]+y)*m.extents[2] + s.Before[2]
}

// window returns the index in copied of the first element that the windows of output row (oz, oy) have at place (kz, ky, kx) of the kernel.
func (m *patchVolume[T]) window(c, kz, ky, kx, oz, oy int) int {
	s := m.shape
	z, y := oz*s.Stride[0]+kz*s.Dilation[0], oy*s.Stride[1]+ky*s.Dilation[1]
	return ((c*m.extents[0]+z)*m.extents[1]+y)*m.extents[2] + kx*s.Dilation[2]
}

// gather fills columns from the channels of a volume.
func (m *patchVolume[T]) gather(x []T) {
	s := m.shape
	clear(m.copied)
	for c := range m.channels {
		for z := range s.In[0] {
			for y := range s.In[1] {
				copy(m.copied[m.row(c, z, y):], x[((c*s.In[0]+z)*s.In[1]+y)*s.In[2]:][:s.In[2]])
			}
		}
	}
	at, width, stride := 0, s.Out[2], s.Stride[2]
	for k := range m.rows() {
		c, kz, ky, kx := s.place(k)
		for oz := range s.Out[0] {
			for oy := range s.Out[1] {
				from, to := m.copied[m.window(c, kz, ky, kx, oz, oy):], m.columns[at:][:width]
				if stride == 1 {
					copy(to, from)
				} else {
					for i := range to {
						to[i] = from[i*stride]
					}
				}
				at += width
			}
		}
	}
}

// spread is the gradient of gather: it overwrites the channels of a volume with sums over the windows of each element, in the order of columns.
func (m *patchVolume[T]) spread(x []T) {
	s := m.shape
	clear(m.copied)
	at, width, stride := 0, s.Out[2], s.Stride[2]
	for k := range m.rows() {
		c, kz, ky, kx := s.place(k)
		for oz := range s.Out[0] {
			for oy := range s.Out[1] {
				to, from := m.copied[m.window(c, kz, ky, kx, oz, oy):], m.columns[at:][:width]
				if stride == 1 {
					Accumulate(to[:width], from)
				} else {
					for i, v := range from {
						to[i*stride] += v
					}
				}
				at += width
			}
		}
	}
	for c := range m.channels {
		for z := range s.In[0] {
			for y := range s.In[1] {
				copy(x[((c*s.In[0]+z)*s.In[1]+y)*s.In[2]:][:s.In[2]], m.copied[m.row(c, z, y):])
			}
		}
	}
}

// place returns the channel and the place in the kernel of row k of the matrix of patches.
func (s *Conv3DShape) place(k int) (c, kz, ky, kx int) {
	kx, k = k%s.Kernel[2], k/s.Kernel[2]
	ky, k = k%s.Kernel[1], k/s.Kernel[1]
	return k / s.Kernel[0], k % s.Kernel[0], ky, kx
}
