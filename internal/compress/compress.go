// Package compress makes the float32 gradients and parameters of a round smaller on their way between trainers and pservers. It is the one place
// for this arithmetic: the ops compress and decompress do it (ops/comm), the merge of contributions undoes it (internal/merge), and the reference
// executor does both (executor/reference). So a cluster and its reference round alike, to the last bit.
//
// A Form says how a tensor travels:
//
//	none    as it is
//	bf16    each element rounded to bfloat16: 8 bits of exponent, 7 of fraction. Half the bytes
//	fp16    each element rounded to IEEE 754 binary16: 5 bits of exponent, 10 of fraction. Half the bytes
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
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// A Form says how float32 tensors travel. Its value is what a user says; the zero Form is None.
type Form string

// The forms.
const (
	None     Form = ""
	BFloat16 Form = "bf16"
	Float16  Form = "fp16"
)

// Parse reads a form by its name. None is called none; the empty name means None, too.
func Parse(name string) (Form, error) {
	switch f := Form(name); f {
	case None, BFloat16, Float16:
		return f, nil
	case "none":
		return None, nil
	}
	return None, fault.E(fault.InvalidArgument, fault.Got("the compression "+fault.Quote(name)), fault.Want("none, bf16 or fp16"))
}

// DType is the element type of what travels.
func (f Form) DType() tensor.DType {
	switch f {
	case BFloat16:
		return tensor.BFloat16
	case Float16:
		return tensor.Float16
	}
	return tensor.Float32
}

// Narrow converts x to the half type of out, which is as long.
func Narrow(out *tensor.Tensor, x []float32) {
	if out.DType() == tensor.BFloat16 {
		kernel.ToBFloat16(out.Halves(), x)
	} else {
		kernel.ToFloat16(out.Halves(), x)
	}
}

// Widen converts the elements of x, of a half type, from element from on. It fills out.
func Widen(out []float32, x *tensor.Tensor, from int) {
	halves := x.Halves()[from:][:len(out)]
	if x.DType() == tensor.BFloat16 {
		kernel.FromBFloat16(out, halves)
	} else {
		kernel.FromFloat16(out, halves)
	}
}

// Narrowed returns what travels of a float32 tensor: a tensor of a half type, or t itself if f is None or t is of another type.
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

// Round gives a float32 tensor the values that the other end has of it. A tensor of another type stays as it is.
func Round(t *tensor.Tensor, f Form) error {
	half, err := Narrowed(t, f)
	if err != nil || half == t {
		return err
	}
	Widen(t.Float32s(), half, 0)
	return nil
}
