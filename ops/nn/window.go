package nn

import (
	"math"
	"strings"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
)

// mostWindow bounds strides, paddings, dilations and window extents. It is far above real values, and small enough that sums of their products do
// not overflow.
const mostWindow = math.MaxInt16

// paddingsDoc describes the attribute paddings of every op whose windows move over images.
const paddingsDoc = "padding along each axis, the same on both sides; or two numbers for each axis, of both sides: above, below, left and right"

// paddingAlgorithmAttr comes from Fluid 1.6.
var paddingAlgorithmAttr = ops.Attr{Name: "padding_algorithm", Doc: "EXPLICIT: paddings has the numbers; VALID: no padding; SAME: as much as makes the " +
	"output ceil(input/stride) large, the odd one below and right, and dilations do not count", Default: "EXPLICIT"}

// attributes is what an ops.Shapes and an ops.Binding have in common.
type attributes interface {
	Ints(name string) []int64
	Str(name string) string
}

// windows says how windows lie in images, for each spatial axis.
type windows struct {
	size, stride, dilation []int64
	before, after          []int64 // padding
}

// windowsOf reads where windows of the given size lie in images of the given extents, both without batch and channels. The attributes have been checked
// (checkWindows). With SAME, the padding of an open extent counts as 0.
func windowsOf(a attributes, size, image []int64) windows {
	n := len(image)
	w := windows{size: size, stride: a.Ints("strides"), dilation: a.Ints("dilations"), before: make([]int64, n), after: make([]int64, n)}
	if w.dilation == nil {
		w.dilation = ones(n)
	}
	switch padding := a.Ints("paddings"); a.Str("padding_algorithm") {
	case "SAME":
		w.dilation = ones(n)
		for i, in := range image {
			if in < 0 || size[i] < 0 {
				continue
			}
			total := max((ceilDiv(in, w.stride[i])-1)*w.stride[i]+size[i]-in, 0)
			w.before[i], w.after[i] = total/2, total-total/2
		}
	case "VALID":
	default:
		for i := range n {
			if len(padding) == n {
				w.before[i], w.after[i] = padding[i], padding[i]
			} else {
				w.before[i], w.after[i] = padding[2*i], padding[2*i+1]
			}
		}
	}
	return w
}

func ones(n int) []int64 {
	v := make([]int64, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// reach returns how many elements of axis i a window spans.
func (w *windows) reach(i int) int64 { return w.dilation[i]*(w.size[i]-1) + 1 }

// places returns the extents of the output. Those that depend on open extents are open. axis is -1, or the first axis in which no window fits.
func (w *windows) places(image []int64, ceilMode bool) (places []int64, axis int) {
	places = make([]int64, len(image))
	for i, in := range image {
		places[i] = program.Unknown
		if in < 0 || w.size[i] < 0 {
			continue
		}
		room := in + w.before[i] + w.after[i] - w.reach(i)
		if room < 0 {
			return nil, i
		}
		if ceilMode {
			room += w.stride[i] - 1
		}
		places[i] = room/w.stride[i] + 1
	}
	return places, -1
}

// checkWindows checks the attributes that windowsOf reads.
func checkWindows(s *ops.Shapes, axes int) error {
	switch s.Str("padding_algorithm") {
	case "EXPLICIT", "SAME", "VALID", "": // some ops lack the attribute
	default:
		return opkit.BadAttr(s, "padding_algorithm", "EXPLICIT, SAME or VALID")
	}
	if _, err := someInts(s, "strides", axes, 1); err != nil {
		return err
	}
	if s.Ints("dilations") != nil {
		if _, err := someInts(s, "dilations", axes, 1); err != nil {
			return err
		}
	}
	if len(s.Ints("paddings")) == 2*axes {
		axes *= 2
	}
	_, err := someInts(s, "paddings", axes, 0)
	return err
}

// someInts reads an attribute of n numbers in [least, mostWindow].
func someInts(s *ops.Shapes, name string, n int, least int64) ([]int64, error) {
	v := s.Ints(name)
	if len(v) != n {
		return nil, opkit.BadAttr(s, name, "%d numbers in [%d, %d]", n, least, mostWindow)
	}
	for _, x := range v {
		if x < least || x > mostWindow {
			return nil, opkit.BadAttr(s, name, "%d numbers in [%d, %d]", n, least, mostWindow)
		}
	}
	return v, nil
}

// dataFormatAttr is the layout of images; the name of the attribute differs between ops.
func dataFormatAttr(name string) ops.Attr {
	return ops.Attr{Name: name, Doc: "layout of images: NCHW, also called NCDHW, NCW and AnyLayout, or NHWC, also called NDHWC and NWC", Default: "NCHW"}
}

// checkLayout checks an attribute of dataFormatAttr.
func checkLayout(s *ops.Shapes, name string) error {
	switch strings.ToUpper(s.Str(name)) {
	case "NCHW", "NCDHW", "NCW", "NCL", "ANYLAYOUT", "NHWC", "NDHWC", "NWC", "NLC":
		return nil
	}
	return opkit.BadAttr(s, name, "NCHW or NHWC")
}

// checkImages checks that X holds floats of a rank, and the attribute of its layout.
func checkImages(s *ops.Shapes, layout string, rank int) error {
	if err := opkit.FloatSoFar(s, "X"); err != nil {
		return err
	}
	if err := checkLayout(s, layout); err != nil {
		return err
	}
	return s.Rank("X", rank)
}

// channelsLast reports whether an attribute of dataFormatAttr puts the channels last.
func channelsLast(a attributes, name string) bool {
	layout := strings.ToUpper(a.Str(name))
	return layout == "NHWC" || layout == "NDHWC" || layout == "NWC" || layout == "NLC"
}

// firstly returns dims of images, of rank 2 or more, with the channels as axis 1, wherever they are.
func firstly(dims []int64, last bool) []int64 {
	if !last {
		return dims
	}
	n := len(dims) - 1
	return append([]int64{dims[0], dims[n]}, dims[1:n]...)
}

// lastly undoes firstly.
func lastly(dims []int64, last bool) []int64 {
	if !last {
		return dims
	}
	return append(append([]int64{dims[0]}, dims[2:]...), dims[1])
}
