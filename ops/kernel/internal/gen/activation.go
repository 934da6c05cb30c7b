package main

import "github.com/mmcloughlin/avo/operand"

// activation emits activations, their gradients, and exp, which softmax shares.
func activation(u *asmFile) {
	for _, s := range []stream{
		{name: "relu", doc: "out = max(x, 0), NaN for NaN", arrays: []string{">out", "x"}, unroll: 4,
			body: func(u *asmFile, _ vectors) func(vectors) vectors {
				none := u.YMM()
				zero(u, none)
				return func(in vectors) vectors {
					keep := compare(u, compareNotLessEqual, in[0], none)
					u.VANDPS(in[0], keep, keep)
					return vectors{keep}
				}
			}},
		{name: "reluGrad", doc: "dx = dout where out > 0, else 0", arrays: []string{">dx", "out", "dout"}, unroll: 4,
			body: func(u *asmFile, _ vectors) func(vectors) vectors {
				none := u.YMM()
				zero(u, none)
				return func(in vectors) vectors {
					keep := compare(u, compareGreater, in[0], none)
					u.VANDPS(in[1], keep, keep)
					return vectors{keep}
				}
			}},
		{name: "sigmoidGrad", doc: "dx = dout*out*(1-out)", arrays: []string{">dx", "out", "dout"}, unroll: 2,
			body: func(u *asmFile, _ vectors) func(vectors) vectors {
				one := u.constant(1)
				return func(in vectors) vectors { return vectors{u.mul(u.mul(in[1], in[0]), u.sub(one, in[0]))} }
			}},
		{name: "tanhGrad", doc: "dx = dout*(1-out*out)", arrays: []string{">dx", "out", "dout"}, unroll: 2,
			body: func(u *asmFile, _ vectors) func(vectors) vectors {
				one := u.constant(1)
				return func(in vectors) vectors { return vectors{u.mul(in[1], u.sub(one, u.mul(in[0], in[0])))} }
			}},
		{name: "squareGrad", doc: "dx = 2*dout*x", arrays: []string{">dx", "x", "dout"}, unroll: 4, body: pure(func(u *asmFile, in, _ vectors) vectors {
			return vectors{u.mul(u.add(in[1], in[1]), in[0])} // a sum with itself is exact, or as infinite as the product with 2
		})},
		{name: "softmaxGrad", doc: "dx = out*(dout-dot)", arrays: []string{">dx", "out", "dout"}, scalars: []string{"dot"}, unroll: 2,
			body: pure(func(u *asmFile, in, s vectors) vectors {
				return vectors{u.mul(in[0], u.sub(in[1], s[0]))}
			})},
		{name: "exp", doc: "out = exp(x-shift)", arrays: []string{">out", "x"}, scalars: []string{"shift"}, unroll: 2,
			body: func(u *asmFile, s vectors) func(vectors) vectors {
				e := prepareExp(u)
				return func(in vectors) vectors { return vectors{e.of(u.sub(in[0], s[0]))} }
			}},
		{name: "sigmoid", doc: "out = 1/(1+exp(-x))", arrays: []string{">out", "x"}, unroll: 2, body: sigmoid},
		{name: "tanh", doc: "out = tanh(x)", arrays: []string{">out", "x"}, unroll: 1, body: tanh},
	} {
		s.emit(u)
	}
}

// sigmoid divides by d = 1+exp(-|x|), which neither overflows nor cancels: 1 above zero, exp(-|x|) below. What rounding took
// from d, of which the quotient is -quotient/d times as sensitive, is put back; 1/d is the quotient above zero, and 1 less
// the quotient below.
func sigmoid(u *asmFile, _ vectors) func(vectors) vectors {
	e := prepareExp(u)
	one := u.constant(1)
	return func(in vectors) vectors {
		x, numerator := u.YMM(), u.YMM()
		u.VORPS(u.word(signBit), in[0], x)
		power := e.of(x)
		u.VBLENDVPS(in[0], power, one, numerator) // by the sign bit of x
		divisor := u.add(one, power)
		quotient := u.div(numerator, divisor)
		lost := u.sub(power, u.sub(divisor, one))
		inverse := u.YMM()
		u.VBLENDVPS(in[0], u.sub(one, quotient), quotient, inverse)
		u.VFNMADD231PS(lost, u.mul(quotient, inverse), quotient)
		return vectors{quotient}
	}
}

// tanh is an odd polynomial near zero and 1 - 2/(exp(2|x|)+1) with the sign of x elsewhere. The polynomial is that of the
// Cephes library.
func tanh(u *asmFile, _ vectors) func(vectors) vectors {
	const border = 0.625
	e := prepareExp(u)
	one := u.constant(1)
	return func(in vectors) vectors {
		x := in[0]
		square := u.mul(x, x)
		near := u.polynomial(square, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
		near = u.mul(near, square)
		u.VFMADD213PS(x, x, near)

		size, sign, far := u.YMM(), u.YMM(), u.YMM()
		u.VANDPS(u.word(^uint32(signBit)), x, size)
		u.VANDPS(u.word(signBit), x, sign)
		power := e.of(u.add(size, size))
		quotient := u.YMM()
		u.VADDPS(one, power, power)
		u.VMOVUPS(u.float(2), quotient)
		u.VDIVPS(power, quotient, quotient)
		u.VSUBPS(quotient, one, far)
		u.VORPS(sign, far, far)

		small, out := u.YMM(), u.YMM()
		u.VCMPPS(operand.U8(compareLess), u.float(border), size, small)
		u.VBLENDVPS(small, near, far, out)
		return vectors{out}
	}
}

const (
	signBit     = 1 << 31
	compareLess = 0x11 // false for NaN
)
