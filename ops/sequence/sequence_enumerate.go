package sequence

import (
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:    "sequence_enumerate",
		Doc:     "Makes a window of each row: the numbers of the win_size rows from it on in its sequence, pad_value beyond the end.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "int32 or int64 [rows, 1], with a LoD"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[rows, win_size], sequences as in X"}},
		Attrs: []ops.Attr{
			{Name: "win_size", Doc: "rows of a window, at least 1", Kind: int32(0)},
			{Name: "pad_value", Doc: "stands for rows beyond the end", Default: int32(0)}},
		Infer: inferSequenceEnumerate,
		Cost:  opkit.PerElement(1),
		Bind:  opkit.BindNumbers("X", refuseFloats, refuseFloats, bindEnumerate[int32], bindEnumerate[int64]),
	})

	opkit.Register(ops.Def{
		Type: "sequence_scatter",
		Doc:  "Adds to single elements of rows: for each row j of sequence i, Out[i, Ids[j]] is X[i, Ids[j]] plus Updates[j].",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [sequences, columns]"},
			{Name: "Ids", Doc: "int32 or int64 [rows, 1], of one LoD level: columns"},
			{Name: "Updates", Doc: "of the type of X, [rows, 1], in the sequences of Ids"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "as X"}},
		Infer:   inferSequenceScatter,
		MixesRows: func(_ *ops.Shapes, divided func(string) bool) bool {
			return !divided("X") || !divided("Ids") || !divided("Updates")
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("X", bindScatter[float32], bindScatter[float64]),
	}, opkit.Gradient{
		Doc:     "dX = dOut, dUpdates[j] = dOut[i, Ids[j]].",
		Inputs:  []string{"X", "Ids", "Updates"},
		Wrt:     []string{"X", "Updates"},
		StandIn: map[string]string{"X": "Out@GRAD"},
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("Out@GRAD", bindScatterGrad[float32], bindScatterGrad[float64]),
	})
}

func inferSequenceEnumerate(s *ops.Shapes) error {
	x, window := s.In("X"), s.Int("win_size")
	if err := opkit.CheckType(s, "X", x.DType == tensor.Int32 || x.DType == tensor.Int64, "int32 or int64"); err != nil {
		return err
	}
	if len(x.Dims) < 1 || !ops.Compatible(x.Dims[1:], ones(len(x.Dims)-1)) {
		return s.Errorf("X", "one number in each row")
	}
	if _, err := s.CountSequences("X"); err != nil {
		return err
	}
	if window < 1 || window > math.MaxInt32 {
		return opkit.BadAttr(s, "win_size", "at least 1")
	}
	s.Set("Out", x.DType, x.Dims[0], window)
	s.ShareLoD("Out", "X")
	return nil
}

func bindEnumerate[T int32 | int64](b *ops.Binding) (ops.Kernel, error) {
	x, out, window, pad := batchIn(b, "X"), b.Out("Out"), int(b.Int("win_size")), T(b.Int("pad_value"))
	return b.Loops(x.each(func(_, from, to int) {
		all := tensor.Data[T](x.value)
		for i := from; i < to; i++ {
			places := row(tensor.Data[T](out), i, window)
			for j := copy(places, all[i:to]); j < window; j++ {
				places[j] = pad
			}
		}
	}))
}

func inferSequenceScatter(s *ops.Shapes) error {
	x, ids, updates := s.In("X"), s.In("Ids"), s.In("Updates")
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "Updates"); err != nil {
		return err
	}
	if err := s.Rank("X", 2); err != nil {
		return err
	}
	if err := opkit.CheckType(s, "Ids", ids.DType == tensor.Int32 || ids.DType == tensor.Int64, "int32 or int64"); err != nil {
		return err
	}
	sequences, err := s.CountSequences("Ids")
	if err != nil {
		return err
	}
	if len(ids.Dims) < 1 || !ops.Compatible(ids.Dims[1:], ones(len(ids.Dims)-1)) || ids.LoDLevel != 1 || !opkit.Agree(x.Dims[0], sequences) {
		return s.Errorf("Ids", "one number in each row, in %d sequences of one LoD level: as many as X has rows", x.Dims[0])
	}
	if !slices.Equal(updates.Dims, ids.Dims) && !ops.Compatible(updates.Dims, ids.Dims) {
		return s.Errorf("Updates", "dims %v as in Ids", ids.Dims)
	}
	s.Like("Out", "X")
	return nil
}

// columnsOf calls do with the row of X and the column that each row of Ids names.
func columnsOf(ids batch, columns int, first, end int, do func(sequence, at int, column int64)) error {
	offsets, err := ids.offsets()
	if err != nil {
		return err
	}
	for i := first; i < end; i++ {
		for j := int(offsets[i]); j < int(offsets[i+1]); j++ {
			column := integer(ids.value, j)
			if column < 0 || column >= int64(columns) {
				return opkit.CheckIDs(ids.op, ids.op.In("Ids"), []int64{column}, j, int64(columns))
			}
			do(i, j, column)
		}
	}
	return nil
}

func bindScatter[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, ids, updates, out := b.In("X"), batchIn(b, "Ids"), b.In("Updates"), b.Out("Out")
	columns := width(x, 1)
	return b.Loops(ops.Loop{N: ids.n, Apart: true, Run: func(_, first, end int) error {
		to := tensor.Data[T](out)
		copy(to[first*columns:end*columns], tensor.Data[T](x)[first*columns:])
		return columnsOf(ids, columns, first, end, func(i, j int, column int64) {
			to[i*columns+int(column)] += tensor.Data[T](updates)[j]
		})
	}})
}

func bindScatterGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	ids, dout, dx, dupdates := batchIn(b, "Ids"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Out("Updates@GRAD")
	columns := width(dout, 1)
	return b.Loops(ops.Loop{N: ids.n, Apart: true, Run: func(_, first, end int) error {
		if dx != nil {
			copy(tensor.Data[T](dx)[first*columns:end*columns], tensor.Data[T](dout)[first*columns:])
		}
		if dupdates == nil {
			return nil
		}
		return columnsOf(ids, columns, first, end, func(i, j int, column int64) {
			tensor.Data[T](dupdates)[j] = tensor.Data[T](dout)[i*columns+int(column)]
		})
	}})
}
