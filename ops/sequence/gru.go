package sequence

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

const gruDoc = "With x the row of Input, h' Hidden of the step before, and the parts u, r and c of D elements each: u = gate(x_u + h'*W_u + b_u), " +
	"r = gate(x_r + h'*W_r + b_r), c = act(x_c + (r.h')*W_c + b_c), Hidden = (1-u).h' + u.c, or with origin_mode u.h' + (1-u).c. The memory of Weight " +
	"holds [W_u W_r], [D, 2D], and then W_c, [D, D]."

func init() {
	opkit.Register(ops.Def{
		Type: "gru",
		Doc:  "Runs a gated recurrent unit over sequences whose elements are projected already. " + gruDoc + " h' is H0, or zeros, at the first step.",
		Inputs: []ops.Slot{
			{Name: "Input", Doc: "float [rows, 3D], sequences of one LoD level"},
			{Name: "H0", Doc: "[sequences, D]; zeros when absent", Dispensable: true},
			{Name: "Weight", Doc: "[D, 3D]: [D, 2D] of u and r, followed by [D, D] of c"},
			{Name: "Bias", Doc: "[1, 3D]; zeros when absent", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "BatchGate", Doc: "[rows, 3D]: u, r and c. The rows stand as in Input, where Fluid sorts them by step", Intermediate: true},
			{Name: "BatchResetHiddenPrev", Doc: "[rows, D]: r.h'", Intermediate: true},
			{Name: "BatchHidden", Doc: "[rows, D]: the values of Hidden", Intermediate: true, Dispensable: true},
			{Name: "Hidden", Doc: "[rows, D], sequences as in Input"}},
		Attrs: []ops.Attr{
			activation("activation", "function of the candidate", "tanh"),
			activation("gate_activation", "function of the gates", "sigmoid"),
			{Name: "is_reverse", Doc: "whether a sequence is read from its last row to its first", Default: false},
			{Name: "origin_mode", Doc: "whether the update gate keeps h', as in the paper, and not c", Default: false}},
		Infer:     inferGRU,
		Cost:      gruCost(2),
		MixesRows: opkit.RowsOnlyIn("Input", "H0"),
		Bind:      opkit.BindFloats("Input", bindGRU[float32], bindGRU[float64]),
		InPlace:   map[string]string{"BatchGate": "Input"},
	}, opkit.Gradient{
		Doc:     "the steps from the last to the first; dWeight is transpose(h')*dInput for u and r and transpose(r.h')*dInput for c, dBias is the sum of dInput.",
		Inputs:  []string{"H0", "Weight", "Bias"},
		Outputs: []string{"Hidden", "BatchGate", "BatchResetHiddenPrev"},
		From:    []string{"Hidden"},
		Wrt:     []string{"Input", "H0", "Weight", "Bias"},
		StandIn: map[string]string{"Input": "BatchGate"},
		Cost:    gruCost(4),
		Bind:    opkit.BindFloats("BatchGate", bindGRUGrad[float32], bindGRUGrad[float64]),
		InPlace: map[string]string{"Input@GRAD": "BatchGate"},
	})
}

func inferGRU(s *ops.Shapes) error {
	width, err := checkGRU(s)
	if err != nil {
		return err
	}
	sequences, err := s.CountSequences("Input")
	if err != nil {
		return err
	}
	x := s.In("Input")
	if x.LoDLevel != 1 {
		return s.Errorf("Input", "one LoD level, not %d", x.LoDLevel)
	}
	if s.Has("H0") && !ops.Compatible(s.In("H0").Dims, []int64{sequences, width}) {
		return s.Errorf("H0", "dims [%d, %d], a row for each sequence", sequences, width)
	}
	for _, slot := range []string{"BatchResetHiddenPrev", "BatchHidden", "Hidden"} {
		s.Set(slot, x.DType, x.Dims[0], width)
		s.ShareLoD(slot, "Input")
	}
	s.Like("BatchGate", "Input")
	return nil
}

