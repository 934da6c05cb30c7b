package nn

import (
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "multinomial", Class: ops.Random,
		Doc: "Draws numbers of columns, each with a probability in proportion to its element of the row of X; without replacement no column twice. What is drawn depends on the name of Out, the step and the place " +
			"of the row in the whole batch, so it is new in every step and the same for any number of trainers.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float from 0 [N, C] or [C]; a row has as many elements above 0 as are drawn, or with replacement one"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "int64 [N, num_samples] or [num_samples]"}},
		Attrs:   []ops.Attr{{Name: "num_samples", Doc: "how many are drawn, from 1", Default: int32(1)}, {Name: "replacement", Doc: "whether a column may be drawn again", Default: false}},
		Infer: func(s *ops.Shapes) error {
			x := s.In("X")
			if err := s.IsFloat("X"); err != nil {
				return err
			}
			n := s.Int("num_samples")
			if n < 1 || n > math.MaxInt32 {
				return opkit.BadAttr(s, "num_samples", "1 to %d", math.MaxInt32)
			}
			rank := len(x.Dims)
			if rank != 1 && rank != 2 {
				return s.Errorf("X", "rank 1 or 2")
			}
			if x.Dims[rank-1] == 0 {
				return s.Errorf("X", "columns to draw from")
			}
			if c := x.Dims[rank-1]; c >= 0 && !s.Bool("replacement") && n > c {
				return opkit.BadAttr(s, "num_samples", "at most %d, the columns of X, without replacement", c)
			}
			x.DType = tensor.Int64
			x.Dims = append(append([]int64{}, x.Dims[:rank-1]...), n)
			if rank == 1 {
				x = x.WithoutLoD()
			}
			s.SetAt("Out", 0, x)
			return nil
		},
		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool { return len(s.In("X").Dims) == 1 },
		Cost:      opkit.PerElement(60),
		Bind:      opkit.BindFloats("X", bindMultinomial[float32], bindMultinomial[float64]),
	})
	opkit.Register(ops.Def{
		Type: "shuffle_batch", Class: ops.Random,
		Doc: "Puts rows in a random order: row i of X becomes row ShuffleIdx[i] of Out. All axes but the last are rows. The order depends on the name of Out, Seed, startup_seed and the step, so it is new in every " +
			"step. SeedOut is Seed.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "numbers, rank 1 or more"}, {Name: "Seed", Doc: "int64 [1]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}, {Name: "ShuffleIdx", Doc: "int64 [rows]"}, {Name: "SeedOut", Doc: "int64 [1]"}},
		Attrs:   []ops.Attr{{Name: "startup_seed", Doc: "key of the order", Default: int32(0)}},
		Infer: func(s *ops.Shapes) error {
			x := s.In("X")
			if len(x.Dims) == 0 {
				return s.Errorf("X", "rank 1 or more")
			}
			if err := opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers"); err != nil {
				return err
			}
			if n := ops.Product(s.In("Seed").Dims); !opkit.Agree(n, 1) || s.In("Seed").DType != tensor.Int64 {
				return s.Errorf("Seed", "one int64")
			}
			s.SetAt("Out", 0, x.WithoutLoD())
			s.Set("ShuffleIdx", tensor.Int64, ops.Product(x.Dims[:len(x.Dims)-1]))
			s.Set("SeedOut", tensor.Int64, 1)
			return nil
		},
		MixesRows: opkit.Mixes,
		Cost:      opkit.PerElement(60),
		Bind:      opkit.BindNumbers("X", bindShuffle[float32], bindShuffle[float64], bindShuffle[int32], bindShuffle[int64]),
	}, opkit.Gradient{
		Doc: "row i of dX = row ShuffleIdx[i] of dOut.", Inputs: []string{"X", "Seed"}, Outputs: []string{"ShuffleIdx"}, From: []string{"Out"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindShuffleGrad[float32], bindShuffleGrad[float64]),
	})
}

