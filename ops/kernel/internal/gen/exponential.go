package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exponential is exp with its limits in registers.
type exponential struct {
	*asmFile
	most, least reg.VecVirtual
}

// Beyond these exp rounds to +Inf and to 0.
const (
	expMost  = 89
	expLeast = -104
)

func prepareExp(u *asmFile) exponential {
	return exponential{u, u.constant(expMost), u.constant(expLeast)}
}

// of emits exp(x) = 2^n * exp(r) with n the integer nearest to x/ln2, so that |r| <= ln2/2. ln2 is subtracted in two parts,
// of which the first has zeros at its end and n*high is exact. exp(r) = 1 + r + r^2*q(r), with q as in the Cephes library.
// The power of two is multiplied in two halves: either is a normal number, and a subnormal result is rounded once.
func (e exponential) of(x reg.VecVirtual) reg.VecVirtual {
	const ln2High, ln2Low = 0x1.62e4p-1, 0x1.7f7d1cp-20
	limited, n := e.YMM(), e.YMM()
	e.VMINPS(x, e.most, limited) // the second source, which is x, wins against NaN
	e.VMAXPS(limited, e.least, limited)
	e.VMULPS(e.float(math.Log2E), limited, n)
	e.VROUNDPS(operand.U8(0), n, n)
	e.VFNMADD231PS(e.float(ln2High), n, limited)
	e.VFNMADD231PS(e.float(ln2Low), n, limited)
	r := limited
	q := e.polynomial(r, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
	square := e.mul(r, r)
	e.VFMADD213PS(r, square, q)
	e.VADDPS(e.float(1), q, q)

	whole, half, scale := e.YMM(), e.YMM(), e.YMM()
	e.VCVTPS2DQ(n, whole)
	e.VPSRAD(operand.U8(1), whole, half)
	e.VPSUBD(half, whole, whole)
	for _, exponent := range (vectors{half, whole}) {
		e.VPADDD(e.word(127), exponent, scale)
		e.VPSLLD(operand.U8(23), scale, scale)
		e.VMULPS(scale, q, q)
	}
	return q
}
