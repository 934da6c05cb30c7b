package math_test

import (
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

var wrapCases = []Case{
	wrapped("signed", Int32s(dims{5}, 127, 128, 200, -129, 256), attrs{"bits": int32(8)}, Int32s(dims{5}, 127, -128, -56, 127, 0)),
	wrapped("unsigned", Int32s(dims{5}, 255, 256, -1, -257, 1<<30+3), attrs{"bits": int32(8), "unsigned": true}, Int32s(dims{5}, 255, 0, 255, 255, 3)),
	wrapped("of 16 bits", Int32s(dims{2, 2}, 32767, 32768, -32769, 5), attrs{"bits": int32(16)}, Int32s(dims{2, 2}, 32767, -32768, 32767, 5)),
	wrapped("other elements", Floats(dims{2}, 300.5, -1), attrs{"bits": int32(8)}, Floats(dims{2}, 300.5, -1)),
}

func wrapped(name string, x *tensor.Tensor, a attrs, want *tensor.Tensor) Case {
	return Case{Type: "wrap_integers", Name: name, Attrs: a, Inputs: slots{"X": One(x)}, Constant: []string{"X"}, Want: slots{"Out": One(want)}}
}
