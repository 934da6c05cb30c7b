package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// reduction emits sums in float64 with element i in lane i mod 4, as package kernel's portable functions add, and maxima.
func reduction(u *asmFile) {
	plain := func(in vectors, _, _ reg.VecVirtual) reg.VecVirtual { return in[0] }
	sum(u, "sum", "The sum of x.", 1, plain)
	sum(u, "sumProduct", "The sum of x*y.", 2, func(in vectors, _, _ reg.VecVirtual) reg.VecVirtual {
		u.VMULPD(in[1], in[0], in[0])
		return in[0]
	})
	squaredDeviation := func(in vectors, center, exists reg.VecVirtual) reg.VecVirtual {
		u.VSUBPD(center, in[0], in[0])
		if exists != nil {
			u.VANDPD(exists, in[0], in[0])
		}
		u.VMULPD(in[0], in[0], in[0])
		return in[0]
	}
	centredProduct := func(in vectors, center, exists reg.VecVirtual) reg.VecVirtual {
		u.VSUBPD(center, in[1], in[1])
		u.VMULPD(in[1], in[0], in[0])
		if exists != nil { // an infinite center would make NaN of a missing element
			u.VANDPD(exists, in[0], in[0])
		}
		return in[0]
	}
	sum(u, "sumSquaredDeviation", "The sum of (x-center)*(x-center).", 1, squaredDeviation)
	sum(u, "sumCentredProduct", "The sum of x*(y-center).", 2, centredProduct)
	sumFour(u, "sumFour", "The sums of x and of three more arrays as long, step elements apart.", 1, false, plain)
	sumFour(u, "sumFourSquaredDeviations", "sumSquaredDeviation of x and of three more arrays as long, step elements apart, each with a center of its own.", 1, true,
		squaredDeviation)
	sumFour(u, "sumFourCentredProducts", "sumCentredProduct of x and y, and of three more pairs of arrays as long, step elements apart, each with a center of its own.", 2, true,
		centredProduct)
	largest(u)
	sumRows(u)
}

// sumFour emits four sums at a time. The additions of one sum wait for each other, those of four do not. term is as of sum; it gets a center if the sums are centred.
func sumFour(u *asmFile, name, doc string, arrays int, centred bool, term func(in vectors, center, exists reg.VecVirtual) reg.VecVirtual) {
	names := []string{"x", "y"}[:arrays]
	signature := "func(x []float32, step int) (a, b, c, d float64)"
	switch {
	case arrays == 2:
		signature = "func(x, y []float32, step int, centers *[4]float64) (a, b, c, d float64)"
	case centred:
		signature = "func(x []float32, step int, centers *[4]float64) (a, b, c, d float64)"
	}
	u.function(name, signature, doc)
	left, place, step := u.Load(u.Param("x").Len(), u.GP64()), u.GP64(), u.Load(u.Param("step"), u.GP64())
	base := make([][]reg.Register, 4) // of the arrays of each sum
	for a, n := range names {
		base[0] = append(base[0], u.Load(u.Param(n).Base(), u.GP64()))
		for i := 1; i < 4; i++ {
			next := u.GP64()
			u.LEAQ(operand.Mem{Base: base[i-1][a], Index: step, Scale: 4}, next)
			base[i] = append(base[i], next)
		}
	}
	var lanes, center vectors
	if centred {
		centers := u.Load(u.Param("centers"), u.GP64())
		for i := range 4 {
			center = append(center, u.YMM())
			u.VBROADCASTSD(at(centers, 8*i), center[i])
		}
	} else {
		center = make(vectors, 4)
	}
	for i := range 4 {
		lanes = append(lanes, u.YMM())
		zero(u, lanes[i])
	}
	u.XORQ(place, place)
	loop, tail, done := u.label("vectors"), u.label("tail"), u.label("done")
	u.Label(loop)
	u.CMPQ(left, operand.U8(4))
	u.JLT(jump(tail))
	for i := range base {
		var in vectors
		for _, b := range base[i] {
			v := u.YMM()
			u.VCVTPS2PD(operand.Mem{Base: b, Index: place, Scale: 4}, v)
			in = append(in, v)
		}
		u.VADDPD(term(in, center[i], nil), lanes[i], lanes[i])
	}
	u.ADDQ(operand.U8(4), place)
	u.SUBQ(operand.U8(4), left)
	u.JMP(jump(loop))
	u.Label(tail)
	u.TESTQ(left, left)
	u.JZ(jump(done))
	mask, exists := u.tailMask(left), u.YMM()
	if centred {
		u.VPMOVSXDQ(mask.AsX(), exists)
	}
	for i := range base {
		var in vectors
		for _, b := range base[i] {
			few, v := u.XMM(), u.YMM()
			u.VMASKMOVPS(operand.Mem{Base: b, Index: place, Scale: 4}, mask.AsX(), few)
			u.VCVTPS2PD(few, v)
			in = append(in, v)
		}
		u.VADDPD(term(in, center[i], exists), lanes[i], lanes[i])
	}
	u.Label(done)
	for i := range base {
		addLanes(u, lanes[i])
		u.Store(lanes[i].AsX(), u.ReturnIndex(i))
	}
	u.finish()
}

// addLanes makes lane 0 the sum of the four lanes of float64.
func addLanes(u *asmFile, lanes reg.VecVirtual) {
	upper := u.XMM()
	u.VHADDPD(lanes, lanes, lanes) // lane 0 + lane 1 below, lane 2 + lane 3 above
	u.VEXTRACTF128(operand.U8(1), lanes, upper)
	u.VADDSD(upper, lanes.AsX(), lanes.AsX())
}

