package control

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	attrs := []ops.Attr{
		{Name: "axis", Doc: "along which items are joined; from the end if it is negative", Default: int32(0)},
		{Name: "use_stack", Doc: "the axis is new: all items have the same dims", Default: false}}
	ops.Register(ops.Def{
		Type:   "tensor_array_to_tensor",
		Class:  ops.Control,
		Doc:    "Joins the items of an array along an axis, or stacks them along a new one. OutIndex has the extent of each item along the axis, 1 with use_stack.",
		Inputs: []ops.Slot{{Name: "X", Doc: "an array with at least one item; all have the same dims, but for the axis"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the items, one after the other"},
			{Name: "OutIndex", Doc: "int32 [items]", Dispensable: true}},
		Attrs: attrs,
		Infer: func(s *ops.Shapes) error {
			m := s.In("X")
			if err := opkit.CheckType(s, "X", m.Kind == program.LoDTensorArray, "an array"); err != nil {
				return err
			}
			s.Set("OutIndex", tensor.Int32, program.Unknown)
			if len(m.Dims) == 0 {
				return nil // nothing was written to it yet
			}
			axis, err := joinAxis(s.Int("axis"), len(m.Dims), s.Bool("use_stack"))
			if err != nil {
				return opkit.BadAttr(s, "axis", "%v", err)
			}
			dims := slices.Clone(m.Dims)
			if s.Bool("use_stack") {
				dims = slices.Insert(dims, axis, program.Unknown)
			} else {
				dims[axis] = program.Unknown
			}
			s.Set("Out", m.DType, dims...)
			return nil
		},
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("tensor_array_to_tensor_grad")
			op.Inputs["X"], op.Inputs[outGrad] = g.In("X"), g.OutGrad("Out")
			op.Outputs["X"+program.GradSuffix] = g.InGrad("X")
			return []*program.Op{op}, nil
		},
		Bind:      bindJoinItems,
		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type:   "tensor_array_to_tensor_grad",
		Class:  ops.Control,
		Doc:    "Takes the gradient of joined items apart, and adds each part to the gradient of its item.",
		Inputs: []ops.Slot{{Name: "X", Doc: "the array of the forward op"}, {Name: outGrad, Doc: "the gradient of Out"}},
		Outputs: []ops.Slot{
			{Name: "X" + program.GradSuffix, Doc: "the array of gradients"}},
		Attrs: attrs,
		Infer: func(s *ops.Shapes) error {
			s.Like("X"+program.GradSuffix, "X")
			return cmpErr(opkit.CheckType(s, "X", s.In("X").Kind == program.LoDTensorArray, "an array"),
				opkit.CheckType(s, outGrad, s.In(outGrad).Kind == program.LoDTensor, "a dense tensor"))
		},
		Bind:      bindPartItems,
		MixesRows: opkit.Mixes,
	})
}

// joinAxis returns the axis along which items of a rank are joined.
func joinAxis(axis int64, rank int, stack bool) (int, error) {
	axes := int64(rank)
	if stack {
		axes++
	}
	if axis < -axes || axis >= axes || axes > tensor.MaxRank {
		return 0, fault.E(fault.InvalidArgument, fault.Wantf("an axis of rank %d: %d to %d", axes, -axes, axes-1))
	}
	if axis < 0 {
		axis += axes
	}
	return int(axis), nil
}

// A joint finds where the items of an array lie in what they are joined to: outer runs, each with as many elements of an item as widths says.
type joint struct {
	axis   int
	outer  int64
	widths []int64
	dims   []int64 // of all items together
}

