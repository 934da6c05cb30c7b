package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// half emits conversions between float32 and the two formats of 16 bits, of whole vectors of eight; callers pad the rest.
func half(u *asmFile) {
	convert(u, "float32ToFloat16", "func(out []uint16, x []float32)", 2, 4, func(from, to operand.Mem) {
		v := u.YMM()
		u.VMOVUPS(from, v)
		u.VCVTPS2PH(operand.U8(0), v, to)
	})
	convert(u, "float16ToFloat32", "func(out []float32, x []uint16)", 4, 2, func(from, to operand.Mem) {
		v := u.YMM()
		u.VCVTPH2PS(from, v)
		u.VMOVUPS(v, to)
	})
	convert(u, "bfloat16ToFloat32", "func(out []float32, x []uint16)", 4, 2, func(from, to operand.Mem) {
		v := u.YMM()
		u.VPMOVZXWD(from, v)
		u.VPSLLD(operand.U8(16), v, v)
		u.VMOVUPS(v, to)
	})
	convert(u, "float32ToBFloat16", "func(out []uint16, x []float32)", 2, 4, func(from, to operand.Mem) {
		v := u.YMM()
		u.VMOVUPS(from, v)
		u.VMOVUPS(u.bfloat16(v), to)
	})
}

// bfloat16 emits the upper halves of x, rounded to nearest, ties to even; a NaN keeps its upper bits and becomes quiet.
func (u *asmFile) bfloat16(x reg.VecVirtual) reg.VecVirtual {
	odd, nan, quiet := u.YMM(), u.YMM(), u.YMM()
	u.VCMPPS(operand.U8(compareUnordered), x, x, nan)
	u.VPOR(u.word(0x400000), x, quiet)
	u.VPSRLD(operand.U8(16), x, odd)
	u.VPAND(u.word(1), odd, odd)
	u.VPADDD(u.word(0x7fff), x, x)
	u.VPADDD(odd, x, x)
	u.VBLENDVPS(nan, quiet, x, x)
	u.VPSRLD(operand.U8(16), x, x)
	upper, packed := u.XMM(), u.XMM()
	u.VEXTRACTI128(operand.U8(1), x, upper)
	u.VPACKUSDW(upper, x.AsX(), packed)
	return packed
}

// convert emits a loop over vectors of eight; sizes are those of the elements, in bytes.
func convert(u *asmFile, name, signature string, toSize, fromSize int, vector func(from, to operand.Mem)) {
	u.function(name, signature, "")
	to, from := u.Load(u.Param("out").Base(), u.GP64()), u.Load(u.Param("x").Base(), u.GP64())
	left := u.Load(u.Param("out").Len(), u.GP64())
	loop, done := u.label("vectors"), u.label("done")
	u.Label(loop)
	u.SUBQ(operand.U8(8), left)
	u.JLT(jump(done))
	vector(at(from, 0), at(to, 0))
	u.ADDQ(operand.U8(8*fromSize), from)
	u.ADDQ(operand.U8(8*toSize), to)
	u.JMP(jump(loop))
	u.Label(done)
	u.finish()
}
