package math

import (
	"fmt"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "einsum",
		Doc: "Sums products of one or two tensors over axes, as equation says: with \"bij,bkj->bik\" Out[b, i, k] is the sum over j of the elements [b, i, j] of the first and [b, k, j] of the second. " +
			"A letter is an axis, and \"...\" stands for the axes without a letter. Without \"->\" the result has the letters that occur once, in the order of the alphabet.",
		Inputs:  []ops.Slot{{Name: "Operands", Doc: "float, one or two variables of one type", Duplicable: true}},
		Outputs: out("Out", "of the type of Operands; [1] if the equation leaves no axis"),
		Attrs:   []ops.Attr{{Name: "equation", Doc: "letters of the axes of each operand, and of Out", Kind: ""}},
		Infer:   inferEinsum,
		Cost: func(s *ops.Shapes) ops.Cost {
			c, err := contractionOf(s.Str("equation"), dimsOfAll(s.Ins("Operands")))
			if err != nil {
				return ops.Cost{}
			}
			var all []int64
			for _, extent := range c.extents {
				all = append(all, extent)
			}
			return ops.Cost{Flops: 2 * opkit.Size(all), Bytes: opkit.Bytes(s)}
		},
		Bind: opkit.BindFloats("Operands", bindEinsum[float32], bindEinsum[float64]),
		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool {
			c, err := contractionOf(s.Str("equation"), dimsOfAll(s.Ins("Operands")))
			if err != nil || c.out == "" {
				return true
			}
			rows := c.out[:1]
			return slices.ContainsFunc(c.operands, func(labels string) bool { return !strings.HasPrefix(labels, rows) })
		},
	}, opkit.Gradient{
		Doc: "the gradient of each operand is the einsum of dOut and the other one, repeated along axes that the operand alone has.", Inputs: []string{"Operands"}, Wrt: []string{"Operands"},
		Cost: opkit.PerElement(4), Bind: opkit.BindFloats("Out@GRAD", bindEinsumGrad[float32], bindEinsumGrad[float64]),
	})
}

func dimsOfAll(metas []ops.Meta) (all [][]int64) {
	for _, m := range metas {
		all = append(all, m.Dims)
	}
	return all
}

// A contraction is an equation for tensors of known ranks. A label is one byte; those of "..." are digits, counted from the last axis.
type contraction struct {
	operands []string
	out      string
	extents  map[rune]int64 // program.Unknown where open
}

// contractionOf reads an equation. Its errors say what an equation must be.
func contractionOf(equation string, operands [][]int64) (*contraction, error) {
	left, right, explicit := strings.Cut(strings.ReplaceAll(equation, " ", ""), "->")
	c := &contraction{extents: map[rune]int64{}}
	terms := strings.Split(left, ",")
	if len(terms) != len(operands) || len(operands) < 1 || len(operands) > 2 {
		return nil, fmt.Errorf("an equation of %d operands, of one or two", len(operands))
	}
	most, seen := 0, map[rune]int{}
	for i, term := range terms {
		free := len(operands[i]) - len(strings.ReplaceAll(term, "...", ""))
		if !strings.Contains(term, "...") && free != 0 || free < 0 {
			return nil, fmt.Errorf("%d axes in %q, the rank of operand %d", len(operands[i]), term, i)
		}
		labels, err := labelsOf(term, free)
		if err != nil {
			return nil, err
		}
		most = max(most, free)
		for at, l := range labels {
			extent, known := c.extents[l]
			if known && !opkit.Agree(extent, operands[i][at]) {
				return nil, fmt.Errorf("one extent for the axis %q, which has %d and %d", l, extent, operands[i][at])
			}
			c.extents[l] = max(extent, operands[i][at])
			if !known {
				c.extents[l] = operands[i][at]
			}
			seen[l]++
		}
		c.operands = append(c.operands, labels)
	}
	if !explicit {
		right = "..."
		for l := 'A'; l <= 'z'; l++ {
			if seen[l] == 1 {
				right += string(l)
			}
		}
	}
	var err error
	if c.out, err = labelsOf(right, most); err != nil {
		return nil, err
	}
	for _, l := range c.out {
		if seen[l] == 0 {
			return nil, fmt.Errorf("no axis %q in Out that no operand has", l)
		}
	}
	return c, nil
}

