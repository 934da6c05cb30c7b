package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The vector registers of a tile: the sums first, then three to work with, then the mask of AVX2.

var (
	xmm = []reg.Register{reg.X0, reg.X1, reg.X2, reg.X3, reg.X4, reg.X5, reg.X6, reg.X7, reg.X8, reg.X9, reg.X10, reg.X11,
		reg.X12, reg.X13, reg.X14, reg.X15}
	ymm = []reg.Register{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11,
		reg.Y12, reg.Y13, reg.Y14, reg.Y15}
	zmm = []reg.Register{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11,
		reg.Z12, reg.Z13, reg.Z14, reg.Z15, reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
		reg.Z24, reg.Z25, reg.Z26, reg.Z27}
)

func (t tile) register(i int) reg.Register {
	if t.shape.bytes == 64 {
		return zmm[i]
	}
	return ymm[i]
}

// sum holds C[row, vector] of the tile.
func (t tile) sum(row, vector int) reg.Register { return t.register(row*t.shape.vectors + vector) }

// vector is working register i, of three.
func (t tile) vector(i int) reg.Register { return t.register(t.set.rows*t.shape.vectors + i) }

// mask selects the lanes of the last vector that exist.
func (t tile) mask() reg.Register {
	if t.set.opmasks {
		return reg.K1
	}
	return ymm[15]
}

// loadMask makes the mask from the number of lanes.
func (t tile) loadMask() {
	t.MOVQ(at(arguments, offsetTail), reg.RCX)
	if t.set.opmasks {
		t.MOVQ(operand.I32(-1), reg.RDX)
		t.BZHIQ(reg.RCX, reg.RDX, reg.RDX)
		t.KMOVW(reg.EDX, reg.K1)
		return
	}
	t.LEAQ(t.laneWindow(), reg.RDX)
	if t.size == 8 {
		t.ADDQ(reg.RCX, reg.RCX)
	}
	t.NEGQ(reg.RCX)
	t.VMOVUPS(operand.Mem{Base: reg.RDX, Index: reg.RCX, Scale: 4, Disp: 32}, t.mask())
}

// read loads the vector that lies v vectors after base; the last one of the tile by the mask.
func (t tile) read(base reg.Register, v int, to reg.Register, masked bool) {
	from := at(base, v*t.shape.bytes)
	switch {
	case !masked || v < t.shape.vectors-1:
		t.move(t.asmFile, from, to)
	case t.set.opmasks && t.size == 4:
		t.VMOVUPS_Z(from, t.mask(), to)
	case t.set.opmasks:
		t.VMOVUPD_Z(from, t.mask(), to)
	case t.size == 4:
		t.VMASKMOVPS(from, t.mask(), to)
	default:
		t.VMASKMOVPD(from, t.mask(), to)
	}
}

// write stores to the current row of C, the last vector by the mask.
func (t tile) write(from reg.Register, v int, masked bool) {
	to := at(tileC, v*t.shape.bytes)
	switch {
	case !masked || v < t.shape.vectors-1:
		t.move(t.asmFile, from, to)
	case t.set.opmasks && t.size == 4:
		t.VMOVUPS(from, t.mask(), to)
	case t.set.opmasks:
		t.VMOVUPD(from, t.mask(), to)
	case t.size == 4:
		t.VMASKMOVPS(from, t.mask(), to)
	default:
		t.VMASKMOVPD(from, t.mask(), to)
	}
}