// checkGRU checks Input, Weight and Bias of gru and gru_unit, and returns D.
func checkGRU(s *ops.Shapes) (int64, error) {
	for _, slot := range []string{"Input", "Weight", "Bias"} {
		if s.Has(slot) {
			if err := s.Rank(slot, 2); err != nil {
				return 0, err
			}
		}
	}
	if err := s.IsFloat("Input"); err != nil {
		return 0, err
	}
	if err := s.SameType("Input", "H0", "HiddenPrev", "Weight", "Bias"); err != nil {
		return 0, err
	}
	x, width := s.In("Input"), s.In("Weight").Dims[0]
	if width > math.MaxInt64/3 {
		return 0, s.Errorf("Weight", "a width whose products do not overflow")
	}
	gates := times(3, width)
	if !opkit.Agree(s.In("Weight").Dims[1], gates) || !opkit.Agree(x.Dims[1], gates) {
		return 0, s.Errorf("Weight", "dims [D, 3D] beside Input %v of 3D columns", x.Dims)
	}
	if s.Has("Bias") && !ops.Compatible(s.In("Bias").Dims, []int64{1, gates}) {
		return 0, s.Errorf("Bias", "dims [1, 3*%d]", width)
	}
	return width, nil
}

func gruCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		rows := append(s.Outs("Hidden"), s.Ins("Hidden@GRAD")...)[0].Dims[0]
		return ops.Cost{Flops: flops * opkit.Size([]int64{rows, opkit.Size(s.In("Weight").Dims)}), Bytes: opkit.Bytes(s)}
	}
}

// A gruWeights is Weight in the two parts that products read, packed once in a run.
type gruWeights[T tensor.Float] struct {
	width        int
	weight, bias *tensor.Tensor // bias may be nil
	gates        *tensor.Tensor // of u and r, or its transpose, as kernel.GemmPacked reads it
	candidate    *tensor.Tensor // of c
	cell         kernel.GRU[T]
}

func newGRUWeights[T tensor.Float](b *ops.Binding, gate, candidate string) *gruWeights[T] {
	weight := b.In("Weight")
	d := int(weight.Dims()[0])
	return &gruWeights[T]{width: d, weight: weight, bias: b.In("Bias"), gates: b.Scratch(tensor.Of[T](), 2*d*d),
		candidate: b.Scratch(tensor.Of[T](), d*d), cell: kernel.NewGRU[T](d, gate, candidate, b.Bool("origin_mode"))}
}

// pack is the loop that packs Weight, or the transpose of each of its parts.
func (w *gruWeights[T]) pack(transposed bool) ops.Loop {
	return ops.Loop{N: 1, Reads: []string{"Weight"}, Writes: []string{}, Apart: true, Run: func(int, int, int) error {
		d := w.width
		weight, columns, depth := tensor.Data[T](w.weight), 2*d, d
		if transposed {
			columns, depth = depth, columns
		}
		kernel.PackGemm(transposed, columns, depth, weight, 2*d, tensor.Data[T](w.gates))
		kernel.PackGemm(transposed, d, d, weight[2*d*d:], d, tensor.Data[T](w.candidate))
		return nil
	}}
}

// workspace returns how much memory the products of so many rows need.
func (w *gruWeights[T]) workspace(rows int) int {
	d := w.width
	return max(kernel.GemmPackedWorkspace(rows, 2*d, d), kernel.GemmPackedWorkspace(rows, d, 2*d), kernel.GemmPackedWorkspace(rows, d, d))
}

// A gruForward is a bound gru.
type gruForward[T tensor.Float] struct {
	batch
	*gruWeights[T]
	reverse                            bool
	h0                                 *tensor.Tensor // nil for zeros
	hidden, gates, reset, sortedHidden *tensor.Tensor // sortedHidden may be nil

	state  *tensor.Tensor // [sequences, D+gap]: Hidden of the previous step, sequences sorted
	resets *tensor.Tensor // [sequences, D+gap]: r.h'
	sums   *tensor.Tensor // [sequences, 2D]: their products with Weight
	work   *tensor.Tensor
	each   int // elements of work that each part has
	parts  []steps
}

