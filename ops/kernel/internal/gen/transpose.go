package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose emits functions that write the columns of a few rows as rows: 8 rows of float32, 4 of float64, as many
// columns at a time, and 16 rows of float32 with AVX-512. Steps are distances between rows in bytes.
func transpose(u *asmFile) {
	transposeRows(u, float32s)
	transposeRows(u, float64s)
	transposeWide(u)
}

func transposeRows(u *asmFile, e element) {
	side := 32 / e.size
	u.function("transposeBlocks"+e.name, "func(dst, src *byte, dstStep, srcStep, dstNext, srcNext, blocks int)",
		"Square blocks of one vector a side, dstNext and srcNext bytes apart.")
	dst, src, dstStep, srcStep, blocks := reg.RDI, reg.RSI, reg.RDX, reg.RBX, reg.RCX
	u.Load(u.Param("dst"), dst)
	u.Load(u.Param("src"), src)
	u.Load(u.Param("dstStep"), dstStep)
	u.Load(u.Param("srcStep"), srcStep)
	u.Load(u.Param("blocks"), blocks)
	srcStep3, upper, dstStep3 := reg.R8, reg.R9, reg.R10
	dstNext, srcNext, to4 := reg.R11, reg.R12, reg.R13
	u.Load(u.Param("dstNext"), dstNext)
	u.Load(u.Param("srcNext"), srcNext)
	u.LEAQ(operand.Mem{Base: srcStep, Index: srcStep, Scale: 2}, srcStep3)
	u.LEAQ(operand.Mem{Base: dstStep, Index: dstStep, Scale: 2}, dstStep3)
	u.LEAQ(operand.Mem{Base: src, Index: srcStep, Scale: uint8(side / 2)}, upper) // the second half of the rows
	loop := u.label("block")
	u.Label(loop)
	// Half a row in the lower lane, the same half of the row side/2 below in the upper one.
	for half := range 2 {
		for r := range side / 2 {
			to := half*side/2 + r
			u.VMOVUPS(stepped(src, srcStep, srcStep3, r, 16*half), xmm[to])
			u.VINSERTF128(operand.U8(1), stepped(upper, srcStep, srcStep3, r, 16*half), ymm[to], ymm[to])
		}
	}
	var columns []reg.Register
	for half := range 2 {
		rows := ymm[half*side/2:]
		if e.size == 8 {
			low, high := ymm[8+2*half], ymm[9+2*half]
			u.VUNPCKLPD(rows[1], rows[0], low)
			u.VUNPCKHPD(rows[1], rows[0], high)
			columns = append(columns, low, high)
			continue
		}
		exchangeInLanes(u, rows, ymm[8:])
		columns = append(columns, rows[:4]...)
	}
	for c, from := range columns {
		to := dst
		if c >= 4 {
			to = to4
		}
		if c == 4 {
			u.LEAQ(operand.Mem{Base: dst, Index: dstStep, Scale: 4}, to4)
		}
		u.VMOVUPS(from, stepped(to, dstStep, dstStep3, c%4, 0))
	}
	u.ADDQ(dstNext, dst)
	u.ADDQ(srcNext, src)
	u.ADDQ(srcNext, upper)
	u.DECQ(blocks)
	u.JNZ(jump(loop))
	u.finish()
}

// exchangeInLanes transposes the 4 x 4 float32 of each lane of four rows. It uses four more registers.
func exchangeInLanes(u *asmFile, rows, pairs []reg.Register) {
	u.VUNPCKLPS(rows[1], rows[0], pairs[0])
	u.VUNPCKHPS(rows[1], rows[0], pairs[1])
	u.VUNPCKLPS(rows[3], rows[2], pairs[2])
	u.VUNPCKHPS(rows[3], rows[2], pairs[3])
	for i := range 2 {
		u.VSHUFPS(operand.U8(0x44), pairs[2+i], pairs[i], rows[2*i])
		u.VSHUFPS(operand.U8(0xee), pairs[2+i], pairs[i], rows[2*i+1])
	}
}

// transposeWide reads each line of the cache once as a whole, and so it writes them: lines of rows may all share a set, which has no room for 16.
func transposeWide(u *asmFile) {
	u.function("transposeBlocksWide", "func(dst, src *byte, dstStep, srcStep, dstNext, srcNext, blocks int)",
		"Blocks of 16 x 16 float32, dstNext and srcNext bytes apart.")
	dst, src, dstStep, srcStep, blocks := reg.RDI, reg.RSI, reg.RDX, reg.RBX, reg.RCX
	u.Load(u.Param("dst"), dst)
	u.Load(u.Param("src"), src)
	u.Load(u.Param("dstStep"), dstStep)
	u.Load(u.Param("srcStep"), srcStep)
	u.Load(u.Param("blocks"), blocks)
	u.Load(u.Param("dstNext"), reg.R11)
	u.Load(u.Param("srcNext"), reg.R12)
	srcStep3, dstStep3, to := reg.R8, reg.R10, reg.R13
	u.LEAQ(operand.Mem{Base: srcStep, Index: srcStep, Scale: 2}, srcStep3)
	u.LEAQ(operand.Mem{Base: dstStep, Index: dstStep, Scale: 2}, dstStep3)
	quarters := []reg.Register{src, reg.R9, reg.RAX, reg.R14} // of the rows
	for i := range 3 {
		u.LEAQ(operand.Mem{Base: quarters[i], Index: srcStep, Scale: 4}, quarters[i+1])
	}
	loop := u.label("block")
	u.Label(loop)
	for r := range 16 {
		u.VMOVUPS(stepped(quarters[r/4], srcStep, srcStep3, r%4, 0), zmm[r])
	}
	more := zmm[16:20]
	for i := range 4 {
		exchangeInLanes(u, zmm[4*i:], more)
	}
	for c := range 4 { // lane l of rows[i] has rows 4i to 4i+3 of column 4l+c
		rows := []reg.Register{zmm[c], zmm[4+c], zmm[8+c], zmm[12+c]}
		for i := range 2 {
			u.VSHUFF32X4(operand.U8(0x44), rows[2*i+1], rows[2*i], more[i])
			u.VSHUFF32X4(operand.U8(0xee), rows[2*i+1], rows[2*i], more[2+i])
		}
		for i := range 2 {
			u.VSHUFF32X4(operand.U8(0x88), more[2*i+1], more[2*i], rows[2*i])
			u.VSHUFF32X4(operand.U8(0xdd), more[2*i+1], more[2*i], rows[2*i+1])
		}
	}
	u.MOVQ(dst, to)
	for c := range 16 {
		if c > 0 && c%4 == 0 {
			u.LEAQ(operand.Mem{Base: to, Index: dstStep, Scale: 4}, to)
		}
		u.VMOVUPS(zmm[c], stepped(to, dstStep, dstStep3, c%4, 0))
	}
	u.ADDQ(reg.R11, dst)
	for _, q := range quarters {
		u.ADDQ(reg.R12, q)
	}
	u.DECQ(blocks)
	u.JNZ(jump(loop))
	u.finish()
}

// stepped addresses base + i*step + offset for i below 4; step3 holds three steps.
func stepped(base, step, step3 reg.Register, i, offset int) operand.Mem {
	m := operand.Mem{Base: base, Disp: offset}
	switch i {
	case 1, 2:
		m.Index, m.Scale = step, uint8(i)
	case 3:
		m.Index, m.Scale = step3, 1
	}
	return m
}
