package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tailMask selects the first count lanes, 0 to 8.
func (u *asmFile) tailMask(count reg.Register) reg.VecVirtual {
	window, minus, mask := u.GP64(), u.GP64(), u.YMM()
	u.LEAQ(u.laneWindow(), window)
	u.MOVQ(count, minus)
	u.NEGQ(minus)
	u.VMOVUPS(operand.Mem{Base: window, Index: minus, Scale: 4, Disp: 32}, mask)
	return mask
}

// storeTail stores the first count lanes, 0 to 7, in pieces: a masked store would be slow on some processors. It changes to.
func (u *asmFile) storeTail(r reg.VecVirtual, to, count reg.Register) {
	low := u.YMM()
	u.VMOVAPS(r, low)
	two, one, done := u.label("two"), u.label("one"), u.label("stored")
	u.TESTQ(operand.U32(4), count)
	u.JZ(jump(two))
	u.VMOVUPS(low.AsX(), at(to, 0))
	u.VEXTRACTF128(operand.U8(1), low, low.AsX())
	u.ADDQ(operand.U8(16), to)
	u.Label(two)
	u.TESTQ(operand.U32(2), count)
	u.JZ(jump(one))
	u.VMOVLPS(low.AsX(), at(to, 0))
	u.VMOVHLPS(low.AsX(), low.AsX(), low.AsX())
	u.ADDQ(operand.U8(8), to)
	u.Label(one)
	u.TESTQ(operand.U32(1), count)
	u.JZ(jump(done))
	u.VMOVSS(low.AsX(), at(to, 0))
	u.Label(done)
}

// laneWindow addresses eight ones followed by eight zeros, of 32 bits each.
func (u *asmFile) laneWindow() operand.Mem {
	if m, ok := u.constants["window"]; ok {
		return m
	}
	m := u.StaticGlobal("laneWindow")
	u.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 16 {
		value := uint32(0)
		if i < 8 {
			value = math.MaxUint32
		}
		u.AddDatum(4*i, operand.U32(value))
	}
	u.constants["window"] = m
	return m
}
