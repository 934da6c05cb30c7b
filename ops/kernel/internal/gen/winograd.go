package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// winograd emits the transforms of F(2x2, 3x3) and F(4x4, 3x3) (Lavin and Gray 2015): out = L*in*L' for tiles of small matrices whose elements are vectors.
// No multiplication is fused with an addition, so portable Go gives the same bits.
func winograd(u *asmFile) {
	for _, s := range append(sandwiches2x2(), sandwiches4x4()...) {
		s.emit(u)
		u.wide, s.name, s.passes = true, s.name+"Wide", s.wide
		s.emit(u)
		u.wide = false
	}
}

func sandwiches2x2() []sandwich {
	return []sandwich{
		{name: "winogradInput2x2", doc: "4 x 4 to 4 x 4", rows: 4, columns: 4, passes: [][]int{{0, 1}, {2, 3}}, wide: [][]int{{0, 1, 2, 3}},
			line: func(u *asmFile, x element1) element1 {
				return func(i int) reg.VecVirtual {
					switch i {
					case 0:
						return u.sub(x(0), x(2))
					case 1:
						return u.add(x(1), x(2))
					case 2:
						return u.sub(x(2), x(1))
					}
					return u.sub(x(3), x(1))
				}
			}},
		{name: "winogradOutput2x2", doc: "4 x 4 to 2 x 2", rows: 2, columns: 4, passes: [][]int{{0, 1}}, wide: [][]int{{0, 1}},
			line: func(u *asmFile, x element1) element1 {
				return func(i int) reg.VecVirtual {
					if i == 0 {
						return u.add(u.add(x(0), x(1)), x(2))
					}
					return u.add(u.sub(x(1), x(2)), x(3))
				}
			}},
		{name: "winogradOutputGrad2x2", doc: "2 x 2 to 4 x 4", rows: 4, columns: 2, passes: [][]int{{0, 1, 2, 3}}, wide: [][]int{{0, 1, 2, 3}},
			line: func(u *asmFile, x element1) element1 {
				return func(i int) reg.VecVirtual {
					switch i {
					case 0:
						return x(0)
					case 1:
						return u.add(x(0), x(1))
					case 2:
						return u.sub(x(0), x(1))
					}
					return x(1)
				}
			}},
		{name: "winogradFilter2x2", doc: "3 x 3 to 4 x 4", rows: 4, columns: 3, passes: [][]int{{0, 1}, {2, 3}}, wide: [][]int{{0, 1, 2, 3}},
			line: func(u *asmFile, x element1) element1 {
				return func(i int) reg.VecVirtual {
					switch i {
					case 0:
						return x(0)
					case 1:
						return u.times(0.5, u.add(u.add(x(0), x(2)), x(1)))
					case 2:
						return u.times(0.5, u.sub(u.add(x(0), x(2)), x(1)))
					}
					return x(2)
				}
			}},
		{name: "winogradFilterGrad2x2", doc: "4 x 4 to 3 x 3", rows: 3, columns: 4, passes: [][]int{{0, 1}, {2}}, wide: [][]int{{0, 1, 2}},
			line: func(u *asmFile, x element1) element1 {
				return func(i int) reg.VecVirtual {
					switch i {
					case 0:
						return u.add(x(0), u.times(0.5, u.add(x(1), x(2))))
					case 1:
						return u.times(0.5, u.sub(x(1), x(2)))
					}
					return u.add(u.times(0.5, u.add(x(1), x(2))), x(3))
				}
			}},
	}
}

// The places of F(4x4, 3x3) are 0, a, -a, b, -b and infinity. weightA and weightB divide by the product of the distances of a and b to the other places.
const (
	placeA, placeB = 0.625, 1.5
	squareA        = placeA * placeA
	squareB        = placeB * placeB
	weight0        = 1 / (squareA * squareB)
	weightA        = 1 / (2 * squareA * (squareA - squareB))
	weightB        = 1 / (2 * squareB * (squareB - squareA))
)

