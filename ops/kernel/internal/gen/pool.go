package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pool emits max pooling by windows of 2 x 2 that neither overlap nor leave gaps, and its gradient. A row of outputs is at
// least 4 wide; its last vector ends with the row and overlaps the one before.
func pool(u *asmFile) {
	poolFunction(u, "maxPool2x2", "func(out, x []float32, rows, width, step int)",
		"Rows rows of out, width long and adjacent, from rows of x that are step apart.", false)
	poolFunction(u, "maxPool2x2Grad", "func(dx, x, dout []float32, rows, width, step int)",
		"Like maxPool2x2; overwrites the windows of dx.", true)
}

func poolFunction(u *asmFile, name, signature, doc string, gradient bool) {
	u.function(name, signature, doc)
	p := pooling{asmFile: u, gradient: gradient, x: reg.RSI, dx: reg.RDI, out: reg.RDX, place: reg.RAX, step: reg.RBX}
	u.Load(u.Param("x").Base(), p.x)
	if gradient {
		u.Load(u.Param("dx").Base(), p.dx)
		u.Load(u.Param("dout").Base(), p.out)
	} else {
		u.Load(u.Param("out").Base(), p.out)
	}
	rows, width := u.Load(u.Param("rows"), u.GP64()), u.Load(u.Param("width"), u.GP64())
	u.Load(u.Param("step"), p.step)
	eachRow, narrow, next := u.label("row"), u.label("narrow"), u.label("next")
	u.Label(eachRow)
	u.CMPQ(width, operand.U8(8))
	u.JLT(jump(narrow))
	p.row(width, ymm)
	u.JMP(jump(next))
	u.Label(narrow)
	p.row(width, xmm)
	u.Label(next)
	u.LEAQ(operand.Mem{Base: p.out, Index: width, Scale: 4}, p.out)
	u.LEAQ(operand.Mem{Base: p.x, Index: p.step, Scale: 8}, p.x)
	if gradient {
		u.LEAQ(operand.Mem{Base: p.dx, Index: p.step, Scale: 8}, p.dx)
	}
	u.DECQ(rows)
	u.JNZ(jump(eachRow))
	u.finish()
}

// A pooling is one of the two functions. x and dx point to the upper row of the current windows, out to the current row of
// the output or of its gradient, place counts outputs within the row.
type pooling struct {
	*asmFile
	gradient                bool
	x, dx, out, place, step reg.Register
}

// row emits the vectors of one row of outputs.
func (p pooling) row(width reg.Register, r []reg.Register) {
	lanes := int(r[0].Size()) / 4
	last := p.GP64()
	p.MOVQ(width, last)
	p.SUBQ(operand.U8(lanes), last)
	p.XORQ(p.place, p.place)
	again, done, more := p.label("outputs"), p.label("rowDone"), p.label("more")
	p.Label(again)
	p.vector(r)
	p.CMPQ(p.place, last)
	p.JGE(jump(done))
	p.ADDQ(operand.U8(lanes), p.place)
	p.CMPQ(p.place, last)
	p.JLE(jump(more))
	p.MOVQ(last, p.place)
	p.Label(more)
	p.JMP(jump(again))
	p.Label(done)
}

// vector emits one vector of outputs. The four elements of a window are taken in their order, which decides between equals.
func (p pooling) vector(r []reg.Register) {
	bytes := int(r[0].Size())
	lower, elements := p.GP64(), r[:4]
	p.LEAQ(operand.Mem{Base: p.x, Index: p.step, Scale: 4}, lower)
	for i, row := range []reg.Register{p.x, lower} {
		p.VMOVUPS(operand.Mem{Base: row, Index: p.place, Scale: 8}, r[8])
		p.VMOVUPS(operand.Mem{Base: row, Index: p.place, Scale: 8, Disp: bytes}, r[9])
		p.VSHUFPS(operand.U8(0x88), r[9], r[8], elements[2*i])
		p.VSHUFPS(operand.U8(0xdd), r[9], r[8], elements[2*i+1])
		p.VCMPPS(operand.U8(compareUnordered), r[9], r[8], r[4+i])
	}
	p.VORPS(r[4], r[5], r[4])
	lanes := p.GP32()
	p.VMOVMSKPS(r[4], lanes)
	withNaN, chosen := p.label("withNaN"), p.label("chosen")
	p.TESTL(lanes, lanes)
	p.JNZ(jump(withNaN))
	p.chooseNumbers(r)
	p.JMP(jump(chosen))
	p.Label(withNaN)
	p.choose(r)
	p.Label(chosen)
	if p.gradient {
		p.distribute(r)
		return
	}
	p.unshuffle(r[7])
	p.VMOVUPS(r[7], operand.Mem{Base: p.out, Index: p.place, Scale: 4})
}

// choose makes r[7] the largest of the elements r[0] to r[3], and r[3+i] the mask where element i is greater than all before it.
func (p pooling) choose(r []reg.Register) {
	top := r[7]
	p.VMOVAPS(r[0], top)
	for i := 1; i < 4; i++ {
		better := r[3+i]
		p.VCMPPS(operand.U8(compareUnordered), r[i], r[i], better)
		p.VCMPPS(operand.U8(compareUnordered), top, top, r[8])
		p.VANDNPS(better, r[8], better) // a NaN beats all but a NaN
		p.VCMPPS(operand.U8(compareGreater), top, r[i], r[8])
		p.VORPS(r[8], better, better)
		p.VBLENDVPS(better, r[i], top, top)
	}
}

// chooseNumbers is choose for elements without a NaN. It makes r[7] the largest, or the masks if they are needed.
func (p pooling) chooseNumbers(r []reg.Register) {
	top := r[0]
	for i := 1; i < 4; i++ {
		if p.gradient {
			p.VCMPPS(operand.U8(compareGreater), top, r[i], r[3+i])
		}
		if !p.gradient || i < 3 {
			p.VMAXPS(top, r[i], r[7]) // of equals the one before
			top = r[7]
		}
	}
}

// distribute writes a vector of gradients to the elements that the masks r[4] to r[6] choose, and zeros to the others.
func (p pooling) distribute(r []reg.Register) {
	bytes := int(r[0].Size())
	g, zero := r[7], r[8]
	elements := []reg.Register{g, r[1], r[2], r[3]}
	p.VXORPS(zero, zero, zero)
	p.VADDPS(operand.Mem{Base: p.out, Index: p.place, Scale: 4}, zero, g) // as adding to zero does, which loses the sign of -0
	p.unshuffle(g)                                                        // its own inverse
	for i := 3; i > 0; i-- {
		p.VANDPS(g, r[3+i], elements[i])
		p.VANDNPS(g, r[3+i], g) // what is left for those before
	}
	lower := p.GP64()
	p.LEAQ(operand.Mem{Base: p.dx, Index: p.step, Scale: 4}, lower)
	for i, row := range []reg.Register{p.dx, lower} {
		p.VUNPCKLPS(elements[2*i+1], elements[2*i], r[8])
		p.VUNPCKHPS(elements[2*i+1], elements[2*i], r[9])
		p.VMOVUPS(r[8], operand.Mem{Base: row, Index: p.place, Scale: 8})
		p.VMOVUPS(r[9], operand.Mem{Base: row, Index: p.place, Scale: 8, Disp: bytes})
	}
}

// unshuffle puts outputs in their order: shuffling takes both halves of 128 bits apart, and so leaves the middle two quarters
// exchanged in a vector of 256.
func (p pooling) unshuffle(r reg.Register) {
	if r.Size() == 32 {
		p.VPERMPD(operand.U8(0xd8), r, r)
	}
}
