package executor_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// controlled is a program with the ops of control flow: loops, branches, steps, halves, arrays and rank tables, and their gradients.
func controlled(t *testing.T) (p *program.Program, feed executor.Feed, fetch string) {
	t.Helper()
	m := layers.NewModel().Seed(1)
	x, words := layers.Data(m, "x", layers.Dims(4)), layers.Data(m, "words", layers.Dims(2), layers.LoD(1))
	rnn := layers.NewStaticRNN(m)
	rows := layers.Transpose(layers.Reshape(x, []int64{-1, 2, 2}), []int{1, 0, 2})
	rnn.Block(func() {
		now, before := rnn.StepInput(rows), rnn.Memory([]int64{2}, 0)
		next := layers.FCs([]layers.Variable{now, before}, 2, layers.Act("tanh"))
		rnn.UpdateMemory(before, next)
		rnn.Output(next)
	})
	first := layers.Slice(x, []int{1}, []int64{0}, []int64{1})
	ie := layers.NewIfElse(layers.GreaterThan(first, layers.FillLike(first, 0)))
	ie.True(func() { ie.Output(layers.FC(ie.Input(x), 2)) })
	ie.False(func() { ie.Output(layers.Scale(layers.FC(ie.Input(x), 2), 2, 0)) })
	dynamic := layers.NewDynamicRNN(m)
	dynamic.Block(func() {
		now, before := dynamic.StepInput(words), dynamic.Memory([]int64{2}, 0)
		next := layers.Add(now, before)
		dynamic.UpdateMemory(before, next)
		dynamic.Output(next)
	})
	branch := func() []layers.Variable { return []layers.Variable{layers.FC(x, 2)} }
	either := layers.Cond(layers.LessThan(layers.Counter(m, 1), layers.Counter(m, 2)), branch, branch)[0]
	array := layers.ArrayWrite(either, layers.Counter(m, 0), layers.CreateArray(m))
	joined, _ := layers.TensorArrayToTensor(array, 0, false)
	chosen := layers.MaskedSelect(either, layers.GreaterThan(either, layers.FillLike(either, -100)))
	loss := layers.Sums([]layers.Variable{layers.Mean(rnn.Result()), layers.Mean(ie.Result()), layers.Mean(dynamic.Result()), layers.Mean(joined), layers.Mean(chosen)})
	optimizer.SGD(0.1).Minimize(loss)
	p = finished(t, m)
	feed = executor.Feed{}
	feed["x"], _ = tensor.FromSlice([]float32{1, 2, 3, 4, -5, 6, 7, 8, 9, 1, 2, 3}, 3, 4)
	feed["words"], _ = tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	feed["words"].SetLoD([][]int64{{0, 2, 3}})
	return p, feed, loss.Name()
}

// Whatever stands in the slots and attributes of an op of control flow, the program is refused, or it runs: nothing panics, and memory stays bounded.
func TestHostileControlFlow(t *testing.T) {
	p, feed, fetch := controlled(t)
	run := func(q *program.Program) error {
		exe := executor.New(executor.WithMemory(64 << 20))
		defer exe.Close()
		_, err := exe.Run(t.Context(), q, feed, fetch)
		return err
	}
	if err := run(p); err != nil {
		t.Fatal(err)
	}
	tried, refused := 0, 0
	try := func(what string, change func(q *program.Program)) {
		q := p.Clone()
		change(q)
		err := run(q)
		tried++
		if err != nil {
			refused++
		}
		if errors.Is(err, fault.Internal) {
			t.Errorf("%s: %v", what, err)
		}
	}
	names := map[program.VarKind]string{}
	for _, v := range p.Global().Vars() {
		names[v.Kind] = v.Name
	}
	drawn := map[string]bool{}
	for b, block := range p.Blocks {
		for i, op := range block.Ops {
			def, _ := ops.Lookup(op.Type)
			if def.Class != ops.Control {
				continue
			}
			drawn[op.Type] = true
			where := fmt.Sprintf("block %d, op %d (%s)", b, i, op.Type)
			if len(op.SubBlocks()) > 0 {
				for _, index := range []int{-1, 0, b, len(p.Blocks), 1 << 30, (b + 1) % len(p.Blocks)} {
					try(fmt.Sprint(where, ": sub_block ", index), func(q *program.Program) { q.Blocks[b].Ops[i].SetAttr("sub_block", program.BlockIndex(index)) })
				}
			}
			for _, list := range []string{"ex_states", "states", "original_output_grad"} {
				if before, ok := op.Strs(list); ok {
					for _, other := range [][]string{{}, {"nobody"}, append([]string{"x"}, before...), {fetch}} {
						try(where+": "+list, func(q *program.Program) { q.Blocks[b].Ops[i].SetAttr(list, other) })
					}
				}
			}
			for name := range op.Attrs {
				if _, ok := op.Int(name); ok && name != program.AttrRole {
					for _, n := range []int32{-1, 1, 1 << 30, -1 << 31} {
						try(fmt.Sprint(where, ": ", name, " ", n), func(q *program.Program) { q.Blocks[b].Ops[i].SetAttr(name, n) })
					}
				}
			}
			if testing.Short() && (b+i)%3 != 0 {
				continue
			}
			for _, slots := range []func(*program.Op) map[string][]string{func(op *program.Op) map[string][]string { return op.Inputs }, func(op *program.Op) map[string][]string { return op.Outputs }} {
				for slot := range slots(op) {
					for _, kind := range []program.VarKind{program.LoDTensor, program.LoDTensorArray, program.LoDRankTable, program.StepScopes} {
						try(fmt.Sprint(where, ": ", slot, " is a ", kind), func(q *program.Program) { slots(q.Blocks[b].Ops[i])[slot] = []string{names[kind]} })
					}
					try(where+": an empty name in "+slot, func(q *program.Program) { slots(q.Blocks[b].Ops[i])[slot] = []string{program.Empty} })
					try(where+": without "+slot, func(q *program.Program) { delete(slots(q.Blocks[b].Ops[i]), slot) })
				}
			}
		}
	}
	for _, def := range ops.All() {
		if def.Class == ops.Control && !drawn[def.Type] {
			seed := gradcheck.SeedOf(def)
			for _, kind := range []program.VarKind{program.LoDTensor, program.LoDTensorArray, program.LoDRankTable, program.StepScopes} {
				try(fmt.Sprint(def.Type, " of ", kind), func(q *program.Program) {
					for _, name := range slices.Concat(seed.Op.InputNames(), seed.Op.OutputNames()) {
						if meta := seed.Metas[name]; kind == program.LoDTensor {
							q.Global().EnsureVar(program.Var{Name: name, Kind: kind, DType: meta.DType, Dims: meta.Dims})
						} else {
							q.Global().EnsureVar(program.Var{Name: name, Kind: kind, DType: meta.DType})
						}
					}
					op := seed.Op.Clone()
					for _, out := range op.Outputs { // so that it runs
						out[0] = fetch
					}
					q.Global().Append(op)
				})
			}
		}
	}
	if tried < 100 || refused < tried/2 {
		t.Errorf("%d changes, of which %d were refused", tried, refused)
	}
}
