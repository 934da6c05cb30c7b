// Package compress makes the float32 gradients and parameters of a round smaller on their way between trainers and pservers. It is the one place
// for this arithmetic: the ops compress, decompress and compress_topk do it (ops/comm), the merge of contributions undoes it (internal/merge), and the
// reference executor does both (executor/reference). So a cluster and its reference compute alike, to the last bit.
//
// A Form says how a tensor travels:
//
//	none    as it is
//	bf16    each element rounded to bfloat16: 8 bits of exponent, 7 of fraction. Half the bytes
//	fp16    each element rounded to IEEE 754 binary16: 5 bits of exponent, 10 of fraction. Half the bytes
//	topk:F  of each slice of a gradient the fraction F of its elements, those of largest magnitude. The rest is sent in later steps
//
// Files: compress.go has the forms, and the two that round; topk.go has the selection of topk, and what it means for gradients.
//
// Rounding is to nearest, ties to even. Infinities stay infinities, and a NaN stays a NaN. What the other end has differs from x by at most
//
//	bf16    |x| * 2^-8     where 2^-126 <= |x| < 3.39e38, and at most 2^-134 below that
//	fp16    |x| * 2^-11    where 2^-14 <= |x| < 65520, and at most 2^-25 below that
//
// Larger numbers become infinite. With bf16 these are numbers that are almost infinite already. With fp16 they are 65520 and more: the loss of the
// next step is then not finite, and the job ends with an error. With fp16, what is 2^-25 or less becomes 0, and gradients are often small. So bf16
// suits gradients.
//
// Where the forms are in a round, with slices S of a parameter W on a server, which keeps float32:
//
//	trainer                                    pserver
//	gradient G of W, float32
//	compress: G -> one tensor of 16 bits
//	  or compress_topk: G, residual -> entries
//	for each slice ------------ send --------> contribution to S
//	                                           merge: sum of weight[t] * float32(contribution[t]), in rank order, in float32
//	                                           optimize block: updates S from the merge, then compress: S -> S.bf16
//	S.bf16 <------------------- recv --------- S.bf16
//	decompress: all S.bf16 -> W, float32
//
// A trainer that joins receives S in float32 and rounds it in the same way. So the forward pass computes with rounded parameters in every step, also
// the first one, and what is saved is float32.
package compress

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// A Form says how float32 tensors travel. Forms may be compared; the zero Form is None.
type Form struct {
	name     string
	fraction float64 // of topk: how much of each slice a step sends
	least    int64   // of topk: the elements of the smallest gradient that is not sent whole
}

// The forms that round, and the one that changes nothing.
var (
	None     = Form{}
	BFloat16 = Form{name: "bf16"}
	Float16  = Form{name: "fp16"}
)

const topK = "topk"

// Bounds of topk.
const (
	// LeastSelected is how many elements a gradient has at least that topk does not send whole, unless the form says another number. It is Fluid's bound.
	LeastSelected = 16384
	// mostSelected is the largest fraction. An entry has twice the bytes of an element, so bf16 sends as few.
	mostSelected = 0.25
)

// What a user may say of gradients and of parameters.
const (
	GradientForms  = "none, bf16, fp16, topk:FRACTION (above 0, at most 0.25) or topk:FRACTION:LEAST"
	ParameterForms = "none, bf16 or fp16"
)

// ParseGradients reads the form of gradients. None is called none; the empty text means None, too.
func ParseGradients(text string) (Form, error) {
	if name, numbers, ok := strings.Cut(text, ":"); ok && name == topK {
		return parseTopK(text, numbers)
	}
	return parse(text, GradientForms)
}

// ParseParameters reads the form of parameters, which cannot be topk.
func ParseParameters(text string) (Form, error) { return parse(text, ParameterForms) }

func parse(text, want string) (Form, error) {
	switch text {
	case "", "none":
		return None, nil
	case BFloat16.name:
		return BFloat16, nil
	case Float16.name:
		return Float16, nil
	}
	return None, fault.E(fault.InvalidArgument, fault.Got("the compression "+fault.Quote(text)), fault.Want(want))
}

