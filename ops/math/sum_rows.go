package math

import (
	"context"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// sumKind gives the sum of terms its kind: rows when all are rows, and then as many as all have together; else dense.
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

// bindSumRows sums terms of which some are rows.
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

// addTerms adds each term to total, rows where they belong.
func addTerms[T kernel.Number](total []T, terms []*tensor.Tensor, width int) {
	for _, t := range terms {
		rows, _ := t.Selected()
		if rows == nil {
			kernel.Accumulate(total, tensor.Data[T](t))
			continue
		}
		values := tensor.Data[T](t)
		for i, row := range rows.Int64s() {
			kernel.Accumulate(total[int(row)*width:][:width], values[i*width:][:width])
		}
	}
}

// concatRows puts the rows of all terms one after another.
func concatRows[T kernel.Number](to *tensor.Tensor, terms []*tensor.Tensor) ops.Kernel {
	all, _ := to.Selected()
	return func(context.Context) error {
		rows, values := all.Int64s(), tensor.Data[T](to)
		for _, t := range terms {
			numbers, _ := t.Selected()
			rows = rows[copy(rows, numbers.Int64s()):]
			values = values[copy(values, tensor.Data[T](t)):]
		}
		return nil
	}
}