func sandwiches4x4() []sandwich {
	return []sandwich{
		{name: "winogradInput4x4", doc: "6 x 6 to 6 x 6", rows: 6, columns: 6, passes: [][]int{{0}, {1, 2}, {3, 4}, {5}}, wide: [][]int{{0, 1, 2}, {3, 4, 5}},
			line: func(u *asmFile, x element1) element1 {
				ends := func(i int) reg.VecVirtual {
					return u.sub(u.add(u.times(squareA*squareB, x(i)), x(i+4)), u.times(squareA+squareB, x(i+2)))
				}
				pair := func(place, other float32) func() (even, odd reg.VecVirtual) {
					return once(func() (even, odd reg.VecVirtual) {
						return u.sub(x(4), u.times(other, x(2))), u.times(place, u.sub(x(3), u.times(other, x(1))))
					})
				}
				a, b := pair(placeA, squareB), pair(placeB, squareA)
				return func(i int) reg.VecVirtual {
					switch i {
					case 0:
						return ends(0)
					case 1:
						return u.add(a())
					case 2:
						return u.sub(a())
					case 3:
						return u.add(b())
					case 4:
						return u.sub(b())
					}
					return ends(1)
				}
			}},
		{name: "winogradOutput4x4", doc: "6 x 6 to 4 x 4", rows: 4, columns: 6, passes: [][]int{{0, 1}, {2, 3}}, wide: [][]int{{0, 1, 2, 3}},
			line: func(u *asmFile, x element1) element1 {
				sums := once(func() (a, b reg.VecVirtual) { return u.add(x(1), x(2)), u.add(x(3), x(4)) })
				differences := once(func() (a, b reg.VecVirtual) { return u.sub(x(1), x(2)), u.sub(x(3), x(4)) })
				weighed := func(of func() (a, b reg.VecVirtual), weightA, weightB float32) reg.VecVirtual {
					a, b := of()
					return u.add(u.times(weightA, a), u.times(weightB, b))
				}
				return func(i int) reg.VecVirtual {
					switch i {
					case 0:
						a, b := sums()
						return u.add(u.add(x(0), a), b)
					case 1:
						return weighed(differences, placeA, placeB)
					case 2:
						return weighed(sums, squareA, squareB)
					}
					return u.add(weighed(differences, squareA*placeA, squareB*placeB), x(5))
				}
			}},
		{name: "winogradOutputGrad4x4", doc: "4 x 4 to 6 x 6", rows: 6, columns: 4, passes: [][]int{{0, 1, 2}, {3, 4, 5}}, wide: [][]int{{0, 1, 2, 3, 4, 5}},
			line: func(u *asmFile, x element1) element1 {
				pair := func(place, square float32) func() (even, odd reg.VecVirtual) {
					return once(func() (even, odd reg.VecVirtual) {
						return u.add(x(0), u.times(square, x(2))), u.times(place, u.add(x(1), u.times(square, x(3))))
					})
				}
				return atPlaces(u, x, 3, pair(placeA, squareA), pair(placeB, squareB))
			}},
		{name: "winogradFilter4x4", doc: "3 x 3 to 6 x 6", rows: 6, columns: 3, passes: [][]int{{0, 1, 2}, {3, 4, 5}}, wide: [][]int{{0, 1, 2, 3, 4, 5}},
			line: func(u *asmFile, x element1) element1 {
				pair := func(weight, place, square float32) func() (even, odd reg.VecVirtual) {
					return once(func() (even, odd reg.VecVirtual) {
						return u.times(weight, u.add(x(0), u.times(square, x(2)))), u.times(place, x(1))
					})
				}
				first := func(i int) reg.VecVirtual {
					if i == 0 {
						return u.times(weight0, x(0))
					}
					return x(i)
				}
				return atPlaces(u, first, 2, pair(weightA, weightA*placeA, squareA), pair(weightB, weightB*placeB, squareB))
			}},
		{name: "winogradFilterGrad4x4", doc: "6 x 6 to 3 x 3", rows: 3, columns: 6, passes: [][]int{{0, 1}, {2}}, wide: [][]int{{0, 1, 2}},
			line: func(u *asmFile, x element1) element1 {
				sums := once(func() (a, b reg.VecVirtual) {
					return u.times(weightA, u.add(x(1), x(2))), u.times(weightB, u.add(x(3), x(4)))
				})
				return func(i int) reg.VecVirtual {
					switch i {
					case 0:
						a, b := sums()
						return u.add(u.add(u.times(weight0, x(0)), a), b)
					case 1:
						return u.add(u.times(weightA*placeA, u.sub(x(1), x(2))), u.times(weightB*placeB, u.sub(x(3), x(4))))
					}
					a, b := sums()
					return u.add(u.add(u.times(squareA, a), u.times(squareB, b)), x(5))
				}
			}},
	}
}

