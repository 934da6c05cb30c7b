package sequence

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "lstmp",
		Doc: "Runs long short-term memory with a projection (Sak et al. 2014) over sequences whose elements are projected already. It is lstm, but for what a step " +
			"hands to the next: with hidden = o*cell(Cell), [D], that is Projection = proj(hidden*ProjWeight), [P]. Weight has P rows for it. With cell_clip above 0, " +
			"Cell is limited to [-cell_clip, cell_clip] before o and cell read it, and with proj_clip above 0 so is Projection, after the function. " +
			"As in Fluid, proj is the function that cell_activation names, or none if proj_activation is identity.",
		Inputs: []ops.Slot{
			{Name: "Input", Doc: "float [rows, 4D], sequences of one LoD level"},
			{Name: "H0", Doc: "[sequences, P], the projection before the first step; zeros when absent", Dispensable: true},
			{Name: "C0", Doc: "[sequences, D], beside H0", Dispensable: true},
			{Name: "Weight", Doc: "[P, 4D]: the columns of c, i, f and o"},
			{Name: "ProjWeight", Doc: "[D, P]"},
			{Name: "Bias", Doc: "[1, 4D], or with use_peepholes [1, 7D]"}},
		Outputs: []ops.Slot{
			{Name: "Projection", Doc: "[rows, P], sequences as in Input"},
			{Name: "Cell", Doc: "[rows, D], sequences as in Input"},
			{Name: "BatchGate", Doc: "[rows, 4D]: candidate, i, f and o. The rows stand as in Input, where Fluid sorts them by step", Intermediate: true},
			{Name: "BatchCellPreAct", Doc: "[rows, D]: cell(Cell)", Intermediate: true},
			{Name: "BatchHidden", Doc: "[rows, D]: hidden", Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "use_peepholes", Doc: "whether gates see the cell", Default: true},
			{Name: "is_reverse", Doc: "whether a sequence is read from its last row to its first", Default: false},
			{Name: "cell_clip", Doc: "bound of Cell; 0 for none", Default: float32(0)},
			{Name: "proj_clip", Doc: "bound of Projection; 0 for none", Default: float32(0)},
			activation("gate_activation", "function of the gates", "sigmoid"),
			activation("cell_activation", "function of the cell that goes into hidden, and of the projection", "tanh"),
			activation("candidate_activation", "function of the candidate", "tanh"),
			activation("proj_activation", "whether the projection has a function, which any but identity says", "tanh")},
		Infer:     inferLSTMP,
		Cost:      lstmCost(2),
		MixesRows: opkit.RowsOnlyIn("Input", "H0", "C0"),
		Bind:      opkit.BindFloats("Input", bindLSTMP[float32], bindLSTMP[float64]),
		InPlace:   map[string]string{"BatchGate": "Input"},
	}, opkit.Gradient{
		Doc: "the steps from the last to the first. A clipped element has the gradient 0. dProjWeight is transpose(hidden)*dProjection before the function; the " +
			"others are as for lstm.",
		Inputs:  []string{"H0", "C0", "Weight", "ProjWeight", "Bias"},
		Outputs: []string{"Projection", "Cell", "BatchGate", "BatchCellPreAct", "BatchHidden"},
		Wrt:     []string{"Input", "H0", "C0", "Weight", "ProjWeight", "Bias"},
		StandIn: map[string]string{"Input": "BatchGate"},
		Cost:    lstmCost(4),
		Bind:    opkit.BindFloats("BatchGate", bindLSTMPGrad[float32], bindLSTMPGrad[float64]),
		InPlace: map[string]string{"Input@GRAD": "BatchGate"},
	})
}

func inferLSTMP(s *ops.Shapes) error {
	for _, slot := range []string{"Weight", "ProjWeight"} {
		if err := s.Rank(slot, 2); err != nil {
			return err
		}
	}
	width, fed := s.In("ProjWeight").Dims[0], s.In("Weight").Dims[0]
	if !opkit.Agree(s.In("ProjWeight").Dims[1], fed) {
		return s.Errorf("ProjWeight", "%d columns, as Weight has rows", fed)
	}
	if err := inferCells(s, width, fed, "Cell", "BatchCellPreAct", "BatchHidden"); err != nil {
		return err
	}
	s.Set("Projection", s.In("Input").DType, s.In("Input").Dims[0], fed)
	s.ShareLoD("Projection", "Input")
	return nil
}

