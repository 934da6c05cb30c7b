package main

import (
	"strings"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A stream function walks over float32 arrays of one length and computes every element from the elements at its place,
// eight at a time with AVX2. The last few elements go through the same instructions in a vector whose other lanes are
// zero, so an element's bits do not depend on its place.
type stream struct {
	name    string
	doc     string
	arrays  []string // parameters, of which those that begin with > are written, those with >< read and written
	scalars []string // parameters that follow
	unroll  int      // vectors in one turn of the main loop
	// body prepares what is constant and returns what computes one vector of each written array, in their order, from
	// those read.
	body func(u *asmFile, scalars []reg.VecVirtual) func(in []reg.VecVirtual) []reg.VecVirtual
}

func (s stream) emit(u *asmFile) {
	var names []string
	for _, a := range s.arrays {
		names = append(names, strings.TrimLeft(a, "><"))
	}
	signature := "func(" + strings.Join(names, ", ") + " []float32"
	if len(s.scalars) > 0 {
		signature += ", " + strings.Join(s.scalars, ", ") + " float32"
	}
	u.function(s.name, signature+")", s.doc)
	var scalars []reg.VecVirtual
	for _, name := range s.scalars {
		v := u.YMM()
		p, err := u.Param(name).Resolve()
		if err != nil {
			panic(err)
		}
		u.VBROADCASTSS(p.Addr, v)
		scalars = append(scalars, v)
	}
	base := make([]reg.Register, len(names))
	for i, name := range names {
		base[i] = u.Load(u.Param(name).Base(), u.GP64())
	}
	left, at := u.Load(u.Param(names[0]).Len(), u.GP64()), u.GP64()
	u.XORQ(at, at)
	w := walk{asmFile: u, stream: s, base: base, left: left, at: at, compute: s.body(u, scalars)}
	if s.unroll > 1 {
		w.loop(s.unroll)
	}
	w.loop(1)
	w.tail()
}

// A walk is a stream function whose parameters are in registers.
type walk struct {
	*asmFile
	stream  stream
	base    []reg.Register
	left    reg.Register // elements to do
	at      reg.Register // elements done
	compute func(in []reg.VecVirtual) []reg.VecVirtual
}

const lanes = 8

func (w walk) place(array, vector int) operand.Mem {
	return operand.Mem{Base: w.base[array], Index: w.at, Scale: 4, Disp: 4 * lanes * vector}
}

// loop emits turns of so many vectors while there are as many elements left.
func (w walk) loop(vectors int) {
	again, done := w.label("vectors"), w.label("fewer")
	w.Label(again)
	w.CMPQ(w.left, operand.U8(lanes*vectors))
	w.JLT(jump(done))
	for v := range vectors {
		w.vector(func(array int) reg.VecVirtual {
			r := w.YMM()
			w.VMOVUPS(w.place(array, v), r)
			return r
		}, func(array int, r reg.VecVirtual) { w.VMOVUPS(r, w.place(array, v)) })
	}
	w.ADDQ(operand.U8(lanes*vectors), w.at)
	w.SUBQ(operand.U8(lanes*vectors), w.left)
	w.JMP(jump(again))
	w.Label(done)
}

// tail emits the last, incomplete vector.
func (w walk) tail() {
	none := w.label("none")
	w.TESTQ(w.left, w.left)
	w.JZ(jump(none))
	mask := w.tailMask(w.left)
	w.vector(func(array int) reg.VecVirtual {
		r := w.YMM()
		w.VMASKMOVPS(w.place(array, 0), mask, r)
		return r
	}, func(array int, r reg.VecVirtual) {
		to := w.GP64()
		w.LEAQ(w.place(array, 0), to)
		w.storeTail(r, to, w.left)
	})
	w.Label(none)
	w.finish()
}

// vector emits one vector of every array.
func (w walk) vector(load func(array int) reg.VecVirtual, store func(array int, r reg.VecVirtual)) {
	var in []reg.VecVirtual
	for i, a := range w.stream.arrays {
		if !strings.HasPrefix(a, ">") || strings.HasPrefix(a, "><") {
			in = append(in, load(i))
		}
	}
	out := w.compute(in)
	for i, a := range w.stream.arrays {
		if strings.HasPrefix(a, ">") {
			store(i, out[0])
			out = out[1:]
		}
	}
}
