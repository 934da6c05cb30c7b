package math

import (
	"context"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:      "sum",
		Doc:       "Adds tensors of one shape in the order of X: Out = X[0] + X[1] + ... If all are sparse, so is Out, with the rows of all.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "numbers of one shape and type", Duplicable: true, Rows: true}},
		Outputs:   []ops.Slot{{Name: "Out", Doc: "of the shape and type of X", Rows: true}},
		Infer:     inferSum,
		Gradient:  sumGradient,
		Cost:      sumCost,
		Bind:      opkit.BindNumbers("X", bindSum[float32], bindSum[float64], bindSum[int32], bindSum[int64]),
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	})
}

func inferSum(s *ops.Shapes) error {
	if err := s.SameType("X"); err != nil {
		return err
	}
	all := s.Ins("X")
	total := all[0]
	total.Dims = slices.Clone(total.Dims)
	for _, m := range all[1:] {
		if !ops.Compatible(total.Dims, m.Dims) {
			return s.Errorf("X", "equal dims, not also %v", m.Dims)
		}
		for i, extent := range m.Dims {
			total.Dims[i] = max(total.Dims[i], extent) // a known extent over an open one
		}
	}
	sumKind(&total, all)
	s.SetAt("Out", 0, total)
	return opkit.CheckType(s, "X", total.DType != tensor.Bool, "numbers")
}

func sumCost(s *ops.Shapes) ops.Cost {
	return ops.Cost{Flops: opkit.Size(s.In("X").Dims) * int64(len(s.Ins("X"))-1), Bytes: opkit.Bytes(s)}
}

// sumGradient copies the gradient of Out to the gradient of every term.
func sumGradient(g *ops.Grad) ([]*program.Op, error) {
	var copies []*program.Op
	for _, to := range g.InGrad("X") {
		if to != program.Empty {
			copies = append(copies, scaleOf(g, g.OutGrad("Out"), []string{to}, 1))
		}
	}
	return copies, nil
}

func bindSum[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	to, terms := b.Out("Out"), b.Ins("X")
	if to.IsSelected() || slices.ContainsFunc(terms, (*tensor.Tensor).IsSelected) {
		return bindSumRows[T](b)
	}
	// Out may share the buffer of the first term. If this term occurs again, the loop must not have overwritten it.
	var apart *tensor.Tensor
	if names := b.Op().Inputs["X"]; slices.Contains(names[1:], names[0]) {
		apart = b.Scratch(to.DType(), to.Len())
	}
	return opkit.Loop(b, to.Len(), func(from, till int) {
		sum := tensor.Data[T](to)[from:till]
		if apart != nil {
			sum = tensor.Data[T](apart)[from:till]
		}
		copy(sum, tensor.Data[T](terms[0])[from:till])
		for _, t := range terms[1:] {
			kernel.Accumulate(sum, tensor.Data[T](t)[from:till])
		}
		if apart != nil {
			copy(tensor.Data[T](to)[from:till], sum)
		}
	})
}

// sumKind sets the kind of a sum. If all terms are sparse, the sum is sparse and has as many rows as all terms together. Otherwise it is dense.
func sumKind(total *ops.Meta, terms []ops.Meta) {
	total.Kind, total.Rows = program.SelectedRows, 0
	for _, m := range terms {
		switch {
		case m.Kind != program.SelectedRows:
			total.Kind, total.Rows = program.LoDTensor, 0
			return
		case m.Rows < 0 || total.Rows < 0 || total.Rows+m.Rows < 0:
			total.Rows = program.Unknown
		default:
			total.Rows += m.Rows
		}
	}
}

// bindSumRows sums terms of which some or all are sparse.
func bindSumRows[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	to, terms := b.Out("Out"), b.Ins("X")
	if to.IsSelected() {
		return concatRows[T](to, terms), nil
	}
	width := to.Len() / max(1, int(to.Dims()[0]))
	if !terms[0].IsSelected() && !slices.Contains(terms[1:], terms[0]) {
		return func(context.Context) error {
			copy(tensor.Data[T](to), tensor.Data[T](terms[0]))
			addTerms(tensor.Data[T](to), terms[1:], width)
			return nil
		}, nil
	}
	apart := b.Scratch(to.DType(), to.Len())
	return func(context.Context) error {
		total := tensor.Data[T](apart)[:to.Len()]
		clear(total)
		addTerms(total, terms, width)
		copy(tensor.Data[T](to), total)
		return nil
	}, nil
}

// addTerms adds each term to total. The rows of a sparse term go where they belong.
func addTerms[T kernel.Number](total []T, terms []*tensor.Tensor, width int) {
	for _, t := range terms {
		rows, _ := t.Selected()
		if rows == nil {
			kernel.Accumulate(total, tensor.Data[T](t))
			continue
		}
		values := tensor.Data[T](t)
		for i, row := range tensor.UsedRows(t) {
			kernel.Accumulate(total[int(row)*width:][:width], values[i*width:][:width])
		}
	}
}

// concatRows puts the rows of all terms one after another. What is left has the number that ends them (tensor.UsedRows).
func concatRows[T kernel.Number](to *tensor.Tensor, terms []*tensor.Tensor) ops.Kernel {
	all, height := to.Selected()
	width := to.Len() / max(1, all.Len())
	return func(context.Context) error {
		rows, values := all.Int64s(), tensor.Data[T](to)
		for _, t := range terms {
			n := copy(rows, tensor.UsedRows(t))
			rows = rows[n:]
			values = values[copy(values, tensor.Data[T](t)[:n*width]):]
		}
		if len(rows) > 0 {
			rows[0] = height
		}
		return nil
	}
}
