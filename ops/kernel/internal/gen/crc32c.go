package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// crc32c emits checksums of whole vectors of 64 bytes, by the method of Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
// Instruction" (Intel, 2009): a lane of 128 bits is moved over the bits that follow it by two multiplications without carries, which leaves the
// remainder of the whole as it is. Four vectors of four lanes are moved at a time. The instruction CRC32 ends it, so no reduction by Barrett is needed.
func crc32c(u *asmFile) {
	const vector, vectors = 64, 4
	const turn = vector * vectors
	u.function("fold", "func(crc uint32, p []byte) uint32", fmt.Sprintf("At least %d bytes, a multiple of %d.", turn, vector))
	from, left := u.Load(u.Param("p").Base(), u.GP64()), u.Load(u.Param("p").Len(), u.GP64())
	crc := u.Load(u.Param("crc"), u.GP32())
	var sums [vectors]reg.VecVirtual
	for i := range sums {
		sums[i] = u.ZMM()
		u.VMOVDQU64(at(from, i*vector), sums[i])
	}
	begin := u.XMM() // the checksum so far is added to the first 32 bits
	u.VMOVD(crc, begin)
	u.VPXORQ(begin.AsZ(), sums[0], sums[0])
	forward := func(bytes int) {
		u.ADDQ(operand.U32(bytes), from)
		u.SUBQ(operand.U32(bytes), left)
	}
	// whole emits turns of so many bytes while there are as many left.
	whole := func(bytes int, turn func()) {
		again, done := u.label("fold"), u.label("fewer")
		u.Label(again)
		u.CMPQ(left, operand.U32(bytes))
		u.JLT(jump(done))
		turn()
		forward(bytes)
		u.JMP(jump(again))
		u.Label(done)
	}
	forward(turn)
	k := u.ZMM()
	u.VMOVDQU64(factors(u, 8*turn, 8*turn, 8*turn, 8*turn), k)
	whole(turn, func() {
		for i, sum := range sums {
			foldOver(u, sum, k, at(from, i*vector))
		}
	})
	u.VMOVDQU64(factors(u, 8*vector, 8*vector, 8*vector, 8*vector), k)
	sum := sums[0]
	for _, next := range sums[1:] {
		foldOver(u, sum, k, next)
	}
	whole(vector, func() { foldOver(u, sum, k, at(from, 0)) })

	u.VMOVDQU64(factors(u, 384, 256, 128, 0), k) // the first three lanes over those that follow them
	lanes, last := u.ZMM(), u.XMM()
	u.VPXORQ(lanes, lanes, lanes)
	u.VEXTRACTI32X4(operand.U8(3), sum, last)
	foldOver(u, sum, k, lanes)
	for i := range 3 {
		u.VEXTRACTI32X4(operand.U8(i), sum, lanes.AsX())
		u.VPXOR(lanes.AsX(), last, last)
	}
	out, half := u.GP64(), u.GP64()
	u.XORQ(out, out)
	for i := range 2 {
		u.VPEXTRQ(operand.U8(i), last, half)
		u.CRC32Q(half, out)
	}
	u.Store(out.As32(), u.ReturnIndex(0))
	u.finish()
}

// foldOver moves the lanes of sum over the bits that the factors k stand for, and adds next.
func foldOver(u *asmFile, sum, k reg.VecVirtual, next operand.Op) {
	first := u.ZMM()
	u.VPCLMULQDQ(operand.U8(0x00), k, sum, first)
	u.VPCLMULQDQ(operand.U8(0x11), k, sum, sum)
	u.VPTERNLOGQ(operand.U8(0x96), next, first, sum) // exclusive or of three
}

// factors addresses a vector with the factors that move each lane over so many bits; 0: the lane becomes zero. A lane has a factor for its first and one
// for its second 64 bits. The first are the upper half of its polynomial. A product of 64 and 32 bits counts x^33 too much, because both begin with the
// highest power.
func factors(u *asmFile, bits ...int) operand.Mem {
	m := u.StaticGlobal(fmt.Sprintf("factors%d", bits[0]))
	u.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, n := range bits {
		var first, second uint64
		if n > 0 {
			first, second = power(n+64-33), power(n-33)
		}
		u.AddDatum(16*i, operand.U64(first))
		u.AddDatum(16*i+8, operand.U64(second))
	}
	return m
}

// castagnoli is the polynomial of crc32c without x^32; bit 31 is the coefficient of x^0.
const castagnoli = 0x82f63b78

// power returns x^n modulo the polynomial, in the order of bits of castagnoli.
func power(n int) uint64 {
	p := uint32(1 << 31)
	for range n {
		p = p>>1 ^ castagnoli*(p&1)
	}
	return uint64(p)
}
