package nn

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// mostRanks bounds MaxRank, whose square multiplies rows.
const mostRanks = 1 << 10

func init() {
	opkit.Register(ops.Def{
		Type: "rank_attention",
		Doc: "Lets each row see rows that are shown beside it, with a matrix for each pair of ranks: Out[i] is the sum over k of X[j]*P[r, s], where r is the rank of row i, s that of its k-th " +
			"neighbour, j the row of the neighbour, and P[r, s] the block of M rows of RankParam with number (r-1)*MaxRank + s-1. Ranks count from 1; a row or neighbour of rank 0 counts " +
			"nothing. No gradient flows to X, as in Fluid.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [N, M]"},
			{Name: "RankOffset", Doc: "int32 [N, 2*MaxRank+1]: the rank of the row, and of each neighbour its rank and row"},
			{Name: "RankParam", Doc: "[MaxRank*MaxRank*M, C]"}},
		Outputs: []ops.Slot{
			{Name: "InputHelp", Doc: "[N, MaxRank*M]: the rows of the neighbours, zeros where there is none", Dispensable: true, Intermediate: true},
			{Name: "Out", Doc: "[N, C]"},
			{Name: "InsRank", Doc: "of the type of X, [N, 1]: the rank of each row", Dispensable: true, Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "MaxRank", Doc: "the largest rank, and the number of neighbours", Default: int32(3)},
			{Name: "MaxSize", Doc: "rows that memory is reserved for; not used", Default: int32(0)}},
		Infer:     inferRankAttention,
		MixesRows: opkit.Mixes,
		Cost:      rankAttentionCost,
		Bind:      opkit.BindFloats("X", bindRankAttention[float32], bindRankAttention[float64]),
	}, opkit.Gradient{
		Doc:    "dRankParam has in block [r, s] the sum of transpose(X[j])*dOut[i] over all rows i of rank r and their neighbours j of rank s.",
		Inputs: []string{"X", "RankOffset", "RankParam"},
		From:   []string{"Out"},
		Wrt:    []string{"RankParam"},
		Cost:   rankAttentionCost,
		Bind:   opkit.BindFloats("X", bindRankAttentionGrad[float32], bindRankAttentionGrad[float64]),
	})
}

func inferRankAttention(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "RankParam"); err != nil {
		return err
	}
	for _, slot := range []string{"X", "RankOffset", "RankParam"} {
		if err := s.Rank(slot, 2); err != nil {
			return err
		}
	}
	x, ranks := s.In("X"), s.Int("MaxRank")
	if ranks < 1 || ranks > mostRanks {
		return opkit.BadAttr(s, "MaxRank", "1 to %d", mostRanks)
	}
	if m := s.In("RankOffset"); m.DType != tensor.Int32 || !ops.Compatible(m.Dims, []int64{x.Dims[0], 2*ranks + 1}) {
		return s.Errorf("RankOffset", "int32 [%d, %d]", x.Dims[0], 2*ranks+1)
	}
	if !opkit.Agree(s.In("RankParam").Dims[0], ops.Product([]int64{ranks, ranks, x.Dims[1]})) {
		return s.Errorf("RankParam", "%d*%d*%d rows", ranks, ranks, x.Dims[1])
	}
	s.Set("Out", x.DType, x.Dims[0], s.In("RankParam").Dims[1])
	s.Set("InputHelp", x.DType, x.Dims[0], ops.Product([]int64{ranks, x.Dims[1]}))
	s.Set("InsRank", x.DType, x.Dims[0], 1)
	s.ShareLoD("Out", "X")
	return nil
}

func rankAttentionCost(s *ops.Shapes) ops.Cost {
	x := s.In("X").Dims
	return ops.Cost{Flops: 2 * opkit.Size([]int64{x[0], x[1], s.In("RankParam").Dims[1], s.Int("MaxRank")}), Bytes: opkit.Bytes(s)}
}

// A ranking is a bound rank_attention, or its gradient.
type ranking[T tensor.Float] struct {
	op                 *program.Op
	x, offsets         *tensor.Tensor
	rows, width, ranks int
	columns            int
}

func newRanking[T tensor.Float](b *ops.Binding) *ranking[T] {
	x := b.In("X")
	return &ranking[T]{op: b.Op(), x: x, offsets: b.In("RankOffset"), rows: int(x.Dims()[0]), width: int(x.Dims()[1]), ranks: int(b.Int("MaxRank")),
		columns: int(b.In("RankParam").Dims()[1])}
}

// neighbour returns the block of RankParam and the row of X for neighbour k of row i. There is none if the block is negative.
func (r *ranking[T]) neighbour(i, k int) (block, row int, err error) {
	at := r.offsets.Int32s()[i*(2*r.ranks+1):]
	own, other, place := int(at[0]), int(at[2*k+1]), int(at[2*k+2])
	if own < 1 || other < 1 {
		return -1, 0, nil
	}
	if own > r.ranks || other > r.ranks || place < 0 || place >= r.rows {
		return 0, 0, fault.E(fault.InvalidArgument, fault.On(r.op), fault.Var(r.op.In("RankOffset")), fault.Gotf("rank %d with neighbour %d of rank %d, row %d, in row %d", own, k, other, place, i),
			fault.Wantf("ranks up to %d, and one of %d rows", r.ranks, r.rows))
	}
	return (own-1)*r.ranks + other - 1, place, nil
}

// input returns a row of X.
func (r *ranking[T]) input(row int) []T { return tensor.Data[T](r.x)[row*r.width:][:r.width] }

func bindRankAttention[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	r, param, out, help, ranks := newRanking[T](b), b.In("RankParam"), b.Out("Out"), b.Out("InputHelp"), b.Out("InsRank")
	return b.Loops(ops.Loop{N: r.rows, Apart: true, Whole: []string{"X", "RankParam"}, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			if ranks != nil {
				tensor.Data[T](ranks)[i] = T(r.offsets.Int32s()[i*(2*r.ranks+1)])
			}
			if out != nil {
				clear(tensor.Data[T](out)[i*r.columns:][:r.columns])
			}
			for k := range r.ranks {
				block, row, err := r.neighbour(i, k)
				if err != nil {
					return err
				}
				if help != nil {
					seen := tensor.Data[T](help)[(i*r.ranks+k)*r.width:][:r.width]
					clear(seen)
					if block >= 0 {
						copy(seen, r.input(row))
					}
				}
				if out == nil || block < 0 {
					continue
				}
				y := tensor.Data[T](out)[i*r.columns:][:r.columns]
				for d, v := range r.input(row) {
					kernel.Axpy(y, tensor.Data[T](param)[(block*r.width+d)*r.columns:][:r.columns], v)
				}
			}
		}
		return nil
	}})
}

func bindRankAttentionGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	r, dout, dparam := newRanking[T](b), b.In(program.GradName("Out")), b.Out(program.GradName("RankParam"))
	each := r.width * r.columns
	return b.Loops(ops.Loop{N: r.ranks * r.ranks, Apart: true, Run: func(_, from, to int) error {
		clear(tensor.Data[T](dparam)[from*each : to*each])
		for i := range r.rows {
			for k := range r.ranks {
				block, row, err := r.neighbour(i, k)
				if err != nil {
					return err
				}
				if block < from || block >= to {
					continue
				}
				for d, v := range r.input(row) {
					kernel.Axpy(tensor.Data[T](dparam)[(block*r.width+d)*r.columns:][:r.columns], tensor.Data[T](dout)[i*r.columns:][:r.columns], v)
				}
			}
		}
		return nil
	}})
}
