package nn

import (
	"cmp"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "gather_tree",
		Doc: "Reads the sequences that a beam search has found back from their ends: at each step a beam holds an id and the beam of the step before that it goes on from. Out[t] has the id of " +
			"step t on the way to each beam of the last step.",
		Inputs:    []ops.Slot{{Name: "Ids", Doc: "int32 or int64 [steps, N, beams]"}, {Name: "Parents", Doc: "of the shape and type of Ids: beams of the step before"}},
		Outputs:   []ops.Slot{{Name: "Out", Doc: "as Ids"}},
		MixesRows: opkit.Mixes, // the first axis is that of steps
		Infer: func(s *ops.Shapes) error {
			t := s.In("Ids").DType
			if err := opkit.CheckType(s, "Ids", t == tensor.Int32 || t == tensor.Int64, "int32 or int64"); err != nil {
				return err
			}
			if err := s.Rank("Ids", 3); err != nil {
				return err
			}
			s.Like("Out", "Ids")
			return opkit.SameShape(s, "Ids", "Parents")
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindElements("Ids", nil, nil, bindTree[int32], bindTree[int64], nil),
	})
	ops.Register(ops.Def{
		Type: "similarity_focus",
		Doc: "Marks where rows and columns are most alike (He and Lin 2016): for each of indexes, a place of the given axis of X, it takes the largest element of the matrix of the two other axes, goes on without " +
			"its row and column until either runs out, and sets these elements to 1 at all places of the axis. The rest is 0.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float [N, A, B, C]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs:   []ops.Attr{{Name: "axis", Doc: "1, 2 or 3", Kind: int32(0)}, {Name: "indexes", Doc: "places of the axis", Kind: []int32{}}},
		Infer: func(s *ops.Shapes) error {
			if err := s.IsFloat("X"); err != nil {
				return err
			}
			if err := s.Rank("X", 4); err != nil {
				return err
			}
			axis := s.Int("axis")
			if axis < 1 || axis > 3 {
				return opkit.BadAttr(s, "axis", "1, 2 or 3")
			}
			indexes, extent := s.Ints("indexes"), s.In("X").Dims[axis]
			if len(indexes) == 0 || slices.ContainsFunc(indexes, func(i int64) bool { return i < 0 || extent >= 0 && i >= extent }) {
				return opkit.BadAttr(s, "indexes", "places of axis %d of X %v", axis, s.In("X").Dims)
			}
			s.Like("Out", "X")
			return nil
		},
		Cost: opkit.PerElement(20),
		Bind: opkit.BindFloats("X", bindFocus[float32], bindFocus[float64]),
	})
}

func bindTree[T int32 | int64](b *ops.Binding) (ops.Kernel, error) {
	ids, parents, to := b.In("Ids"), b.In("Parents"), b.Out("Out")
	steps, batch, beams := int(ids.Dims()[0]), int(ids.Dims()[1]), int(ids.Dims()[2])
	return b.Loops(ops.Loop{N: batch * beams, Apart: true, Run: func(_, from, till int) error {
		for i := from; i < till; i++ {
			at := T(i % beams)
			for t := steps - 1; t >= 0; t-- {
				if at < 0 || int(at) >= beams {
					return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("Parents")), fault.Gotf("beam %d in step %d", at, t+1), fault.Wantf("0 to %d", beams-1))
				}
				place := (t*batch+i/beams)*beams + int(at)
				tensor.Data[T](to)[t*batch*beams+i] = tensor.Data[T](ids)[place]
				at = tensor.Data[T](parents)[place]
			}
		}
		return nil
	}})
}

func bindFocus[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to, axis, indexes := b.In("X"), b.Out("Out"), int(b.Int("axis")), b.Ints("indexes")
	dims := [4]int{}
	for i, extent := range x.Dims() {
		dims[i] = int(extent)
	}
	strides := [4]int{dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}
	var others [2]int // axes of the rows and columns of the matrix
	for i, k := 1, 0; i < 4; i++ {
		if i != axis {
			others[k] = i
			k++
		}
	}
	rows, columns := dims[others[0]], dims[others[1]]
	size := rows * columns
	order, taken := b.Scratch(tensor.Int64, b.Parts()*size), b.Scratch(tensor.Bool, b.Parts()*(rows+columns))
	return b.Loops(ops.Loop{N: dims[0], Run: func(part, from, till int) error {
		places, used := ops.Part(order.Int64s(), part, size), ops.Part(taken.Bools(), part, rows+columns)
		for image := from; image < till; image++ {
			in, made := tensor.Data[T](x)[image*strides[0]:][:strides[0]], tensor.Data[T](to)[image*strides[0]:][:strides[0]]
			clear(made)
			for _, index := range indexes {
				at := func(place int64) int {
					return int(index)*strides[axis] + int(place)/columns*strides[others[0]] + int(place)%columns*strides[others[1]]
				}
				for i := range places {
					places[i] = int64(i)
				}
				slices.SortFunc(places, func(i, j int64) int { return cmp.Or(cmp.Compare(in[at(j)], in[at(i)]), cmp.Compare(i, j)) })
				clear(used)
				for left, k := min(rows, columns), 0; left > 0 && k < size; k++ {
					row, column := int(places[k])/columns, int(places[k])%columns
					if used[row] || used[rows+column] {
						continue
					}
					used[row], used[rows+column] = true, true
					left--
					for i := range dims[axis] {
						made[i*strides[axis]+row*strides[others[0]]+column*strides[others[1]]] = 1
					}
				}
			}
		}
		return nil
	}})
}
