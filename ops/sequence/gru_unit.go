package sequence

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "gru_unit",
		Doc:  "Does one step of a gated recurrent unit, for every row by itself. " + gruDoc + " h' is HiddenPrev.",
		Inputs: []ops.Slot{
			{Name: "Input", Doc: "float [rows, 3D]"},
			{Name: "HiddenPrev", Doc: "[rows, D]"},
			{Name: "Weight", Doc: "[D, 3D]: [D, 2D] of u and r, followed by [D, D] of c"},
			{Name: "Bias", Doc: "[1, 3D]; zeros when absent", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "Gate", Doc: "[rows, 3D]: u, r and c", Intermediate: true},
			{Name: "ResetHiddenPrev", Doc: "[rows, D]: r.h'", Intermediate: true},
			{Name: "Hidden", Doc: "[rows, D]"}},
		Attrs: []ops.Attr{
			numberedActivation("activation", "function of the candidate", 2),
			numberedActivation("gate_activation", "function of the gates", 1),
			{Name: "origin_mode", Doc: "whether the update gate keeps h', as in the paper, and not c", Default: false}},
		Infer:     inferGRUUnit,
		Cost:      gruCost(2),
		MixesRows: opkit.RowsOnlyIn("Input", "HiddenPrev"),
		Bind:      opkit.BindFloats("Input", bindGRUUnit[float32], bindGRUUnit[float64]),
		InPlace:   map[string]string{"Gate": "Input"},
	}, opkit.Gradient{
		Doc:     "dWeight is transpose(h')*dInput for u and r and transpose(r.h')*dInput for c, dBias is the sum of dInput over rows.",
		Inputs:  []string{"HiddenPrev", "Weight", "Bias"},
		Outputs: []string{"Gate", "ResetHiddenPrev"},
		From:    []string{"Hidden"},
		Wrt:     []string{"Input", "HiddenPrev", "Weight", "Bias"},
		StandIn: map[string]string{"Input": "Gate"},
		Cost:    gruCost(4),
		Bind:    opkit.BindFloats("Gate", bindGRUUnitGrad[float32], bindGRUUnitGrad[float64]),
	})
}

// unitActivations are the functions of gru_unit by the number that Fluid gives them.
var unitActivations = []string{"identity", "sigmoid", "tanh", "relu"}

func numberedActivation(name, doc string, byDefault int32) ops.Attr {
	return ops.Attr{Name: name, Doc: doc + ": identity 0, sigmoid 1, tanh 2 or relu 3", Default: byDefault, Check: func(op *program.Op) error {
		if value, _ := op.Int(name); value < 0 || value >= int64(len(unitActivations)) {
			return fault.New(fault.InvalidArgument, "0 to 3: identity, sigmoid, tanh or relu")
		}
		return nil
	}}
}

func inferGRUUnit(s *ops.Shapes) error {
	width, err := checkGRU(s)
	if err != nil {
		return err
	}
	x := s.In("Input")
	if !ops.Compatible(s.In("HiddenPrev").Dims, []int64{x.Dims[0], width}) {
		return s.Errorf("HiddenPrev", "dims [%d, %d]", x.Dims[0], width)
	}
	s.Like("Gate", "Input")
	for _, slot := range []string{"ResetHiddenPrev", "Hidden"} {
		s.Set(slot, x.DType, x.Dims[0], width)
		s.ShareLoD(slot, "Input")
	}
	return nil
}

// leastUnitRows is how many rows of gru_unit are worth a goroutine.
const leastUnitRows = 8

