package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// winograd emits the transforms of F(2x2, 3x3) (Lavin and Gray 2015): out = L*in*L' for tiles of small matrices whose elements are vectors. They only add,
// subtract and halve, so portable Go gives the same bits.
func winograd(u *asmFile) {
	for _, s := range []sandwich{
		{name: "winogradInput", doc: "4 x 4 to 4 x 4", rows: 4, columns: 4, passes: [][]int{{0, 1}, {2, 3}}, wide: [][]int{{0, 1, 2, 3}},
			line: func(u *asmFile, x element1, i int) reg.VecVirtual {
				switch i {
				case 0:
					return u.sub(x(0), x(2))
				case 1:
					return u.add(x(1), x(2))
				case 2:
					return u.sub(x(2), x(1))
				}
				return u.sub(x(3), x(1))
			}},
		{name: "winogradOutput", doc: "4 x 4 to 2 x 2", rows: 2, columns: 4, passes: [][]int{{0, 1}}, wide: [][]int{{0, 1}},
			line: func(u *asmFile, x element1, i int) reg.VecVirtual {
				if i == 0 {
					return u.add(u.add(x(0), x(1)), x(2))
				}
				return u.add(u.sub(x(1), x(2)), x(3))
			}},
		{name: "winogradOutputGrad", doc: "2 x 2 to 4 x 4", rows: 4, columns: 2, passes: [][]int{{0, 1, 2, 3}}, wide: [][]int{{0, 1, 2, 3}},
			line: func(u *asmFile, x element1, i int) reg.VecVirtual {
				switch i {
				case 0:
					return x(0)
				case 1:
					return u.add(x(0), x(1))
				case 2:
					return u.sub(x(0), x(1))
				}
				return x(1)
			}},
		{name: "winogradFilter", doc: "3 x 3 to 4 x 4", rows: 4, columns: 3, passes: [][]int{{0, 1}, {2, 3}},
			line: func(u *asmFile, x element1, i int) reg.VecVirtual {
				switch i {
				case 0:
					return x(0)
				case 1:
					return halve(u, u.add(u.add(x(0), x(2)), x(1)))
				case 2:
					return halve(u, u.sub(u.add(x(0), x(2)), x(1)))
				}
				return x(2)
			}},
		{name: "winogradFilterGrad", doc: "4 x 4 to 3 x 3", rows: 3, columns: 4, passes: [][]int{{0, 1}, {2}},
			line: func(u *asmFile, x element1, i int) reg.VecVirtual {
				switch i {
				case 0:
					return u.add(x(0), halve(u, u.add(x(1), x(2))))
				case 1:
					return halve(u, u.sub(x(1), x(2)))
				}
				return u.add(halve(u, u.add(x(1), x(2))), x(3))
			}},
	} {
		s.emit(u)
		if s.wide != nil {
			u.wide, s.name, s.passes = true, s.name+"Wide", s.wide
			s.emit(u)
			u.wide = false
		}
	}
}

func halve(u *asmFile, x reg.VecVirtual) reg.VecVirtual {
	out := u.YMM()
	u.VMULPS(u.float(0.5), x, out)
	return out
}

// element1 returns an element of a row or a column.
type element1 func(i int) reg.VecVirtual

// A sandwich is one transform. L has so many rows and columns. line computes row i of L times x.
type sandwich struct {
	name, doc     string
	rows, columns int
	passes        [][]int // columns of the result that are computed together, so that registers suffice
	wide          [][]int // the same with AVX-512, which has twice as many; nil: filters, which are few, do without
	line          func(u *asmFile, x element1, i int) reg.VecVirtual
}

func (s sandwich) emit(u *asmFile) {
	u.function(s.name, "func(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)", s.doc)
	bytes := func(parameter string) reg.GPVirtual {
		r := u.GP64()
		u.Load(u.Param(parameter), r)
		u.SHLQ(operand.U8(2), r)
		return r
	}
	times3 := func(r reg.GPVirtual) reg.GPVirtual {
		three := u.GP64()
		u.LEAQ(operand.Mem{Base: r, Index: r, Scale: 2}, three)
		return three
	}
	out, in := u.Load(u.Param("out").Base(), u.GP64()), u.Load(u.Param("in").Base(), u.GP64())
	outRow, outColumn, inRow, inColumn := bytes("outRow"), bytes("outColumn"), bytes("inRow"), bytes("inColumn")
	outRow3, inColumn3 := times3(outRow), times3(inColumn)
	vectors, shift := u.GP64(), u.GP64()
	eachTile, eachVector := u.label("tile"), u.label("vector")
	u.Label(eachTile)
	u.Load(u.Param("vectors"), vectors)
	u.Label(eachVector)
	for _, pass := range s.passes {
		from, across := u.GP64(), make([][]reg.VecVirtual, s.columns)
		u.MOVQ(in, from)
		for r := range s.columns {
			loaded := map[int]reg.VecVirtual{}
			x := func(i int) reg.VecVirtual {
				if loaded[i] == nil {
					loaded[i] = vector(u)
					u.VMOVUPS(stepped(from, inColumn, inColumn3, i, 0), loaded[i])
				}
				return loaded[i]
			}
			for _, j := range pass {
				across[r] = append(across[r], s.line(u, x, j))
			}
			if r < s.columns-1 {
				u.ADDQ(inRow, from)
			}
		}
		to := u.GP64()
		u.MOVQ(out, to)
		for range pass[0] {
			u.ADDQ(outColumn, to)
		}
		for k := range pass {
			for i := range s.rows {
				u.VMOVUPS(s.line(u, func(r int) reg.VecVirtual { return across[r][k] }, i), stepped(to, outRow, outRow3, i, 0))
			}
			if k < len(pass)-1 {
				u.ADDQ(outColumn, to)
			}
		}
	}
	bytesShift := uint8(5) // of a vector
	if u.wide {
		bytesShift = 6
	}
	u.ADDQ(operand.U8(1<<bytesShift), in)
	u.ADDQ(operand.U8(1<<bytesShift), out)
	u.DECQ(vectors)
	u.JNZ(jump(eachVector))
	for _, p := range []struct {
		pointer reg.Register
		step    string
	}{{in, "inTile"}, {out, "outTile"}} {
		u.Load(u.Param("vectors"), shift)
		u.NEGQ(shift)
		u.SHLQ(operand.U8(bytesShift), shift)
		u.ADDQ(shift, p.pointer)
		u.Load(u.Param(p.step), shift)
		u.LEAQ(operand.Mem{Base: p.pointer, Index: shift, Scale: 4}, p.pointer)
	}
	left, err := u.Param("tiles").Resolve()
	if err != nil {
		panic(err)
	}
	u.DECQ(left.Addr)
	u.JNZ(jump(eachTile))
	u.finish()
}