// measure goes through the items.
func (j *joint) measure(b *ops.Binding, x *ops.Array) error {
	wrong := func(i int, d []int64, want string) error {
		return fault.E(fault.ShapeMismatch, fault.Var(b.Op().In("X")), fault.Gotf("item %d of dims %v", i, d), fault.Want(want))
	}
	if x.Len() == 0 {
		return fault.E(fault.InvalidArgument, fault.Var(b.Op().In("X")), fault.Got("an array without items"), fault.Want("one or more"))
	}
	stack := b.Bool("use_stack")
	j.widths = j.widths[:0]
	var first *tensor.Tensor
	total := int64(0)
	for i := range x.Len() {
		t, err := x.At(int64(i))
		if err != nil {
			return err
		}
		d := t.Dims()
		if first == nil {
			first = t
			if j.axis, err = joinAxis(b.Int("axis"), len(d), stack); err != nil {
				return wrong(i, d, err.Error())
			}
			j.outer = ops.Product(d[:j.axis])
		}
		f := first.Dims()
		same := t.DType() == first.DType() && len(d) == len(f) && slices.Equal(d[:j.axis], f[:j.axis])
		if same && !stack {
			same = slices.Equal(d[j.axis+1:], f[j.axis+1:])
		} else if same {
			same = slices.Equal(d, f)
		}
		if !same {
			return wrong(i, d, "the type and the dims of item 0, but for the axis")
		}
		j.widths = append(j.widths, ops.Product(d[j.axis:]))
		if stack {
			total++
		} else {
			total += d[j.axis]
		}
	}
	j.dims = append(j.dims[:0], first.Dims()...)
	if stack {
		j.dims = slices.Insert(j.dims, j.axis, total)
	} else {
		j.dims[j.axis] = total
	}
	return nil
}

// each calls do with the place of each run of elements: of item i from element at on, and of all items together from element joined on.
func (j *joint) each(do func(i int, at, joined, n int64) error) error {
	joined := int64(0)
	for o := range j.outer {
		for i, n := range j.widths {
			if err := do(i, o*n, joined, n); err != nil {
				return err
			}
			joined += n
		}
	}
	return nil
}

func bindJoinItems(b *ops.Binding) (ops.Kernel, error) {
	out, sizes := b.Out("Out"), b.Out("OutIndex")
	x, err := b.ArrayIn("X")
	j := &joint{}
	return func(context.Context) error {
		if err := j.measure(b, x); err != nil {
			return err
		}
		if sizes != nil {
			if err := tensor.Resize(sizes, tensor.Int32, int64(x.Len())); err != nil {
				return err
			}
			for i := range x.Len() {
				item, _ := x.At(int64(i))
				sizes.Int32s()[i] = 1
				if !b.Bool("use_stack") {
					sizes.Int32s()[i] = int32(item.Dims()[j.axis])
				}
			}
		}
		if out == nil {
			return nil
		}
		first, err := x.At(0)
		if err != nil {
			return err
		}
		if err := tensor.Resize(out, first.DType(), j.dims...); err != nil {
			return err
		}
		return j.each(func(i int, at, joined, n int64) error {
			item, err := x.At(int64(i))
			if err != nil {
				return err
			}
			return copyElements(out, joined, item, at, n)
		})
	}, err
}

func bindPartItems(b *ops.Binding) (ops.Kernel, error) {
	from := b.In(outGrad)
	x, err := b.ArrayIn("X")
	to, arrayErr := b.ArrayOut("X" + program.GradSuffix)
	j := &joint{}
	var parts []*tensor.Tensor
	return func(context.Context) error {
		if err := j.measure(b, x); err != nil {
			return err
		}
		if !slices.Equal(from.Dims(), j.dims) {
			return fault.E(fault.ShapeMismatch, fault.Var(b.Op().In(outGrad)), fault.Gotf("%v", from.Dims()), fault.Wantf("%v, as the items have together", j.dims))
		}
		for i := range x.Len() {
			if i == len(parts) {
				part, err := tensor.New(from.DType(), 0)
				if err != nil {
					return err
				}
				parts = append(parts, part)
			}
			item, err := x.At(int64(i))
			if err == nil {
				err = tensor.Resize(parts[i], from.DType(), item.Dims()...)
			}
			if err != nil {
				return err
			}
		}
		if err := j.each(func(i int, at, joined, n int64) error { return copyElements(parts[i], at, from, joined, n) }); err != nil {
			return err
		}
		for i := range x.Len() {
			if err := addItem(to, int64(i), parts[i]); err != nil {
				return err
			}
		}
		return nil
	}, cmpErr(err, arrayErr)
}
