package layers

import (
	"math"

	"github.com/edl-go/edl/fault"
)

// Stride3D sets how far the window of a layer for volumes moves along depth, height and width. The default is 1, 1, 1.
func Stride3D(depth, height, width int) Option {
	return Option{"Stride3D", func(s *settings) { s.stride3 = box(depth, height, width) }}
}

// Padding3D sets how much a layer for volumes adds on each side of depth, height and width. The default is 0, 0, 0.
func Padding3D(depth, height, width int) Option {
	return Option{"Padding3D", func(s *settings) { s.padding3 = box(depth, height, width) }}
}

// Dilation3D sets the distance between the points of a filter of volumes. The default is 1, 1, 1.
func Dilation3D(depth, height, width int) Option {
	return Option{"Dilation3D", func(s *settings) { s.dilation3 = box(depth, height, width) }}
}

// WindowSize3D sets a filter or pooling window of volumes that is not a cube.
func WindowSize3D(depth, height, width int) Option {
	return Option{"WindowSize3D", func(s *settings) { s.window3 = box(depth, height, width) }}
}

func box(depth, height, width int) []int64 {
	return []int64{int64(depth), int64(height), int64(width)}
}

func orBox(v []int64, each int64) []int64 {
	if v != nil {
		return v
	}
	return []int64{each, each, each}
}

// boxAttrs sets where windows lie in volumes: stride, padding and layout.
func (s *settings) boxAttrs(attrs Attrs) Attrs {
	attrs["strides"], attrs["paddings"] = orBox(s.stride3, 1), orBox(s.padding3, 0)
	if s.algorithm != "" {
		attrs["padding_algorithm"] = s.algorithm
	}
	if s.channelsLast {
		attrs["data_format"] = "NDHWC"
	}
	return attrs
}

// Conv3D convolves volumes [batch, channels, depth, height, width] with a number of cubic filters, and adds a bias per filter: act(x * w + b) with
// w [filters, channels/groups, size, size, size].
//
// Options: Act, Param (default Normal(0, √(2/(size³·channels)))), Bias (default 0), NoBias, Stride3D, Padding3D, PaddingSame, Dilation3D, Groups, WindowSize3D,
// ChannelsLast, Name. Ops: conv3d, elementwise_add, activation.
func Conv3D(x Variable, filters, size int64, opts ...Option) Variable {
	l := startVolume("conv3d", x, opts)
	if l.failed {
		return l.fail()
	}
	axis := l.channelAxis(x)
	channels := x.v.Dims[axis]
	if !groupsDivide(l, channels, filters) {
		return l.fail()
	}
	side := orBox(l.window3, size)
	deviation := math.Sqrt(2 / float64(side[0]*side[1]*side[2]*channels))
	w := l.parameter("w", l.param, x.DType(), append([]int64{filters, channels / int64(l.groups)}, side...), Normal(0, deviation))
	y := l.op("conv3d", In{"Input": {x}, "Filter": {w}}, l.boxAttrs(Attrs{"dilations": orBox(l.dilation3, 1), "groups": l.groups}), "Output")
	return l.result(l.activate(l.addBias(y, axis)))
}

// Conv3DTranspose is the transpose of Conv3D, as Conv2DTranspose is that of Conv2D. w is [channels, filters/groups, size, size, size].
//
// Options: those of Conv3D, but Param defaults to Xavier. Ops: conv3d_transpose, elementwise_add, activation.
func Conv3DTranspose(x Variable, filters, size int64, opts ...Option) Variable {
	l := startVolume("conv3d_transpose", x, opts)
	if l.failed {
		return l.fail()
	}
	return transposed(l, "conv3d_transpose", x, filters, orBox(l.window3, size), l.boxAttrs(Attrs{"dilations": orBox(l.dilation3, 1), "groups": l.groups}))
}

// startVolume begins a layer with filters on volumes.
func startVolume(kind string, x Variable, opts []Option) *layer {
	l := start(kind, opts, []string{"Act", "Param", "Bias", "NoBias", "Stride3D", "Padding3D", "PaddingSame", "Dilation3D", "Groups", "WindowSize3D", "ChannelsLast"}, x)
	checkVolume(l, x)
	return l
}

// checkVolume checks that x is a batch of volumes.
func checkVolume(l *layer, x Variable) {
	if !l.failed && x.rank() != 5 {
		l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()), fault.Want("[batch, channels, depth, height, width]")))
	}
}
