package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

type vectors = []reg.VecVirtual

// elementwise emits the arithmetic of two operands: arrays, or an array and a number. No multiplication is fused with
// an addition, so that portable Go gives the same bits.
func elementwise(u *asmFile) {
	for _, op := range []struct {
		name string
		emit func(u *asmFile, x, y reg.VecVirtual) reg.VecVirtual
	}{{"add", (*asmFile).add}, {"sub", (*asmFile).sub}, {"mul", (*asmFile).mul}, {"div", (*asmFile).div}, {"max", (*asmFile).max},
		{"min", (*asmFile).min}} {
		stream{name: op.name + "Vectors", arrays: []string{">out", "x", "y"}, unroll: 4,
			body: func(u *asmFile, _ vectors) func(vectors) vectors {
				return func(in vectors) vectors { return vectors{op.emit(u, in[0], in[1])} }
			}}.emit(u)
		stream{name: op.name + "Scalar", arrays: []string{">out", "x"}, scalars: []string{"y"}, unroll: 4,
			body: func(u *asmFile, s vectors) func(vectors) vectors {
				return func(in vectors) vectors { return vectors{op.emit(u, in[0], s[0])} }
			}}.emit(u)
	}
	for _, s := range []stream{
		{name: "mulAdd", doc: "out += x*y", arrays: []string{"><out", "x", "y"}, body: pure(func(u *asmFile, in, _ vectors) vectors {
			return vectors{u.add(in[0], u.mul(in[1], in[2]))}
		})},
		{name: "axpy", doc: "out += weight*x", arrays: []string{"><out", "x"}, scalars: []string{"weight"},
			body: pure(func(u *asmFile, in, s vectors) vectors {
				return vectors{u.add(in[0], u.mul(in[1], s[0]))}
			})},
		{name: "scaleBias", doc: "out = scale*x + bias", arrays: []string{">out", "x"}, scalars: []string{"scale", "bias"},
			body: pure(func(u *asmFile, in, s vectors) vectors {
				return vectors{u.add(u.mul(in[0], s[0]), s[1])}
			})},
		{name: "biasScale", doc: "out = (x+bias)*scale", arrays: []string{">out", "x"}, scalars: []string{"scale", "bias"},
			body: pure(func(u *asmFile, in, s vectors) vectors {
				return vectors{u.mul(u.add(in[0], s[1]), s[0])}
			})},
		{name: "normalise", doc: "out = (x-center)*factor + bias", arrays: []string{">out", "x"}, scalars: []string{"center", "factor", "bias"},
			body: pure(func(u *asmFile, in, s vectors) vectors {
				return vectors{u.add(u.mul(u.sub(in[0], s[0]), s[1]), s[2])}
			})},
		{name: "normaliseGrad", doc: "out = ((g-meanGrad)-((x-center)*factor)*meanProduct)*scale", arrays: []string{">out", "x", "g"},
			scalars: []string{"center", "factor", "meanGrad", "meanProduct", "scale"}, body: pure(func(u *asmFile, in, s vectors) vectors {
				return vectors{u.mul(u.sub(u.sub(in[1], s[2]), u.mul(u.mul(u.sub(in[0], s[0]), s[1]), s[3])), s[4])}
			})},
	} {
		s.unroll = 4
		s.emit(u)
	}
}

// pure makes a body that prepares nothing.
func pure(compute func(u *asmFile, in, scalars vectors) vectors) func(u *asmFile, scalars vectors) func(vectors) vectors {
	return func(u *asmFile, scalars vectors) func(vectors) vectors {
		return func(in vectors) vectors { return compute(u, in, scalars) }
	}
}

func (u *asmFile) add(x, y reg.VecVirtual) reg.VecVirtual {
	out := vector(u)
	u.VADDPS(y, x, out)
	return out
}

func (u *asmFile) sub(x, y reg.VecVirtual) reg.VecVirtual {
	out := vector(u)
	u.VSUBPS(y, x, out)
	return out
}

func (u *asmFile) mul(x, y reg.VecVirtual) reg.VecVirtual {
	out := u.YMM()
	u.VMULPS(y, x, out)
	return out
}

func (u *asmFile) div(x, y reg.VecVirtual) reg.VecVirtual {
	out := u.YMM()
	u.VDIVPS(y, x, out)
	return out
}

// max is Go's: NaN where either is, and 0 above -0. The instruction returns its second source for these, so the two
// orders differ there alone: together they have 0, and a NaN in one of them is put into both.
func (u *asmFile) max(x, y reg.VecVirtual) reg.VecVirtual {
	out, swapped, unordered := u.YMM(), u.YMM(), u.YMM()
	u.VMAXPS(y, x, out)
	u.VMAXPS(x, y, swapped)
	u.VCMPPS(operand.U8(compareUnordered), y, x, unordered)
	u.VANDPS(swapped, out, out)
	u.VORPS(unordered, out, out)
	return out
}

// min is Go's: NaN where either is, and -0 below 0. See max; an or keeps a NaN by itself.
func (u *asmFile) min(x, y reg.VecVirtual) reg.VecVirtual {
	out, swapped := u.YMM(), u.YMM()
	u.VMINPS(y, x, out)
	u.VMINPS(x, y, swapped)
	u.VORPS(swapped, out, out)
	return out
}

// Predicates of VCMPPS.
const (
	compareUnordered    = 0x03 // either is NaN
	compareNotLessEqual = 0x06 // greater, or either is NaN
	compareGreater      = 0x1e // false for NaN
)