// A projection is what lstmp does to the hidden values of a step.
type projection[T tensor.Float] struct {
	weight   *tensor.Tensor // ProjWeight
	packed   *tensor.Tensor // it, or its transpose, as kernel.GemmPacked reads it
	width    int            // D
	columns  int            // P
	function *kernel.Activation[T]
	clip     T // 0 for no bound

	hidden *tensor.Tensor // [sequences, D+gap]: hidden values of a step, sequences sorted; for the gradient theirs, [sequences, D]
	output *tensor.Tensor // Projection

	dsums    *tensor.Tensor // [rows, P]: the gradient of hidden*ProjWeight
	dproduct *tensor.Tensor // [sequences, P]: that of a step, sequences sorted
}

// newProjection prepares the projection of a network.
func newProjection[T tensor.Float](b *ops.Binding, n *network[T], output *tensor.Tensor) *projection[T] {
	weight := b.In("ProjWeight")
	p := &projection[T]{weight: weight, packed: b.Scratch(tensor.Of[T](), weight.Len()), width: n.width, columns: n.fed, output: output,
		hidden: b.Scratch(tensor.Of[T](), n.n*(n.width+gap)), clip: bound[T](b, "proj_clip")}
	if b.Str("proj_activation") != "identity" {
		p.function = &n.cell.Cell
	}
	n.cell.Clip = bound[T](b, "cell_clip")
	return p
}

// bound reads a bound of values, 0 for none.
func bound[T tensor.Float](b *ops.Binding, attr string) T {
	if v := b.Float(attr); v > 0 {
		return T(v)
	}
	return 0
}

func bindLSTMP[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	n := newNetwork[T](b, batchIn(b, "Input"))
	n.projection = newProjection(b, n, orScratch[T](b, "Projection", int(n.value.Dims()[0])*n.fed))
	return bindNetwork(b, n, "BatchHidden")
}

// step computes the rows of a step from the hidden values of the sequences that have it, which lie far apart. It leaves them in state, too.
func (p *projection[T]) step(s *steps, step int, order []int, hidden []T, far int, state []T, apart int, work []T) {
	kernel.GemmPacked(len(order), p.columns, p.width, 1, hidden, far, tensor.Data[T](p.packed), 0, state, apart, work)
	for j, sequence := range order {
		values, out := state[j*apart:][:p.columns], row(tensor.Data[T](p.output), s.row(sequence, step), p.columns)
		if p.function != nil {
			p.function.Func(values, values)
		}
		if p.clip > 0 {
			kernel.Clip(values, values, -p.clip, p.clip)
		}
		copy(out, values)
	}
}

// bindLSTMPGrad binds the gradient of a network with a projection.
func bindLSTMPGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	n := newNetwork[T](b, batchIn(b, "BatchGate"))
	p, hidden, rows := newProjection(b, n, b.In("Projection")), b.In("BatchHidden"), int(n.value.Dims()[0])
	n.projection = p
	p.dproduct, p.dsums = b.Scratch(tensor.Of[T](), n.n*n.fed), b.Scratch(tensor.Of[T](), rows*n.fed)
	k := newBackward(b, n, "Projection")
	loops := k.loops(b)
	if dprojection := b.Out("ProjWeight@GRAD"); dprojection != nil {
		loops = append(loops, ops.Loop{N: n.width, Least: leastSequences, Reads: []string{"BatchHidden"}, Apart: true, Run: func(part, from, to int) error {
			work := ops.Part(tensor.Data[T](k.work), part, k.workspace+2*k.width)
			kernel.Gemm(true, false, to-from, n.fed, rows, 1, tail(tensor.Data[T](hidden), from), n.width, tensor.Data[T](p.dsums), n.fed, 0,
				tensor.Data[T](dprojection)[from*n.fed:], n.fed, work)
			return nil
		}})
	}
	return b.Loops(loops...)
}

// stepGrad returns the gradient of the hidden values of a step, [sequences, D], from that of what they hand on, of sequences from first on. Rows of both are those
// of order.
func (p *projection[T]) stepGrad(s *steps, step int, order []int, carried []T, first int, work []T) []T {
	hidden, dproduct := tensor.Data[T](p.hidden)[first*p.width:], tensor.Data[T](p.dproduct)[first*p.columns:]
	for j, sequence := range order {
		at := s.row(sequence, step)
		out, d := row(tensor.Data[T](p.output), at, p.columns), row(dproduct, j, p.columns)
		copy(d, row(carried, j, p.columns))
		if p.clip > 0 {
			kernel.ClipGrad(d, out, d, -p.clip, p.clip)
		}
		if p.function != nil {
			p.function.Grad(d, nil, out, d)
		}
		copy(row(tensor.Data[T](p.dsums), at, p.columns), d)
	}
	kernel.GemmPacked(len(order), p.width, p.columns, 1, dproduct, p.columns, tensor.Data[T](p.packed), 0, hidden, p.width, work)
	return hidden
}
