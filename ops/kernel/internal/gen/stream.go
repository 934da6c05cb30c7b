package main

import (
	"math"
	"strings"

	"github.com/mmcloughlin/avo/attr"
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
	body func(u *unit, scalars []reg.VecVirtual) func(in []reg.VecVirtual) []reg.VecVirtual
}

func (s stream) emit(u *unit) {
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
	w := walk{unit: u, stream: s, base: base, left: left, at: at, compute: s.body(u, scalars)}
	if s.unroll > 1 {
		w.loop(s.unroll)
	}
	w.loop(1)
	w.tail()
}

// A walk is a stream function whose parameters are in registers.
type walk struct {
	*unit
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

// tailMask selects the first count lanes, 0 to 8.
func (u *unit) tailMask(count reg.Register) reg.VecVirtual {
	window, minus, mask := u.GP64(), u.GP64(), u.YMM()
	u.LEAQ(u.laneWindow(), window)
	u.MOVQ(count, minus)
	u.NEGQ(minus)
	u.VMOVUPS(operand.Mem{Base: window, Index: minus, Scale: 4, Disp: 32}, mask)
	return mask
}

// storeTail stores the first count lanes, 0 to 7, in pieces: a masked store would be slow on some processors. It changes to.
func (u *unit) storeTail(r reg.VecVirtual, to, count reg.Register) {
	low := u.YMM()
	u.VMOVAPS(r, low)
	two, one, done := u.label("two"), u.label("one"), u.label("stored")
	u.TESTQ(operand.U32(4), count)
	u.JZ(jump(two))
	u.VMOVUPS(low.AsX(), at(to, 0))
	u.VEXTRACTF128(operand.U8(1), low, low.AsX())
	u.ADDQ(operand.U8(16), to)
	u.Label(two)
	u.TESTQ(operand.U32(2), count)
	u.JZ(jump(one))
	u.VMOVLPS(low.AsX(), at(to, 0))
	u.VMOVHLPS(low.AsX(), low.AsX(), low.AsX())
	u.ADDQ(operand.U8(8), to)
	u.Label(one)
	u.TESTQ(operand.U32(1), count)
	u.JZ(jump(done))
	u.VMOVSS(low.AsX(), at(to, 0))
	u.Label(done)
}

// laneWindow addresses eight ones followed by eight zeros, of 32 bits each.
func (u *unit) laneWindow() operand.Mem {
	if m, ok := u.constants["window"]; ok {
		return m
	}
	m := u.StaticGlobal("laneWindow")
	u.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 16 {
		value := uint32(0)
		if i < 8 {
			value = math.MaxUint32
		}
		u.AddDatum(4*i, operand.U32(value))
	}
	u.constants["window"] = m
	return m
}