func bindMultinomial[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, x, to, step, name := b.Op(), b.In("X"), b.Out("Out"), batchOf(b, "X"), kernel.StreamOf("multinomial", b.Op().Out("Out"))
	columns, n, again := int(x.Dims()[len(x.Dims())-1]), int(b.Int("num_samples")), b.Bool("replacement")
	left := b.Scratch(tensor.Float64, b.Parts()*columns)
	draw := func(weights []float64, drawn []int64, stream, place uint64, row int) error {
		var u [1]float64
		for k := range drawn {
			total := 0.0
			for _, w := range weights {
				total += w
			}
			if !(total > 0) || math.IsInf(total, 0) {
				return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("X")), fault.Gotf("elements of row %d that sum up to %v after %d draws", row, total, k), fault.Want("finite ones above 0, enough to draw from"))
			}
			kernel.UniformFill(u[:], 0, stream, place*uint64(n)+uint64(k), 0, total)
			at := -1
			for i, w := range weights {
				if w > 0 {
					at = i
					if u[0] -= w; u[0] < 0 {
						break
					}
				}
			}
			drawn[k] = int64(at)
			if !again {
				weights[at] = 0
			}
		}
		return nil
	}
	return b.Loops(ops.Loop{N: x.Len() / columns, Apart: true, Run: func(part, from, till int) (err error) {
		stream, weights := opkit.StreamAt(name, step.Step), ops.Part(left.Float64s(), part, columns)
		rows := func(at, end int, place uint64) {
			for row := at; row < end && err == nil; row++ {
				for i, w := range tensor.Data[T](x)[row*columns:][:columns] {
					if !(w >= 0) {
						err = fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("X")), fault.Gotf("%v in row %d", w, row), fault.Want("at least 0"))
						return
					}
					weights[i] = float64(w)
				}
				err = draw(weights, to.Int64s()[row*n:][:n], stream, place+uint64(row-at), row)
			}
		}
		if len(x.Dims()) == 1 {
			rows(from, till, 0)
		} else {
			eachRowRun(x, step, from, till, rows)
		}
		return err
	}})
}

func bindShuffle[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, seed, to, index, next, step, key := b.In("X"), b.In("Seed"), b.Out("Out"), b.Out("ShuffleIdx"), b.Out("SeedOut"), b.Env.Step, b.Int("startup_seed")
	name := kernel.StreamOf("shuffle_batch", b.Op().Out("Out"))
	width := int(x.Dims()[len(x.Dims())-1])
	rows := x.Len() / max(width, 1)
	if index == nil {
		index = b.Scratch(tensor.Int64, rows)
	}
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		var u [1]float64
		order := index.Int64s()
		for i := range order { // Fisher and Yates, from the front
			kernel.UniformFill(u[:], seed.Int64s()[0]+key, opkit.StreamAt(name, step), uint64(i), 0, 1)
			j := int(u[0] * float64(i+1))
			order[i] = order[j]
			order[j] = int64(i)
		}
		if to != nil {
			for i, place := range order {
				copy(tensor.Data[T](to)[int(place)*width:][:width], tensor.Data[T](x)[i*width:])
			}
		}
		if next != nil {
			next.Int64s()[0] = seed.Int64s()[0]
		}
		return nil
	}})
}

func bindShuffleGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, index, dx := b.In("Out@GRAD"), b.In("ShuffleIdx"), b.Out("X@GRAD")
	width := int(dx.Dims()[len(dx.Dims())-1])
	return b.Loops(ops.Loop{N: index.Len(), Apart: true, Run: func(_, from, till int) error {
		for i := from; i < till; i++ {
			place := index.Int64s()[i]
			if place < 0 || place >= int64(index.Len()) {
				return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("ShuffleIdx")), fault.Gotf("row %d", place), fault.Wantf("0 to %d", index.Len()-1))
			}
			copy(tensor.Data[T](dx)[i*width:][:width], tensor.Data[T](dout)[int(place)*width:])
		}
		return nil
	}})
}
