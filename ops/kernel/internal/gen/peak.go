package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// peak emits loops of independent fused multiply-adds, whose speed is the limit of the machine.
func peak(u *asmFile) {
	for _, width := range []struct {
		name      string
		registers []reg.Register
	}{{"AVX2", ymm[:12]}, {"AVX512", zmm[:24]}} {
		u.function("multiplyAdd"+width.name, "func(rounds int)", fmt.Sprintf("%d independent chains.", len(width.registers)))
		u.Load(u.Param("rounds"), reg.RCX)
		for _, r := range width.registers {
			zero(u, r)
		}
		loop := u.label("round")
		u.Label(loop)
		for _, r := range width.registers {
			u.VFMADD231PS(r, r, r)
		}
		u.SUBQ(operand.U8(1), reg.RCX)
		u.JNZ(jump(loop))
		u.finish()
	}
}