// atPlaces gives the values of a polynomial at the places of F(4x4, 3x3): its first and last coefficients, and what its even and its odd part have at a and b.
func atPlaces(u *asmFile, x element1, last int, a, b func() (even, odd reg.VecVirtual)) element1 {
	return func(i int) reg.VecVirtual {
		switch i {
		case 0:
			return x(0)
		case 1:
			return u.add(a())
		case 2:
			return u.sub(a())
		case 3:
			return u.add(b())
		case 4:
			return u.sub(b())
		}
		return x(last)
	}
}

// once emits two values at their first use.
func once(emit func() (x, y reg.VecVirtual)) func() (x, y reg.VecVirtual) {
	var x, y reg.VecVirtual
	return func() (reg.VecVirtual, reg.VecVirtual) {
		if x == nil {
			x, y = emit()
		}
		return x, y
	}
}

// times multiplies by a number.
func (u *asmFile) times(factor float32, x reg.VecVirtual) reg.VecVirtual {
	out := vector(u)
	if u.wide {
		u.VMULPS_BCST(u.float(factor), x, out)
	} else {
		u.VMULPS(u.float(factor), x, out)
	}
	return out
}

// element1 returns an element of a row or a column.
type element1 func(i int) reg.VecVirtual

// A sandwich is one transform. L has so many rows and columns. line gives the rows of L times x.
type sandwich struct {
	name, doc     string
	rows, columns int
	passes        [][]int // columns of the result that are computed together, so that registers suffice
	wide          [][]int // the same with AVX-512, which has twice as many
	line          func(u *asmFile, x element1) element1
}

func (s sandwich) emit(u *asmFile) {
	u.function(s.name, "func(out, in []float32, outRow, outColumn, outTile, inRow, inColumn, inTile, tiles, vectors int)", s.doc)
	bytes := func(parameter string) reg.GPVirtual {
		r := u.GP64()
		u.Load(u.Param(parameter), r)
		u.SHLQ(operand.U8(2), r)
		return r
	}
	multiple := func(r reg.GPVirtual, times, needed int) reg.GPVirtual { // times is 3 or 5
		if needed < times {
			return nil
		}
		m := u.GP64()
		u.LEAQ(operand.Mem{Base: r, Index: r, Scale: uint8(times - 1)}, m)
		return m
	}
	out, in := u.Load(u.Param("out").Base(), u.GP64()), u.Load(u.Param("in").Base(), u.GP64())
	outRow, outColumn, inRow, inColumn := bytes("outRow"), bytes("outColumn"), bytes("inRow"), bytes("inColumn")
	outRow3, inColumn3 := multiple(outRow, 3, s.rows-1), multiple(inColumn, 3, s.columns-1)
	outRow5, inColumn5 := multiple(outRow, 5, s.rows-1), multiple(inColumn, 5, s.columns-1)
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
					u.VMOVUPS(place(from, inColumn, inColumn3, inColumn5, i), loaded[i])
				}
				return loaded[i]
			}
			line := s.line(u, x)
			for _, j := range pass {
				across[r] = append(across[r], line(j))
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
			line := s.line(u, func(r int) reg.VecVirtual { return across[r][k] })
			for i := range s.rows {
				u.VMOVUPS(line(i), place(to, outRow, outRow3, outRow5, i))
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

// place is stepped for i below 6; step5 holds five steps.
func place(base, step, step3, step5 reg.Register, i int) operand.Mem {
	switch i {
	case 4:
		return operand.Mem{Base: base, Index: step, Scale: 4}
	case 5:
		return operand.Mem{Base: base, Index: step5, Scale: 1}
	}
	return stepped(base, step, step3, i, 0)
}
