package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// aheadLog is the logarithm of how many rows copyPanel asks memory for before it needs them: 32 cache lines, about as many as a core waits for at
// once.
const aheadLog = 4

// panel emits a copy of rows of 128 bytes, which lie apart, to one after another. Rows come from far away, each from a page of its own, where
// the processor does not see what comes next; so it is told.
func panel(u *asmFile) {
	u.function("copyPanel", "func(dst, src *byte, srcStep, rows int)", "")
	dst, src, step, rows, ahead := reg.RDI, reg.RSI, reg.RDX, reg.RCX, reg.RBX
	u.Load(u.Param("dst"), dst)
	u.Load(u.Param("src"), src)
	u.Load(u.Param("srcStep"), step)
	u.Load(u.Param("rows"), rows)
	u.MOVQ(step, ahead)
	u.SHLQ(operand.U8(aheadLog), ahead)
	loop := u.label("row")
	u.Label(loop)
	for line := 0; line < 128; line += 64 {
		u.PREFETCHT0(operand.Mem{Base: src, Index: ahead, Scale: 1, Disp: line})
	}
	for v := range 4 {
		u.VMOVUPS(at(src, 32*v), ymm[v])
	}
	for v := range 4 {
		u.VMOVUPS(ymm[v], at(dst, 32*v))
	}
	u.ADDQ(step, src)
	u.ADDQ(operand.U32(128), dst)
	u.DECQ(rows)
	u.JNZ(jump(loop))
	u.finish()
}
