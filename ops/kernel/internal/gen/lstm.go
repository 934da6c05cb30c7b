package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lstm emits a step of long short-term memory and its gradient for one sequence, with sigmoid gates, tanh for candidate and cell, and no peepholes.
// Each element takes the operations of package kernel's loops over single arrays, in their order and without fusing, so both give the same bits. A
// row of gates has four parts of width elements: candidate, input, forget, output. width is a multiple of 8, at least 8.
func lstm(u *asmFile) {
	lstmForward(u)
	lstmBackward(u)
}

// A parts addresses the vectors at one place of the four parts of a row of gates.
type parts struct {
	base, step, step3 reg.Register
}

func (p parts) at(i int) operand.Mem { return stepped(p.base, p.step, p.step3, i, 0) }

// lstmArguments loads pointers and the distance between the parts of a row.
func lstmArguments(u *asmFile, names ...string) (pointers map[string]reg.Register, step, step3, left reg.Register) {
	pointers = map[string]reg.Register{}
	for _, name := range names {
		pointers[name] = u.Load(u.Param(name), u.GP64())
	}
	left, step, step3 = u.Load(u.Param("width"), u.GP64()), u.GP64(), u.GP64()
	u.MOVQ(left, step)
	u.SHLQ(operand.U8(2), step)
	u.LEAQ(operand.Mem{Base: step, Index: step, Scale: 2}, step3)
	return pointers, step, step3, left
}

// lstmLoop emits body for each vector of eight elements, after which all pointers move on.
func lstmLoop(u *asmFile, pointers map[string]reg.Register, names []string, left reg.Register, body func()) {
	loop := u.label("vector")
	u.Label(loop)
	body()
	for _, name := range names {
		u.ADDQ(operand.U8(4*lanes), pointers[name])
	}
	u.SUBQ(operand.U8(lanes), left)
	u.JNZ(jump(loop))
	u.finish()
}

func lstmForward(u *asmFile) {
	names := []string{"gates", "cell", "active", "hidden", "previous", "row", "bias", "sums"}
	u.function("lstmForward", "func(gates, cell, active, hidden, previous, row, bias, sums *float32, width int)", "")
	p, step, step3, left := lstmArguments(u, names...)
	of := func(name string) parts { return parts{p[name], step, step3} }
	gates, row, bias, sums := of("gates"), of("row"), of("bias"), of("sums")
	gate, candidate := sigmoid(u, nil), tanh(u, nil)
	value := func(i int, function func(vectors) vectors) reg.VecVirtual {
		x := u.YMM()
		u.VMOVUPS(row.at(i), x)
		u.VADDPS(bias.at(i), x, x)
		u.VADDPS(sums.at(i), x, x)
		v := function(vectors{x})[0]
		u.VMOVUPS(v, gates.at(i))
		return v
	}
	lstmLoop(u, p, names, left, func() {
		cell := value(0, candidate)
		cell = u.mul(cell, value(1, gate))
		kept := value(2, gate)
		u.VMULPS(at(p["previous"], 0), kept, kept)
		cell = u.add(cell, kept)
		u.VMOVUPS(cell, at(p["cell"], 0))
		active := candidate(vectors{cell})[0]
		u.VMOVUPS(active, at(p["active"], 0))
		u.VMOVUPS(u.mul(value(3, gate), active), at(p["hidden"], 0))
	})
}

func lstmBackward(u *asmFile) {
	names := []string{"dgates", "dcell", "dhidden", "gates", "active", "previous"}
	u.function("lstmBackward", "func(dgates, dcell, dhidden, gates, active, previous *float32, width int)", "")
	p, step, step3, left := lstmArguments(u, names...)
	gates, dgates := parts{p["gates"], step, step3}, parts{p["dgates"], step, step3}
	one := u.constant(1)
	load := func(from operand.Mem) reg.VecVirtual {
		v := u.YMM()
		u.VMOVUPS(from, v)
		return v
	}
	sigmoidGrad := func(out, dout reg.VecVirtual) reg.VecVirtual { return u.mul(u.mul(dout, out), u.sub(one, out)) }
	tanhGrad := func(out, dout reg.VecVirtual) reg.VecVirtual { return u.mul(dout, u.sub(one, u.mul(out, out))) }
	lstmLoop(u, p, names, left, func() {
		dhidden, active, output := load(at(p["dhidden"], 0)), load(at(p["active"], 0)), load(gates.at(3))
		u.VMOVUPS(sigmoidGrad(output, u.mul(dhidden, active)), dgates.at(3))
		dcell := u.add(load(at(p["dcell"], 0)), tanhGrad(active, u.mul(dhidden, output)))
		candidate, input, forget := load(gates.at(0)), load(gates.at(1)), load(gates.at(2))
		u.VMOVUPS(tanhGrad(candidate, u.mul(dcell, input)), dgates.at(0))
		u.VMOVUPS(sigmoidGrad(input, u.mul(dcell, candidate)), dgates.at(1))
		u.VMOVUPS(sigmoidGrad(forget, u.mul(dcell, load(at(p["previous"], 0)))), dgates.at(2))
		u.VMOVUPS(u.mul(dcell, forget), at(p["dcell"], 0))
	})
}
