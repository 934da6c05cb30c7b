package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// patch emits the copies between an image and the matrix of its patches. Both walk over windows of an image: for each row and
// column of a filter the window that it meets, shifted by rowStep and columnStep, of rows rows that are step apart and width
// long. All distances are in elements. The matrix holds the windows one after the other without gaps.
func patch(u *asmFile) {
	const extents = ", kernelHeight, kernelWidth, rowStep, columnStep, rows, width, step int)"
	patches(u, "copyPatches", "func(columns, image []float32"+extents,
		"Fills columns from image in whole vectors: up to 7 elements behind the end of each are read or written too.", false)
	patches(u, "addPatches", "func(image, columns []float32"+extents,
		"Adds columns to image; up to 7 elements of image behind a row have 0 added.", true)
}

func patches(u *asmFile, name, signature, doc string, add bool) {
	u.function(name, signature, doc)
	image, matrix := reg.RSI, reg.RDI
	ky, kx, rows, shift := reg.R8, reg.R9, reg.R10, reg.R11
	window, row, left, place, step, width := reg.RAX, reg.RBX, reg.RCX, reg.RDX, reg.R12, reg.R13
	u.Load(u.Param("image").Base(), image)
	u.Load(u.Param("columns").Base(), matrix)
	u.Load(u.Param("step"), step)
	u.Load(u.Param("width"), width)
	mask := ymm[15]
	u.LEAQ(at(width, -1), reg.RAX) // the last vector of a row has (width-1)%8+1 elements
	u.ANDQ(operand.U8(7), reg.RAX)
	u.INCQ(reg.RAX)
	u.LEAQ(u.laneWindow(), reg.RBX)
	u.NEGQ(reg.RAX)
	u.VMOVUPS(operand.Mem{Base: reg.RBX, Index: reg.RAX, Scale: 4, Disp: 32}, mask)
	u.Load(u.Param("kernelHeight"), ky)
	eachKy, eachKx, eachRow, eachVector, lastVector := u.label("kernelRow"), u.label("kernelColumn"), u.label("row"), u.label("vector"), u.label("last")
	u.Label(eachKy)
	u.Load(u.Param("kernelWidth"), kx)
	u.MOVQ(image, window)
	u.Label(eachKx)
	u.Load(u.Param("rows"), rows)
	u.MOVQ(window, row)
	u.Label(eachRow)
	u.MOVQ(width, left)
	u.XORQ(place, place)
	u.Label(eachVector)
	u.CMPQ(left, operand.U8(8))
	u.JLE(jump(lastVector))
	inImage, inMatrix := operand.Mem{Base: row, Index: place, Scale: 4}, operand.Mem{Base: matrix, Index: place, Scale: 4}
	vector := func(masked bool) {
		switch {
		case !add:
			u.VMOVUPS(inImage, ymm[0])
			u.VMOVUPS(ymm[0], inMatrix)
			return
		case masked:
			u.VMASKMOVPS(inMatrix, mask, ymm[0])
		default:
			u.VMOVUPS(inMatrix, ymm[0])
		}
		u.VADDPS(inImage, ymm[0], ymm[0])
		u.VMOVUPS(ymm[0], inImage)
	}
	vector(false)
	u.ADDQ(operand.U8(8), place)
	u.SUBQ(operand.U8(8), left)
	u.JMP(jump(eachVector))
	u.Label(lastVector)
	vector(true)
	u.LEAQ(operand.Mem{Base: row, Index: step, Scale: 4}, row)
	u.LEAQ(operand.Mem{Base: matrix, Index: width, Scale: 4}, matrix)
	u.DECQ(rows)
	u.JNZ(jump(eachRow))
	u.Load(u.Param("columnStep"), shift)
	u.LEAQ(operand.Mem{Base: window, Index: shift, Scale: 4}, window)
	u.DECQ(kx)
	u.JNZ(jump(eachKx))
	u.Load(u.Param("rowStep"), shift)
	u.LEAQ(operand.Mem{Base: image, Index: shift, Scale: 4}, image)
	u.DECQ(ky)
	u.JNZ(jump(eachKy))
	u.finish()
}
