package math

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:    "tril_triu",
		Doc:     "Keeps the lower or upper triangle of the matrices on the last two axes, and sets the rest to 0: Out[i, j] = X[i, j] where j - i <= diagonal, or >=.",
		Inputs:  in("X", "any type, rank 2 or more"),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs: []ops.Attr{{Name: "diagonal", Doc: "the last diagonal that stays; 0 for the main one, above it for numbers above 0", Default: int32(0)},
			{Name: "lower", Doc: "whether the lower triangle stays, not the upper", Default: false}},
		Infer: func(s *ops.Shapes) error {
			if len(s.In("X").Dims) < 2 {
				return s.Errorf("X", "rank 2 or more")
			}
			s.Like("Out", "X")
			return nil
		},
		Gradient: func(g *ops.Grad) ([]*program.Op, error) {
			op := g.GradOp("tril_triu")
			op.Inputs["X"], op.Outputs["Out"] = g.OutGrad("Out"), g.InGrad("X")
			return []*program.Op{op}, nil
		},
		Bind: opkit.BindElements("X", bindTriangle[float32], bindTriangle[float64], bindTriangle[int32], bindTriangle[int64], bindTriangle[bool]),

		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool { return len(s.In("X").Dims) == 2 },
	})
}

func bindTriangle[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	x, to, lower := b.In("X"), b.Out("Out"), b.Bool("lower")
	rows, columns := int(x.Dims()[len(x.Dims())-2]), int(x.Dims()[len(x.Dims())-1])
	diagonal := int(min(max(b.Int("diagonal"), int64(-rows)), int64(columns))) // beyond, nothing changes
	return b.Loops(ops.Loop{N: x.Len() / columns, Run: func(_, from, till int) error {
		for row := from; row < till; row++ {
			src, dst := tensor.Data[T](x)[row*columns:(row+1)*columns], tensor.Data[T](to)[row*columns:(row+1)*columns]
			first := row%rows + diagonal // the column of the diagonal
			kept, end := max(first, 0), columns
			if lower {
				kept, end = 0, min(first+1, columns)
			}
			clear(dst)
			if kept < end {
				copy(dst[kept:end], src[kept:end])
			}
		}
		return nil
	}})
}
