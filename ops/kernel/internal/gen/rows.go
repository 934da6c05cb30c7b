package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowsAhead is how many rows before its turn a row is asked for, into the second cache: more cache lines can be on their way to it at a time
// than to the first, and the loops take half the time (Zen 4).
const rowsAhead = 60

// rows emits loops over some rows of a table that fits into no cache. Each asks for the lines of a row long before it touches them, so that the core
// waits for many at once. They stop at the first row number that is not below height, and return how many rows they did.
func rows(u *asmFile) {
	rowLoop(u, "gatherRows", "func(out, table []float32, rows []int64, width, height int) int", "Row i of out = row rows[i] of table.",
		"out", func(_ reg.VecVirtual, size int, row, other operand.Mem) {
			x := u.YMM()
			piece(u, size, row, x)
			putPiece(u, size, x, other)
		})
	rowLoop(u, "scatterRows", "func(table, from []float32, rows []int64, width, height int) int", "Row rows[i] of table = row i of from.",
		"from", func(_ reg.VecVirtual, size int, row, other operand.Mem) {
			x := u.YMM()
			piece(u, size, other, x)
			putPiece(u, size, x, row)
		})
	rowLoop(u, "sgdRows", "func(table, grad []float32, rows []int64, width, height int, lr float32) int", "Row rows[i] of table -= lr * row i of grad.",
		"grad", func(lr reg.VecVirtual, size int, row, other operand.Mem) {
			x, g := u.YMM(), u.YMM()
			piece(u, size, row, x)
			piece(u, size, other, g)
			putPiece(u, size, u.sub(x, u.mul(lr, g)), row)
		})
}

// rowLoop emits a function over rows of table and those of another matrix, which lie one after the other. body does a piece of a row, of 32,
// 16, 8 or 4 bytes; scalar has the parameter lr of sgdRows in all lanes.
func rowLoop(u *asmFile, name, signature, doc, other string, body func(scalar reg.VecVirtual, size int, row, other operand.Mem)) {
	u.function(name, signature, doc+" Returns how many rows it did before the first that is not below height.")
	table, dense := u.Load(u.Param("table").Base(), u.GP64()), u.Load(u.Param(other).Base(), u.GP64())
	numbers, left := u.Load(u.Param("rows").Base(), u.GP64()), u.Load(u.Param("rows").Len(), u.GP64())
	width, height, bytes := u.Load(u.Param("width"), u.GP64()), u.Load(u.Param("height"), u.GP64()), u.GP64()
	row, rest := u.GP64(), u.GP64()
	u.MOVQ(width, bytes)
	u.SHLQ(operand.U8(2), bytes)
	var scalar reg.VecVirtual
	if name == "sgdRows" {
		scalar = u.YMM()
		p, err := u.Param("lr").Resolve()
		if err != nil {
			panic(err)
		}
		u.VBROADCASTSS(p.Addr, scalar)
	}
	last, done := u.label("last"), u.label("done")
	for _, ahead := range []bool{true, false} {
		each := u.label("row")
		if !ahead {
			u.Label(last)
		}
		u.Label(each)
		if ahead {
			u.CMPQ(left, operand.U8(rowsAhead))
			u.JLE(jump(last))
			u.MOVQ(at(numbers, 8*rowsAhead), row)
			u.IMULQ(bytes, row)
			u.ADDQ(table, row)
			u.PREFETCHT1(at(row, 0))
			u.PREFETCHT1(operand.Mem{Base: row, Index: bytes, Scale: 1, Disp: -4})
		} else {
			u.TESTQ(left, left)
			u.JZ(jump(done))
		}
		u.MOVQ(at(numbers, 0), row)
		u.CMPQ(row, height)
		u.JAE(jump(done))
		u.IMULQ(bytes, row)
		u.ADDQ(table, row)
		u.MOVQ(width, rest)
		eachPiece(u, row, dense, rest, func(size int) { body(scalar, size, at(row, 0), at(dense, 0)) })
		u.ADDQ(operand.U8(8), numbers)
		u.DECQ(left)
		u.JMP(jump(each))
	}
	u.Label(done)
	did := u.Load(u.Param("rows").Len(), u.GP64())
	u.SUBQ(left, did)
	u.Store(did, u.ReturnIndex(0))
	u.finish()
}

// eachPiece emits body for vectors of eight elements and then for four, two and one, as count says, and moves both places behind what it did.
func eachPiece(u *asmFile, a, b, count reg.Register, body func(size int)) {
	move := func(size int) {
		body(size)
		u.ADDQ(operand.U8(uint8(size)), a)
		u.ADDQ(operand.U8(uint8(size)), b)
	}
	again, fewer := u.label("vectors"), u.label("fewer")
	u.Label(again)
	u.CMPQ(count, operand.U8(lanes))
	u.JLT(jump(fewer))
	move(4 * lanes)
	u.SUBQ(operand.U8(lanes), count)
	u.JMP(jump(again))
	u.Label(fewer)
	for elements := lanes / 2; elements > 0; elements /= 2 {
		none := u.label("none")
		u.TESTQ(operand.U32(uint32(elements)), count)
		u.JZ(jump(none))
		move(4 * elements)
		u.Label(none)
	}
}

// piece loads size bytes, 32, 16, 8 or 4, and zeros above them.
func piece(u *asmFile, size int, from operand.Mem, to reg.VecVirtual) {
	switch size {
	case 32:
		u.VMOVUPS(from, to)
	case 16:
		u.VMOVUPS(from, to.AsX())
	case 8:
		u.VMOVSD(from, to.AsX())
	default:
		u.VMOVSS(from, to.AsX())
	}
}

// putPiece stores the first size bytes, 32, 16, 8 or 4.
func putPiece(u *asmFile, size int, from reg.VecVirtual, to operand.Mem) {
	switch size {
	case 32:
		u.VMOVUPS(from, to)
	case 16:
		u.VMOVUPS(from.AsX(), to)
	case 8:
		u.VMOVSD(from.AsX(), to)
	default:
		u.VMOVSS(from.AsX(), to)
	}
}
