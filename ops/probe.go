package ops

import (
	"fmt"
	"math/rand/v2"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// draws is how many ops probeLoD draws at most, enough how many accepted ones with a LoD and how many without it decide.
const draws, enough = 8000, 8

// probeLoD says what an op makes of the LoD of its inputs: "needs" where it refuses inputs without one, "keeps" where an output can have one, else
// "drops". It is "-" where the op computes nothing of inputs, or where no op that it drew was accepted. It draws inputs and looks at what inference makes
// of them. Every run draws the same.
func probeLoD(d *Def) string {
	if d.Class != Compute && d.Class != Random || len(d.Inputs) == 0 {
		return "-"
	}
	p := prober{rand.New(rand.NewPCG(2018, 11))}
	var with, without, kept int
	for i := 0; i < draws && (with < enough || without < enough); i++ {
		sequences := i%2 == 0
		if sequences && with >= enough || !sequences && without >= enough {
			continue
		}
		op, metas := p.op(d, sequences)
		s, err := Infer(op, func(name string) (Meta, bool) { m, ok := metas[name]; return m, ok })
		if err != nil {
			continue
		}
		if !sequences {
			without++
			continue
		}
		with++
		for slot := range op.Outputs {
			for _, m := range s.Outs(slot) {
				if m.LoDLevel > 0 {
					kept++
				}
			}
		}
	}
	switch {
	case with == 0:
		return "-"
	case without == 0 && kept > 0:
		return "needs, keeps"
	case without == 0:
		return "needs"
	case kept > 0:
		return "keeps"
	}
	return "drops"
}

// A prober draws ops.
type prober struct{ *rand.Rand }

// among draws one of its arguments.
func among[T any](p prober, from ...T) T { return from[p.IntN(len(from))] }

// op draws an op and the types of its inputs, most of which have one type and the same dims, as most ops want it.
func (p prober) op(d *Def, sequences bool) (*program.Op, map[string]Meta) {
	op := &program.Op{Type: d.Type, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: map[string]program.Attr{}}
	metas := map[string]Meta{}
	common, second := p.dims(), p.dims()
	for i, slot := range d.Inputs {
		if slot.Dispensable && p.IntN(4) > 0 {
			continue
		}
		m := Meta{Kind: program.LoDTensor, DType: p.dtype(), Dims: common}
		switch p.IntN(8) {
		case 0, 1, 2:
			m.Dims = second
		case 3:
			m.Dims = p.dims()
		}
		if sequences && (i == 0 || p.IntN(2) == 0) {
			m.LoDLevel = 1 + p.IntN(2)
			m.Sequences = []int64{2, 2}[:m.LoDLevel]
		}
		for j := range 1 + p.IntN(2) {
			if j > 0 && !slot.Duplicable {
				break
			}
			name := fmt.Sprint(slot.Name, j)
			op.Inputs[slot.Name] = append(op.Inputs[slot.Name], name)
			metas[name] = m
		}
	}
	for _, slot := range d.Outputs {
		op.Outputs[slot.Name] = []string{"out " + slot.Name}
		if slot.Duplicable && p.IntN(2) == 0 {
			op.Outputs[slot.Name] = append(op.Outputs[slot.Name], "out2 "+slot.Name)
		}
	}
	for _, a := range d.Attrs {
		if a.Default == nil || p.IntN(4) == 0 {
			p.attr(op, a)
		}
	}
	return op, metas
}

// attr draws a value for an attribute of numbers, and for required ones.
func (p prober) attr(op *program.Op, a Attr) {
	switch v := a.zero().(type) {
	case int32, int64:
		op.SetAttr(a.Name, p.Int64N(5))
	case []int32, []int64:
		list := make([]int64, 1+p.IntN(4))
		first := p.Int64N(3)
		for i := range list {
			list[i] = (first + int64(i)*p.Int64N(2))
		}
		op.SetAttr(a.Name, list)
	case float32, float64:
		if a.Default == nil {
			op.SetAttr(a.Name, 0.5)
		}
	case string:
		if a.Default == nil {
			op.SetAttr(a.Name, among(p, "", "max", "all"))
		}
	default:
		if a.Default == nil {
			op.SetAttr(a.Name, v)
		}
	}
}

func (p prober) dtype() tensor.DType {
	return among(p, tensor.Float32, tensor.Float32, tensor.Float32, tensor.Int64, tensor.Int64, tensor.Int32, tensor.Bool)
}

// dims draws small dims, those of matrices with one column or with equal extents more often than others.
func (p prober) dims() []int64 {
	return among(p, []int64{4, 4}, []int64{4, 1}, []int64{4, 12}, []int64{4, 16}, []int64{12, 4}, []int64{1, 4}, []int64{1, 28}, []int64{1}, []int64{4},
		[]int64{4, 4, 4, 4}, []int64{4, 4, 4}, []int64{4, 4, 4, 4, 4}, []int64{4, 12, 1, 4})
}
