package nn_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func volumePooling(name, kind string, size []int32, a attrs, x, want *tensor.Tensor) Case {
	c := pooling(name, kind, 0, a, x, want)
	c.Type, c.Attrs["ksize"] = "pool3d", size
	return c
}

func indexed(name string, size []int32, a attrs, x *tensor.Tensor, want slots) Case {
	c := Case{Type: "max_pool2d_with_index", Name: name, Inputs: slots{"X": One(x)}, Attrs: attrs{"ksize": size}, Want: want}
	if len(size) == 3 {
		c.Type = "max_pool3d_with_index"
	}
	for name, v := range a {
		c.Attrs[name] = v
	}
	return c
}

func unpooled(name string, a attrs, x, indices, want *tensor.Tensor) Case {
	c := Case{Type: "unpool", Name: name, Inputs: slots{"X": One(x), "Indices": One(indices)}, Attrs: attrs{"ksize": byTwo, "unpooling_type": "max"}}
	for name, v := range a {
		c.Attrs[name] = v
	}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

func pyramid(name, kind string, height int32, x, want *tensor.Tensor) Case {
	c := Case{Type: "spp", Name: name + " " + kind, Inputs: slots{"X": One(x)}, Attrs: attrs{"pyramid_height": height, "pooling_type": kind}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

var poolCases = []Case{
	volumePooling("", "max", []int32{2, 2, 2}, nil, Floats(dims{1, 1, 2, 2, 3}, 1, 2, 3, 4, 5, 6, 7, 8, 12, 11, 10, 9), Floats(dims{1, 1, 1, 1, 2}, 11, 12)),
	volumePooling("", "avg", []int32{2, 1, 2}, attrs{"strides": []int32{1, 1, 2}}, counted(1, 1, 2, 1, 4), Floats(dims{1, 1, 1, 1, 2}, 2.5, 4.5)),
	volumePooling("padded", "max", []int32{2, 3, 2}, attrs{"strides": []int32{2, 1, 1}, "paddings": []int32{1, 1, 0}}, Spread(2, 2, 2, 3, 3, 4), nil),
	volumePooling("padded, inclusive", "avg", []int32{2, 3, 2}, attrs{"paddings": []int32{1, 0, 1}, "exclusive": false, "ceil_mode": true}, Spread(2, 1, 2, 3, 4, 2), nil),
	volumePooling("same", "max", []int32{2, 2, 2}, attrs{"padding_algorithm": "SAME", "strides": []int32{2, 2, 2}}, Spread(1, 1, 1, 3, 3, 3), nil),
	volumePooling("global", "avg", []int32{1, 1, 1}, attrs{"global_pooling": true}, counted(1, 1, 2, 2, 2), Floats(dims{1, 1, 1, 1, 1}, 3.5)),
	volumePooling("adaptive", "avg", []int32{2, 1, 2}, attrs{"adaptive": true}, Spread(3, 1, 2, 3, 2, 3), nil),
	volumePooling("channels last", "max", []int32{1, 1, 2}, attrs{"data_format": "NDHWC"}, Floats(dims{1, 1, 1, 2, 2}, 1, 8, 3, 4), Floats(dims{1, 1, 1, 1, 2}, 3, 8)),

	indexed("", byTwo, attrs{"strides": byTwo}, numbered(4), slots{"Out": One(Floats(dims{1, 1, 2, 2}, 6, 8, 14, 16)), "Mask": One(Int32s(dims{1, 1, 2, 2}, 5, 7, 13, 15))}),
	indexed("padded", byTwo, attrs{"paddings": []int32{1, 1}}, Spread(1, 2, 2, 3, 3), nil),
	indexed("beyond the end", byTwo, attrs{"strides": byTwo, "ceil_mode": true}, numbered(3), slots{"Out": One(Floats(dims{1, 1, 2, 2}, 5, 6, 8, 9)), "Mask": One(Int32s(dims{1, 1, 2, 2}, 4, 5, 7, 8))}),
	indexed("adaptive", byTwo, attrs{"adaptive": true}, Spread(1, 1, 2, 3, 5), nil),
	indexed("global", byTwo, attrs{"global_pooling": true}, numbered(3), slots{"Mask": One(Int32s(dims{1, 1, 1, 1}, 8))}),
	indexed("", []int32{2, 1, 2}, nil, counted(1, 1, 2, 1, 3), slots{"Out": One(Floats(dims{1, 1, 1, 1, 2}, 4, 5)), "Mask": One(Int32s(dims{1, 1, 1, 1, 2}, 4, 5))}),

	pyramid("", "max", 2, counted(1, 2, 2, 4), Floats(dims{1, 10}, 7, 15, 1, 3, 5, 7, 9, 11, 13, 15)),
	pyramid("", "avg", 2, counted(2, 1, 2, 2), Floats(dims{2, 5}, 1.5, 0, 1, 2, 3, 5.5, 4, 5, 6, 7)),
	pyramid("windows beside the image", "max", 3, Spread(2, 2, 2, 5, 3), nil),
	pyramid("windows beside the image", "avg", 3, Spread(2, 2, 2, 5, 3), nil),

	unpooled("", attrs{"strides": byTwo}, Floats(dims{1, 1, 1, 2}, 3, 4), Int32s(dims{1, 1, 1, 2}, 5, 2), Floats(dims{1, 1, 2, 4}, 0, 0, 4, 0, 0, 3, 0, 0)),
	unpooled("to a size", attrs{"strides": byTwo, "output_size": []int32{3, 4}}, Floats(dims{1, 1, 1, 2}, 3, 4), Int32s(dims{1, 1, 1, 2}, 5, 11), Floats(dims{1, 1, 3, 4}, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 4)),
	{Type: "unpool3d", Attrs: attrs{"ksize": []int32{1, 2, 2}, "strides": []int32{1, 2, 2}, "unpooling_type": "max", "output_size": []int32{0, 0, 0}},
		Inputs: slots{"X": One(Floats(dims{1, 1, 2, 1, 1}, 3, 4)), "Indices": One(Int32s(dims{1, 1, 2, 1, 1}, 1, 6))}, Want: slots{"Out": One(Floats(dims{1, 1, 2, 2, 2}, 0, 3, 0, 0, 0, 0, 4, 0))}},
	unpooled("channels", nil, Spread(1, 2, 2, 1, 2), Int32s(dims{2, 2, 1, 2}, 0, 5, 1, 2, 4, 3, 5, 0), nil),
}

func TestUnpoolChecksPlaces(t *testing.T) {
	for _, place := range []int32{-1, 4} {
		c := unpooled("", nil, Floats(dims{1, 1, 1, 1}, 3), Int32s(dims{1, 1, 1, 1}, place), nil)
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("place %d of 4: %v", place, err)
		}
	}
	if err := Golden(unpooled("size", attrs{"output_size": []int32{3}}, Floats(dims{1, 1, 1, 1}, 3), Int32s(dims{1, 1, 1, 1}, 0), nil)); fault.KindOf(err) != fault.InvalidArgument {
		t.Error(err)
	}
	if err := Golden(unpooled("padding", attrs{"paddings": byTwo}, Floats(dims{1, 1, 1, 1}, 3), Int32s(dims{1, 1, 1, 1}, 0), nil)); fault.KindOf(err) != fault.InvalidArgument {
		t.Errorf("no image is left: %v", err)
	}
}
