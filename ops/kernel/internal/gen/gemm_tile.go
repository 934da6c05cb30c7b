package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A tile emits one function: C = alpha*A*B + beta*C for strips of up to set.rows rows. Each element is one chain of fused
// multiply-adds over ascending k that starts from zero, whatever the tile, so its bits do not tell where it was computed.
type tile struct {
	*asmFile
	element
	set   instructionSet
	shape tileShape
	next  string // label of what follows a strip
}

func (t tile) emit() {
	t.function(fmt.Sprintf("gemmTile%s%s%s", t.shape.name, t.set.name, t.element.name), "func(args *byte)",
		fmt.Sprintf("1 to %d rows by %d vectors of %d bytes.", t.set.rows, t.shape.vectors, t.shape.bytes))
	t.Load(t.Param("args"), arguments)
	t.loadMask()
	load := func(offset int, to reg.Register) { t.MOVQ(at(arguments, offset), to) }
	load(offsetRowA, rowA)
	load(offsetStepA, stepA)
	load(offsetStepB, stepB)
	load(offsetC, tileC)
	load(offsetRowC, rowC)
	strip := t.label("strip")
	t.next = t.label("next")
	t.Label(strip)
	load(offsetA, rowsOfA[0])
	load(offsetB, vectorsB)
	load(offsetDepth, depth)
	for i := 1; 3*i < t.set.rows; i++ {
		t.LEAQ(operand.Mem{Base: rowsOfA[i-1], Index: rowA, Scale: 2}, rowsOfA[i])
		t.ADDQ(rowA, rowsOfA[i])
	}
	starts := make([]string, t.set.rows+1)
	for rows := t.set.rows; rows > 1; rows-- {
		starts[rows] = t.label("rows")
		t.CMPQ(at(arguments, offsetRows), operand.U8(rows))
		t.JEQ(jump(starts[rows]))
	}
	for rows := 1; rows <= t.set.rows; rows++ {
		if rows > 1 {
			t.Label(starts[rows])
		}
		t.product(rows)
		t.store(rows)
	}
	t.Label(t.next)
	done := t.label("done")
	t.DECQ(at(arguments, offsetCount))
	t.JZ(jump(done))
	t.ADDQ(rowC, tileC)
	load(offsetNextA, depth)
	t.ADDQ(depth, at(arguments, offsetA))
	t.JMP(jump(strip))
	t.Label(done)
	t.finish()
}

// product emits the loop over k.
func (t tile) product(rows int) {
	for r := range rows {
		for v := range t.shape.vectors {
			zero(t.asmFile, t.sum(r, v))
		}
	}
	loop := t.label("k")
	t.Label(loop)
	for v := range t.shape.vectors {
		t.read(vectorsB, v, t.vector(v), true)
	}
	for r := range rows {
		from := operand.Mem{Base: rowsOfA[r/3]}
		if r%3 != 0 {
			from.Index, from.Scale = rowA, uint8(r%3)
		}
		t.broadcast(t.asmFile, from, t.vector(2))
		for v := range t.shape.vectors {
			t.fma(t.asmFile, t.vector(v), t.vector(2), t.sum(r, v))
		}
	}
	for i := 0; 3*i < rows; i++ {
		t.ADDQ(stepA, rowsOfA[i])
	}
	t.ADDQ(stepB, vectorsB)
	t.DECQ(depth)
	t.JNZ(jump(loop))
}

// store emits C = alpha*sums + beta*C; where beta is zero C is not read.
func (t tile) store(rows int) {
	if t.set.opmasks { // masks cost nothing
		t.storeMasked(rows, true)
		return
	}
	masked := t.label("masked")
	t.CMPQ(at(arguments, offsetTail), operand.U8(t.shape.bytes/t.size))
	t.JNE(jump(masked))
	t.storeMasked(rows, false)
	t.Label(masked)
	t.storeMasked(rows, true)
}

func (t tile) storeMasked(rows int, masked bool) {
	alpha, beta, old := t.vector(0), t.vector(1), t.vector(2)
	overwrite := t.label("overwrite")
	t.broadcast(t.asmFile, at(arguments, offsetAlpha), alpha)
	if t.size == 4 { // adding the bits to themselves drops the sign of zero
		t.MOVL(at(arguments, offsetAlpha+4), reg.ECX)
		t.ADDL(reg.ECX, reg.ECX)
	} else {
		t.MOVQ(at(arguments, offsetAlpha+8), reg.RCX)
		t.ADDQ(reg.RCX, reg.RCX)
	}
	t.JZ(jump(overwrite))
	t.broadcast(t.asmFile, at(arguments, offsetAlpha+t.size), beta)
	for r := range rows {
		for v := range t.shape.vectors {
			t.read(tileC, v, old, masked)
			t.multiply(t.asmFile, old, beta, old)
			t.fma(t.asmFile, t.sum(r, v), alpha, old)
			t.write(old, v, masked)
		}
		t.nextRow(r, rows)
	}
	t.JMP(jump(t.next))
	t.Label(overwrite)
	for r := range rows {
		for v := range t.shape.vectors {
			t.multiply(t.asmFile, t.sum(r, v), alpha, t.sum(r, v))
			t.write(t.sum(r, v), v, masked)
		}
		t.nextRow(r, rows)
	}
	t.JMP(jump(t.next))
}

func (t tile) nextRow(r, rows int) {
	if r < rows-1 {
		t.ADDQ(rowC, tileC)
	}
}