// parseTopK reads the numbers of topk:FRACTION or topk:FRACTION:LEAST.
func parseTopK(text, numbers string) (Form, error) {
	wrong := func(want string) (Form, error) {
		return None, fault.E(fault.InvalidArgument, fault.Got("the compression "+fault.Quote(text)), fault.Want(want))
	}
	first, second, both := strings.Cut(numbers, ":")
	f := Form{name: topK, least: LeastSelected}
	var err error
	if f.fraction, err = strconv.ParseFloat(first, 64); err != nil || !(f.fraction > 0 && f.fraction <= mostSelected) {
		return wrong(fmt.Sprintf("a FRACTION of more than 0 and at most %v, such as topk:0.01", mostSelected))
	}
	if both {
		if f.least, err = strconv.ParseInt(second, 10, 64); err != nil || f.least < 1 {
			return wrong("1 or more elements for LEAST, such as topk:0.01:4096")
		}
	}
	return f, nil
}

// String returns what a user says.
func (f Form) String() string {
	switch {
	case f == None:
		return "none"
	case !f.Selects():
		return f.name
	case f.least == LeastSelected:
		return fmt.Sprintf("%s:%v", topK, f.fraction)
	}
	return fmt.Sprintf("%s:%v:%d", topK, f.fraction, f.least)
}

// Name is the form without its numbers: bf16, fp16 or topk; empty for None. It is part of the names of variables.
func (f Form) Name() string { return f.name }

// Selects reports whether the form is topk: a step sends entries, and keeps the rest for later.
func (f Form) Selects() bool { return f.name == topK }

// Of returns the form in which a float32 gradient of so many elements travels: f, or None where topk sends it whole.
func (f Form) Of(elements int64) Form {
	if f.Selects() && elements < f.least {
		return None
	}
	return f
}

// Entries is how many elements of a slice topk sends in a step: the fraction, rounded up.
func (f Form) Entries(elements int64) int64 {
	return min(elements, int64(math.Ceil(f.fraction*float64(elements))))
}

// DType is the element type of what travels.
func (f Form) DType() tensor.DType {
	switch f.name {
	case BFloat16.name:
		return tensor.BFloat16
	case Float16.name:
		return tensor.Float16
	case topK:
		return tensor.Int32
	}
	return tensor.Float32
}

// Narrow converts x to the half type of out, which is as long.
func Narrow(out *tensor.Tensor, x []float32) {
	if out.DType() == tensor.BFloat16 {
		kernel.ToBFloat16(tensor.Data[uint16](out), x)
	} else {
		kernel.ToFloat16(tensor.Data[uint16](out), x)
	}
}

// Widen converts the elements of x, of a half type, from element from on. It fills out.
func Widen(out []float32, x *tensor.Tensor, from int) {
	halves := tensor.Data[uint16](x)[from:][:len(out)]
	if x.DType() == tensor.BFloat16 {
		kernel.FromBFloat16(out, halves)
	} else {
		kernel.FromFloat16(out, halves)
	}
}

// Narrowed returns what travels of a float32 tensor in a form that does not select: a tensor of a half type, or t itself if f is None or t is of another
// type.
func Narrowed(t *tensor.Tensor, f Form) (*tensor.Tensor, error) {
	if f == None || t.DType() != tensor.Float32 {
		return t, nil
	}
	half, err := tensor.New(f.DType(), t.Dims()...)
	if err != nil {
		return nil, err
	}
	Narrow(half, t.Float32s())
	return half, nil
}

// Round gives a float32 tensor the values that the other end has of it in a form that does not select. A tensor of another type stays as it is.
func Round(t *tensor.Tensor, f Form) error {
	half, err := Narrowed(t, f)
	if err != nil || half == t {
		return err
	}
	Widen(t.Float32s(), half, 0)
	return nil
}