// labelsOf returns the labels of a term, with digits for the axes that "..." stands for.
func labelsOf(term string, free int) (string, error) {
	if free > 9 {
		return "", fmt.Errorf("at most 9 axes for \"...\"")
	}
	rest := ""
	for i := free; i > 0; i-- {
		rest += string(rune('0' + i))
	}
	for i, l := range strings.ReplaceAll(term, "...", "") {
		if !(l >= 'a' && l <= 'z' || l >= 'A' && l <= 'Z') {
			return "", fmt.Errorf("letters, not %q", l)
		}
		if strings.ContainsRune(term[:strings.IndexRune(term, l)], l) || strings.Count(term, string(l)) > 1 {
			return "", fmt.Errorf("each letter once in %q, not %q again at %d", term, l, i)
		}
	}
	return strings.Replace(term, "...", rest, 1), nil
}

func inferEinsum(s *ops.Shapes) error {
	operands := s.Ins("Operands")
	for i, m := range operands {
		if m.DType != operands[0].DType {
			return fault.E(fault.TypeMismatch, fault.On(s.Op()), fault.Var(s.Op().Inputs["Operands"][i]), fault.Gotf("%v", m), fault.Wantf("%v, as the first", operands[0].DType))
		}
	}
	if err := s.IsFloat("Operands"); err != nil {
		return err
	}
	c, err := contractionOf(s.Str("equation"), dimsOfAll(operands))
	if err != nil {
		return opkit.UnsupportedAttr(s, "equation", err.Error())
	}
	dims := make([]int64, 0, len(c.out))
	for _, l := range c.out {
		dims = append(dims, c.extents[l])
	}
	if len(dims) == 0 {
		dims = []int64{1}
	}
	s.Set("Out", operands[0].DType, dims...)
	return nil
}

// sums binds one sum of products: out gets labels c of x, of labels a, and y, of labels b, which may be nil.
func sums[T tensor.Float](b *ops.Binding, extents map[rune]int64, to, x, y *tensor.Tensor, c, a, other string) func() {
	known := map[rune]int{}
	for l, extent := range extents {
		known[l] = int(extent)
	}
	plan := kernel.NewEinsumPlan(a, other, c, y == nil, known)
	room := func(n int) *tensor.Tensor { return b.Scratch(tensor.Of[T](), n) }
	na, nb, np, nw := plan.Scratch()
	packedX, packedY, products, workspace, counters := room(na), room(nb), room(np), room(nw), make([]int, plan.Axes())
	return func() {
		kernel.Einsum(plan, tensor.Data[T](to), tensor.Data[T](x), opkit.Data[T](y), tensor.Data[T](packedX), tensor.Data[T](packedY), tensor.Data[T](products), tensor.Data[T](workspace), counters)
	}
}

// inOrder makes one loop of functions.
func inOrder(all ...func()) ops.Loop {
	return ops.Loop{N: 1, Run: func(int, int, int) error {
		for _, f := range all {
			f()
		}
		return nil
	}}
}

// boundContraction reads the equation for tensors of known dims. empty says that one of them has no elements.
func boundContraction(b *ops.Binding) (c *contraction, empty bool, err error) {
	var dims [][]int64
	for _, t := range b.Ins("Operands") {
		dims = append(dims, t.Dims())
		empty = empty || t.Len() == 0
	}
	c, err = contractionOf(b.Str("equation"), dims)
	return c, empty, err
}

func bindEinsum[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	c, empty, err := boundContraction(b)
	if err != nil {
		return nil, err
	}
	operands, to := b.Ins("Operands"), b.Out("Out")
	if empty {
		return b.Loops(inOrder(func() { clear(tensor.Data[T](to)) }))
	}
	if len(operands) == 1 {
		return b.Loops(inOrder(sums[T](b, c.extents, to, operands[0], nil, c.out, c.operands[0], "")))
	}
	return b.Loops(inOrder(sums[T](b, c.extents, to, operands[0], operands[1], c.out, c.operands[0], c.operands[1])))
}

func bindEinsumGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	c, empty, err := boundContraction(b)
	if err != nil {
		return nil, err
	}
	operands, dout := b.Ins("Operands"), b.In("Out@GRAD")
	var all []func()
	for i, to := range b.Outs(program.GradName("Operands")) {
		switch {
		case to == nil:
		case empty:
			all = append(all, func() { clear(tensor.Data[T](to)) })
		case len(operands) == 1:
			all = append(all, sums[T](b, c.extents, to, dout, nil, c.operands[i], c.out, ""))
		default:
			all = append(all, sums[T](b, c.extents, to, dout, operands[1-i], c.operands[i], c.out, c.operands[1-i]))
		}
	}
	return b.Loops(inOrder(all...))
}
