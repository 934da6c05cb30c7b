package nn

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
)

// mostWindow bounds strides, paddings, dilations and window extents, far above any real one, so that sums of their products
// cannot overflow.
const mostWindow = math.MaxInt16

// dataFormatAttr is the layout of images; the name of the attribute differs between ops.
func dataFormatAttr(name string) ops.Attr {
	return ops.Attr{Name: name, Doc: "layout of images; only NCHW, which AnyLayout also means, is computed here", Default: "NCHW"}
}

// paddingAlgorithmAttr comes from Fluid 1.6, where it may ask that paddings be computed.
var paddingAlgorithmAttr = ops.Attr{Name: "padding_algorithm", Doc: "EXPLICIT: paddings says it; others are not computed here", Default: "EXPLICIT"}

// checkImages checks the attributes that change how windows lie over images.
func checkImages(s *ops.Shapes) error {
	if s.Str("padding_algorithm") != "EXPLICIT" {
		return opkit.UnsupportedAttr(s, "padding_algorithm", "EXPLICIT")
	}
	return checkLayout(s, "data_format")
}

func checkLayout(s *ops.Shapes, name string) error {
	if layout := s.Str(name); layout != "NCHW" && layout != "AnyLayout" {
		return opkit.UnsupportedAttr(s, name, "NCHW")
	}
	return nil
}

// twoInts reads an attribute of two numbers, for height and width, in [least, mostWindow].
func twoInts(s *ops.Shapes, name string, least int64) ([]int64, error) {
	v := s.Ints(name)
	if len(v) != 2 || min(v[0], v[1]) < least || max(v[0], v[1]) > mostWindow {
		return nil, opkit.BadAttr(s, name, "two numbers in [%d, %d]", least, mostWindow)
	}
	return v, nil
}

func inferConv2D(s *ops.Shapes) error {
	if err := s.IsFloat("Input"); err != nil {
		return err
	}
	if err := s.SameType("Input", "Filter", "Bias"); err != nil {
		return err
	}
	if err := checkImages(s); err != nil {
		return err
	}
	if err := s.Rank("Input", 4); err != nil {
		return err
	}
	if err := s.Rank("Filter", 4); err != nil {
		return err
	}
	if err := convolutionChannels(s); err != nil {
		return err
	}
	places, err := convolutionPlaces(s)
	if err != nil {
		return err
	}
	x, filter := s.In("Input").Dims, s.In("Filter").Dims
	s.Set("Output", s.In("Input").DType, x[0], filter[0], places[0], places[1])
	return nil
}

// convolutionChannels checks channels of the input, of the filter and of the bias against the groups.
func convolutionChannels(s *ops.Shapes) error {
	x, filter, groups := s.In("Input").Dims, s.In("Filter").Dims, s.Int("groups")
	channels, perGroup, filters := x[1], filter[1], filter[0]
	if groups < 1 || channels >= 0 && channels%groups != 0 || filters >= 0 && filters%groups != 0 {
		return opkit.BadAttr(s, "groups", "at least 1, dividing the channels of Input %v and the filters of Filter %v", x, filter)
	}
	if channels >= 0 && !opkit.Agree(perGroup, channels/groups) {
		return s.Errorf("Filter", "extent 1 to be the channels of Input %v over %d groups", x, groups)
	}
	if s.Has("Bias") && !ops.Compatible(s.In("Bias").Dims, []int64{filters}) {
		return s.Errorf("Bias", "dims [%d], one number for each filter", filters)
	}
	return nil
}

// convolutionPlaces returns the extents of the output's height and width.
func convolutionPlaces(s *ops.Shapes) (places [2]int64, err error) {
	stride, err := twoInts(s, "strides", 1)
	if err != nil {
		return places, err
	}
	padding, err := twoInts(s, "paddings", 0)
	if err != nil {
		return places, err
	}
	dilation, err := twoInts(s, "dilations", 1)
	if err != nil {
		return places, err
	}
	x, filter := s.In("Input").Dims[2:], s.In("Filter").Dims[2:]
	for i := range places {
		places[i] = program.Unknown
		if filter[i] == 0 || filter[i] > mostWindow {
			return places, s.Errorf("Filter", "height and width in [1, %d]", mostWindow)
		}
		if x[i] > math.MaxInt32 {
			return places, s.Errorf("Input", "height and width of at most %d", math.MaxInt32)
		}
		if x[i] < 0 || filter[i] < 0 {
			continue
		}
		room := x[i] + 2*padding[i] - (dilation[i]*(filter[i]-1) + 1)
		if room < 0 {
			return places, s.Errorf("Filter", "no larger than the padded Input %v", s.In("Input").Dims)
		}
		places[i] = room/stride[i] + 1
	}
	return places, nil
}

// convolutionGradCost counts each product once for the input and once for the filter, where their gradients are wanted.
func convolutionGradCost(s *ops.Shapes) ops.Cost {
	wanted := int64(0)
	for _, slot := range []string{"Input@GRAD", "Filter@GRAD"} {
		if s.Op().Out(slot) != "" && s.Op().Out(slot) != program.Empty {
			wanted++
		}
	}
	return convolutionCost(2 * wanted)(s)
}

// convolutionCost estimates flops operations for each product of an output element.
func convolutionCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		out := append(s.Outs("Output"), s.Ins("Output@GRAD")...)[0].Dims
		patch := opkit.Size(s.In("Filter").Dims[1:])
		return ops.Cost{Flops: flops * opkit.Size([]int64{opkit.Size(out), patch}), Bytes: opkit.Bytes(s)}
	}
}
