package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// patch emits the copies between an image and the matrix of its patches. All distances are in elements. The matrix holds windows of an image one
// after the other without gaps: rows rows that are step apart and width long.
func patch(u *asmFile) {
	copyPatches(u)
	addWindows(u)
	patchRows(u)
}

// copyPatches walks over the windows of an image: for each row and column of a filter the window that it meets, shifted by rowStep and columnStep.
func copyPatches(u *asmFile) {
	u.function("copyPatches", "func(columns, image []float32, kernelHeight, kernelWidth, rowStep, columnStep, rows, width, step int)",
		"Fills columns from image in whole vectors: up to 7 elements behind the end of each are read or written too.")
	image, shift, ky, kx, window := reg.RSI, reg.R11, reg.R8, reg.R9, reg.RAX
	w := newWindowRows(u, reg.RDI)
	u.Load(u.Param("image").Base(), image)
	u.Load(u.Param("columns").Base(), w.matrix)
	w.each(func(narrow bool) {
		eachKy, eachKx := u.label("kernelRow"), u.label("kernelColumn")
		u.Load(u.Param("kernelHeight"), ky)
		u.Label(eachKy)
		u.Load(u.Param("kernelWidth"), kx)
		u.MOVQ(image, window)
		u.Label(eachKx)
		u.MOVQ(window, w.row)
		w.emit(narrow, func(inImage, inMatrix operand.Mem, _ bool) {
			u.VMOVUPS(inImage, ymm[0])
			u.VMOVUPS(ymm[0], inMatrix)
		})
		u.Load(u.Param("columnStep"), shift)
		u.LEAQ(operand.Mem{Base: window, Index: shift, Scale: 4}, window)
		u.DECQ(kx)
		u.JNZ(jump(eachKx))
		u.Load(u.Param("rowStep"), shift)
		u.LEAQ(operand.Mem{Base: image, Index: shift, Scale: 4}, image)
		u.DECQ(ky)
		u.JNZ(jump(eachKy))
		u.finish()
	})
}

// addWindows adds a window of the matrix to each of some channels.
func addWindows(u *asmFile) {
	u.function("addWindows", "func(image, columns []float32, channels, plane, perChannel, rows, width, step int)",
		"Adds the window at the start of columns to image, and those of the next channels; up to 7 elements of image behind a row have 0 added.")
	image, columns, channels, distance := reg.RSI, reg.R8, reg.R9, reg.R11
	w := newWindowRows(u, reg.RDI)
	w.loadMask()
	u.Load(u.Param("image").Base(), image)
	u.Load(u.Param("columns").Base(), columns)
	u.Load(u.Param("channels"), channels)
	w.each(func(narrow bool) {
		eachChannel := u.label("channel")
		u.Label(eachChannel)
		u.MOVQ(image, w.row)
		u.MOVQ(columns, w.matrix)
		w.emit(narrow, func(inImage, inMatrix operand.Mem, last bool) {
			if last {
				u.VMASKMOVPS(inMatrix, w.mask, ymm[0])
			} else {
				u.VMOVUPS(inMatrix, ymm[0])
			}
			u.VADDPS(inImage, ymm[0], ymm[0])
			u.VMOVUPS(ymm[0], inImage)
		})
		u.Load(u.Param("plane"), distance)
		u.LEAQ(operand.Mem{Base: image, Index: distance, Scale: 4}, image)
		u.Load(u.Param("perChannel"), distance)
		u.LEAQ(operand.Mem{Base: columns, Index: distance, Scale: 4}, columns)
		u.DECQ(channels)
		u.JNZ(jump(eachChannel))
		u.finish()
	})
}

// windowRows are the rows of a window, in the image and in the matrix, where they have no gaps.
type windowRows struct {
	*asmFile
	matrix, row, rows, left, place, step, width, mask reg.Register
}

// newWindowRows loads what the parameters say of a window. matrix is the pointer into the matrix.
func newWindowRows(u *asmFile, matrix reg.Register) windowRows {
	w := windowRows{u, matrix, reg.RBX, reg.R10, reg.RCX, reg.RDX, reg.R12, reg.R13, ymm[15]}
	u.Load(u.Param("step"), w.step)
	u.Load(u.Param("width"), w.width)
	return w
}

// loadMask makes the mask of the last vector of a row, which has (width-1)%8+1 elements.
func (w windowRows) loadMask() {
	w.LEAQ(at(w.width, -1), reg.RAX)
	w.ANDQ(operand.U8(7), reg.RAX)
	w.INCQ(reg.RAX)
	w.LEAQ(w.laneWindow(), reg.RBX)
	w.NEGQ(reg.RAX)
	w.VMOVUPS(operand.Mem{Base: reg.RBX, Index: reg.RAX, Scale: 4, Disp: 32}, w.mask)
}

// each emits body twice: for rows of one vector, and for wider ones.
func (w windowRows) each(body func(narrow bool)) {
	wide := w.label("wide")
	w.CMPQ(w.width, operand.U8(8))
	w.JGT(jump(wide))
	body(true)
	w.Label(wide)
	body(false)
}