func bindGRU[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	w, x := newGRUWeights[T](b, b.Str("gate_activation"), b.Str("activation")), batchIn(b, "Input")
	rows, far := int(x.value.Dims()[0]), x.n*(w.width+gap)
	f := &gruForward[T]{batch: x, gruWeights: w, reverse: b.Bool("is_reverse"), h0: b.In("H0"),
		hidden: orScratch[T](b, "Hidden", rows*w.width), gates: orScratch[T](b, "BatchGate", rows*3*w.width),
		reset: orScratch[T](b, "BatchResetHiddenPrev", rows*w.width), sortedHidden: b.Out("BatchHidden"),
		state: b.Scratch(tensor.Of[T](), far), resets: b.Scratch(tensor.Of[T](), far), sums: b.Scratch(tensor.Of[T](), x.n*2*w.width),
		each: w.workspace(x.n), parts: make([]steps, b.Parts())}
	f.work = b.Scratch(tensor.Of[T](), b.Parts()*f.each)
	return b.Loops(w.pack(false), ops.Loop{N: x.n, Least: leastSequences, Whole: []string{"Weight", "Bias"}, Apart: true, Run: f.run})
}

// run computes sequences [from, to).
func (f *gruForward[T]) run(part, from, to int) error {
	offsets, err := f.offsets()
	if err != nil {
		return err
	}
	s := &f.parts[part]
	s.arrange(offsets, f.reverse, from, to)
	d, far := f.width, f.width+gap
	work, bias := ops.Part(tensor.Data[T](f.work), part, f.each), opkit.Data[T](f.bias)
	state, resets := tensor.Data[T](f.state)[from*far:], tensor.Data[T](f.resets)[from*far:]
	sums := tensor.Data[T](f.sums)[from*2*d : to*2*d]
	if f.h0 != nil {
		for j, sequence := range s.order {
			copy(state[j*far:], row(tensor.Data[T](f.h0), sequence, d))
		}
	}
	for step, active := 0, len(s.order); step < s.longest(); step++ {
		active = s.active(step, active)
		begun := step > 0 || f.h0 != nil
		if begun {
			kernel.GemmPacked(active, 2*d, d, 1, state, far, tensor.Data[T](f.gruWeights.gates), 0, sums, 2*d, work)
		} else {
			clear(sums)
		}
		for j, sequence := range s.order[:active] {
			at := s.row(sequence, step)
			reset := row(tensor.Data[T](f.reset), at, d)
			f.cell.Gates(row(tensor.Data[T](f.gates), at, 3*d), reset, previous(state, j, far, d, begun), row(tensor.Data[T](f.value), at, 3*d), bias,
				row(sums, j, 2*d))
			copy(resets[j*far:], reset)
		}
		if begun {
			kernel.GemmPacked(active, d, d, 1, resets, far, tensor.Data[T](f.candidate), 0, sums, d, work)
		} else {
			clear(sums)
		}
		for j, sequence := range s.order[:active] {
			at := s.row(sequence, step)
			hidden := row(tensor.Data[T](f.hidden), at, d)
			f.cell.Hidden(row(tensor.Data[T](f.gates), at, 3*d), hidden, previous(state, j, far, d, begun), row(tensor.Data[T](f.value), at, 3*d), bias,
				row(sums, j, d))
			copy(state[j*far:], hidden)
		}
	}
	if f.sortedHidden != nil {
		first, end := int(offsets[from])*d, int(offsets[to])*d
		copy(tensor.Data[T](f.sortedHidden)[first:end], tensor.Data[T](f.hidden)[first:end])
	}
	return nil
}

// previous returns the row of a sequence in state, nil for zeros.
func previous[T any](state []T, j, far, width int, begun bool) []T {
	if !begun {
		return nil
	}
	return state[j*far:][:width]
}