func bindGRUUnit[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	w, x, before := newGRUWeights[T](b, unitActivations[b.Int("gate_activation")], unitActivations[b.Int("activation")]), b.In("Input"), b.In("HiddenPrev")
	rows, d := int(x.Dims()[0]), w.width
	gates, reset, hidden := orScratch[T](b, "Gate", rows*3*d), orScratch[T](b, "ResetHiddenPrev", rows*d), orScratch[T](b, "Hidden", rows*d)
	sums, each := b.Scratch(tensor.Of[T](), rows*2*d), w.workspace(rows)
	work := b.Scratch(tensor.Of[T](), b.Parts()*each)
	return b.Loops(w.pack(false), ops.Loop{N: rows, Least: leastUnitRows, Whole: []string{"Weight", "Bias"}, Apart: true, Run: func(part, from, to int) error {
		work, bias, n := ops.Part(tensor.Data[T](work), part, each), opkit.Data[T](w.bias), to-from
		sums, h := tensor.Data[T](sums)[from*2*d:to*2*d], tensor.Data[T](before)[from*d:to*d]
		kernel.GemmPacked(n, 2*d, d, 1, h, d, tensor.Data[T](w.gates), 0, sums, 2*d, work)
		for i := range n {
			w.cell.Gates(row(tensor.Data[T](gates), from+i, 3*d), row(tensor.Data[T](reset), from+i, d), row(h, i, d), row(tensor.Data[T](x), from+i, 3*d),
				bias, row(sums, i, 2*d))
		}
		kernel.GemmPacked(n, d, d, 1, tensor.Data[T](reset)[from*d:], d, tensor.Data[T](w.candidate), 0, sums, d, work)
		for i := range n {
			w.cell.Hidden(row(tensor.Data[T](gates), from+i, 3*d), row(tensor.Data[T](hidden), from+i, d), row(h, i, d), row(tensor.Data[T](x), from+i, 3*d),
				bias, row(sums, i, d))
		}
		return nil
	}})
}

func bindGRUUnitGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	w, gates, before := newGRUWeights[T](b, unitActivations[b.Int("gate_activation")], unitActivations[b.Int("activation")]), b.In("Gate"), b.In("HiddenPrev")
	rows, d, of := int(gates.Dims()[0]), w.width, tensor.Of[T]()
	reset, dhidden, dweight, dbias := b.In("ResetHiddenPrev"), b.In("Hidden@GRAD"), b.Out("Weight@GRAD"), b.Out("Bias@GRAD")
	dinput, dbefore := orScratch[T](b, "Input@GRAD", rows*3*d), orScratch[T](b, "HiddenPrev@GRAD", rows*d)
	dreset, each := b.Scratch(of, rows*d), max(w.workspace(rows), kernel.GemmWorkspace(d, 2*d, rows))+d
	work := b.Scratch(of, b.Parts()*each)
	loops := []ops.Loop{w.pack(true), {N: rows, Least: leastUnitRows, Whole: []string{"Weight", "Bias"}, Apart: true, Run: func(part, from, to int) error {
		work, n := ops.Part(tensor.Data[T](work), part, each), to-from
		dgates, carried := tensor.Data[T](dinput)[from*3*d:to*3*d], tensor.Data[T](dbefore)[from*d:to*d]
		g, h, dr := tensor.Data[T](gates)[from*3*d:], tensor.Data[T](before)[from*d:], tensor.Data[T](dreset)[from*d:to*d]
		for i := range n {
			w.cell.BackwardCandidate(row(dgates, i, 3*d), row(carried, i, d), row(tensor.Data[T](dhidden), from+i, d), row(g, i, 3*d), row(h, i, d), work)
		}
		kernel.GemmPacked(n, d, d, 1, dgates[2*d:], 3*d, tensor.Data[T](w.candidate), 0, dr, d, work[d:])
		for i := range n {
			w.cell.BackwardGates(row(dgates, i, 3*d), row(carried, i, d), row(dr, i, d), row(g, i, 3*d), row(h, i, d))
		}
		kernel.GemmPacked(n, d, 2*d, 1, dgates, 3*d, tensor.Data[T](w.gates), 1, carried, d, work[d:])
		return nil
	}}}
	if dweight != nil {
		loops = append(loops, ops.Loop{N: d, Least: leastSequences, Reads: []string{"HiddenPrev", "ResetHiddenPrev"}, Apart: true, Run: func(part, from, to int) error {
			work, dinput, dweight := ops.Part(tensor.Data[T](work), part, each), tensor.Data[T](dinput), tensor.Data[T](dweight)
			kernel.Gemm(true, false, to-from, 2*d, rows, 1, tail(tensor.Data[T](before), from), d, dinput, 3*d, 0, dweight[from*2*d:], 2*d, work)
			kernel.Gemm(true, false, to-from, d, rows, 1, tail(tensor.Data[T](reset), from), d, tail(dinput, 2*d), 3*d, 0, dweight[2*d*d+from*d:], d, work)
			return nil
		}})
	}
	if dbias != nil {
		loops = append(loops, ops.Loop{N: 1, Reads: []string{}, Apart: true, Run: func(int, int, int) error {
			kernel.AddGrad(nil, tensor.Data[T](dbias), nil, nil, nil, tensor.Data[T](dinput), rows, 3*d, 1)
			return nil
		}})
	}
	return b.Loops(loops...)
}