// emit emits the loop over the rows of a window. vector emits one vector of a row.
func (w windowRows) emit(narrow bool, vector func(inImage, inMatrix operand.Mem, last bool)) {
	eachRow, eachVector, lastVector := w.label("row"), w.label("vector"), w.label("last")
	w.Load(w.Param("rows"), w.rows)
	w.Label(eachRow)
	if narrow {
		vector(at(w.row, 0), at(w.matrix, 0), true)
	} else {
		inImage, inMatrix := operand.Mem{Base: w.row, Index: w.place, Scale: 4}, operand.Mem{Base: w.matrix, Index: w.place, Scale: 4}
		w.MOVQ(w.width, w.left)
		w.XORQ(w.place, w.place)
		w.Label(eachVector)
		w.CMPQ(w.left, operand.U8(8))
		w.JLE(jump(lastVector))
		vector(inImage, inMatrix, false)
		w.ADDQ(operand.U8(8), w.place)
		w.SUBQ(operand.U8(8), w.left)
		w.JMP(jump(eachVector))
		w.Label(lastVector)
		vector(inImage, inMatrix, true)
	}
	w.LEAQ(operand.Mem{Base: w.row, Index: w.step, Scale: 4}, w.row)
	w.LEAQ(operand.Mem{Base: w.matrix, Index: w.width, Scale: 4}, w.matrix)
	w.DECQ(w.rows)
	w.JNZ(jump(eachRow))
}

// patchRows emits the copy of an image to the transpose of the matrix of its patches: for each window the rows of all channels that a filter meets
// there, one after the other. Vectors run over the end of a row, which the next row overwrites.
func patchRows(u *asmFile) {
	u.function("copyPatchRows",
		"func(patches, image []float32, channels, plane, kernelHeight, kernelWidth, rowStep, rows, width, step, stride int)",
		"Fills patches from image in whole vectors: up to 7 elements behind the end of each are read or written too.")
	p := patchRow{asmFile: u, to: reg.RDI, line: reg.RSI, window: reg.R8, channel: reg.R9, row: reg.R10,
		rowStep: reg.R11, plane: reg.R12, length: reg.R13}
	u.Load(u.Param("patches").Base(), p.to)
	u.Load(u.Param("image").Base(), p.line)
	u.Load(u.Param("rowStep"), p.rowStep)
	u.Load(u.Param("plane"), p.plane)
	u.Load(u.Param("kernelWidth"), p.length)
	for _, elements := range []reg.Register{p.rowStep, p.plane, p.length} {
		u.SHLQ(operand.U8(2), elements)
	}
	long := u.label("long")
	u.CMPQ(p.length, operand.U8(32))
	u.JGT(jump(long))
	p.emit(false)
	u.Label(long)
	p.emit(true)
}

// A patchRow holds the registers of copyPatchRows: pointers to the destination, to the first window of a line of windows, to the current window, to
// its current channel and to its current row; distances in bytes, and the bytes of a row.
type patchRow struct {
	*asmFile
	to, line, window, channel, row reg.Register
	rowStep, plane, length         reg.Register
}

// emit emits the loops for rows of one vector, or of several.
func (p patchRow) emit(several bool) {
	ky, channels, windows, lines, temporary := reg.RCX, reg.RDX, reg.RBX, reg.R15, reg.RAX
	eachLine, eachWindow, eachChannel, eachRow, eachVector := p.label("line"), p.label("window"), p.label("channel"), p.label("kernelRow"), p.label("vector")
	p.Load(p.Param("rows"), lines)
	p.Label(eachLine)
	p.MOVQ(p.line, p.window)
	p.Load(p.Param("width"), windows)
	p.Label(eachWindow)
	p.MOVQ(p.window, p.channel)
	p.Load(p.Param("channels"), channels)
	p.Label(eachChannel)
	p.MOVQ(p.channel, p.row)
	p.Load(p.Param("kernelHeight"), ky)
	p.Label(eachRow)
	if several {
		p.XORQ(temporary, temporary)
		p.Label(eachVector)
		p.VMOVUPS(operand.Mem{Base: p.row, Index: temporary, Scale: 1}, ymm[0])
		p.VMOVUPS(ymm[0], operand.Mem{Base: p.to, Index: temporary, Scale: 1})
		p.ADDQ(operand.U8(32), temporary)
		p.CMPQ(temporary, p.length)
		p.JLT(jump(eachVector))
	} else {
		p.VMOVUPS(at(p.row, 0), ymm[0])
		p.VMOVUPS(ymm[0], at(p.to, 0))
	}
	p.ADDQ(p.rowStep, p.row)
	p.ADDQ(p.length, p.to)
	p.DECQ(ky)
	p.JNZ(jump(eachRow))
	p.ADDQ(p.plane, p.channel)
	p.DECQ(channels)
	p.JNZ(jump(eachChannel))
	p.Load(p.Param("stride"), temporary)
	p.LEAQ(operand.Mem{Base: p.window, Index: temporary, Scale: 4}, p.window)
	p.DECQ(windows)
	p.JNZ(jump(eachWindow))
	p.Load(p.Param("step"), temporary)
	p.LEAQ(operand.Mem{Base: p.line, Index: temporary, Scale: 4}, p.line)
	p.DECQ(lines)
	p.JNZ(jump(eachLine))
	p.finish()
}