// sumRows emits the addition of rows that follow each other, in float32: a column at a time stays in a register, so that the rows of a narrow matrix
// cost no call each.
func sumRows(u *asmFile) {
	u.function("sumRows", "func(out, x []float32, rows int)", "out += each of rows rows of x in turn, which are as long as out.")
	out, from := u.Load(u.Param("out").Base(), u.GP64()), u.Load(u.Param("x").Base(), u.GP64())
	left, width := u.Load(u.Param("out").Len(), u.GP64()), u.GP64()
	row, rows, total := u.GP64(), u.GP64(), u.YMM()
	u.MOVQ(left, width)
	u.SHLQ(operand.U8(2), width)
	column := func(load func(m operand.Mem, to reg.VecVirtual)) {
		u.Load(u.Param("rows"), rows)
		u.MOVQ(from, row)
		load(at(out, 0), total)
		each, none := u.label("row"), u.label("none")
		u.TESTQ(rows, rows)
		u.JZ(jump(none))
		u.Label(each)
		x := u.YMM()
		load(at(row, 0), x)
		u.VADDPS(x, total, total)
		u.ADDQ(width, row)
		u.DECQ(rows)
		u.JNZ(jump(each))
		u.Label(none)
	}
	again, tail, done := u.label("vectors"), u.label("tail"), u.label("done")
	u.Label(again)
	u.CMPQ(left, operand.U8(lanes))
	u.JLT(jump(tail))
	column(func(m operand.Mem, to reg.VecVirtual) { u.VMOVUPS(m, to) })
	u.VMOVUPS(total, at(out, 0))
	u.ADDQ(operand.U8(4*lanes), out)
	u.ADDQ(operand.U8(4*lanes), from)
	u.SUBQ(operand.U8(lanes), left)
	u.JMP(jump(again))
	u.Label(tail)
	u.TESTQ(left, left)
	u.JZ(jump(done))
	mask := u.tailMask(left)
	column(func(m operand.Mem, to reg.VecVirtual) { u.VMASKMOVPS(m, mask, to) })
	u.storeTail(total, out, left)
	u.Label(done)
	u.finish()
}

// sum emits a function that adds the term of every element to one of four lanes. exists is nil where all elements of a
// vector exist.
func sum(u *asmFile, name, doc string, arrays int, term func(in vectors, center, exists reg.VecVirtual) reg.VecVirtual) {
	names := []string{"x", "y"}[:arrays]
	signature := "func(x []float32, center float64) float64"
	if arrays == 2 {
		signature = "func(x, y []float32, center float64) float64"
	}
	u.function(name, signature, doc)
	var base []reg.Register
	for _, n := range names {
		base = append(base, u.Load(u.Param(n).Base(), u.GP64()))
	}
	left, place := u.Load(u.Param("x").Len(), u.GP64()), u.GP64()
	center, lanes := u.YMM(), u.YMM()
	p, err := u.Param("center").Resolve()
	if err != nil {
		panic(err)
	}
	u.VBROADCASTSD(p.Addr, center)
	zero(u, lanes)
	u.XORQ(place, place)
	loop, tail, done := u.label("vectors"), u.label("tail"), u.label("done")
	u.Label(loop)
	u.CMPQ(left, operand.U8(4))
	u.JLT(jump(tail))
	var in vectors
	for _, b := range base {
		v := u.YMM()
		u.VCVTPS2PD(operand.Mem{Base: b, Index: place, Scale: 4}, v)
		in = append(in, v)
	}
	u.VADDPD(term(in, center, nil), lanes, lanes)
	u.ADDQ(operand.U8(4), place)
	u.SUBQ(operand.U8(4), left)
	u.JMP(jump(loop))
	u.Label(tail)
	u.TESTQ(left, left)
	u.JZ(jump(done))
	mask := u.tailMask(left)
	in = nil
	for _, b := range base {
		few, v := u.XMM(), u.YMM()
		u.VMASKMOVPS(operand.Mem{Base: b, Index: place, Scale: 4}, mask.AsX(), few)
		u.VCVTPS2PD(few, v)
		in = append(in, v)
	}
	exists := u.YMM()
	u.VPMOVSXDQ(mask.AsX(), exists)
	u.VADDPD(term(in, center, exists), lanes, lanes)
	u.Label(done)
	addLanes(u, lanes)
	u.Store(lanes.AsX(), u.ReturnIndex(0))
	u.finish()
}

// largest emits the maximum of whole vectors, at least one, as of package kernel: NaN where there is one, 0 above -0.
func largest(u *asmFile) {
	u.function("largest", "func(x []float32) float32", "The maximum of whole vectors, at least one; NaN where there is one.")
	from := u.Load(u.Param("x").Base(), u.GP64())
	left := u.Load(u.Param("x").Len(), u.GP64())
	top, x := u.YMM(), u.YMM()
	u.VMOVUPS(at(from, 0), top)
	loop, done := u.label("vectors"), u.label("done")
	u.Label(loop)
	u.SUBQ(operand.U8(8), left)
	u.JLE(jump(done))
	u.ADDQ(operand.U8(32), from)
	u.VMOVUPS(at(from, 0), x)
	u.VMOVAPS(u.max(top, x), top)
	u.JMP(jump(loop))
	u.Label(done)
	u.VPERM2F128(operand.U8(0x01), top, top, x) // the other half
	u.VMOVAPS(u.max(top, x), top)
	for _, order := range []uint8{0x4e, 0xb1} { // two apart, then neighbours
		u.VPERMILPS(operand.U8(order), top, x)
		u.VMOVAPS(u.max(top, x), top)
	}
	u.Store(top.AsX(), u.ReturnIndex(0))
	u.finish()
}
