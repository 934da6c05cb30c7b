package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// An element is a floating-point type; its methods emit the packed instruction for it.
type element struct {
	name string // as in names of functions
	size int    // bytes
}

var (
	float32s = element{"Float32", 4}
	float64s = element{"Float64", 8}
)

// fma emits sum += x*y.
func (e element) fma(u *asmFile, x operand.Op, y, sum reg.Register) {
	if e.size == 4 {
		u.VFMADD231PS(x, y, sum)
	} else {
		u.VFMADD231PD(x, y, sum)
	}
}

// multiply emits to = x*y.
func (e element) multiply(u *asmFile, x operand.Op, y, to reg.Register) {
	if e.size == 4 {
		u.VMULPS(x, y, to)
	} else {
		u.VMULPD(x, y, to)
	}
}

// broadcast emits every lane of to = the element at from.
func (e element) broadcast(u *asmFile, from operand.Op, to reg.Register) {
	if e.size == 4 {
		u.VBROADCASTSS(from, to)
	} else {
		u.VBROADCASTSD(from, to)
	}
}

// move emits an unaligned load or store.
func (e element) move(u *asmFile, from, to operand.Op) {
	if e.size == 4 {
		u.VMOVUPS(from, to)
	} else {
		u.VMOVUPD(from, to)
	}
}

// zero emits to = 0 over the whole register that to is part of.
func zero(u *asmFile, to reg.Register) {
	if to.Size() == 64 {
		u.VPXORD(to, to, to)
	} else {
		u.VXORPS(to, to, to)
	}
}
