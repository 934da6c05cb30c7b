package executor_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A recurrence is a model whose gradients flow through blocks. build returns the loss, from feeds of these dims.
type recurrence struct {
	name  string
	feeds map[string][]int64
	build func(m *layers.Model, in map[string]layers.Variable) layers.Variable
	lod   map[string][]int64 // offsets of feeds whose rows form sequences
	open  bool               // the dims of feeds are declared open
}

// repeat runs body n times, with the number of the run.
func repeat(m *layers.Model, n int64, body func(i layers.Variable)) {
	i, limit := layers.Counter(m, 0), layers.Counter(m, n)
	more := layers.LessThan(i, limit)
	layers.While(more, func() {
		body(i)
		layers.Increment(i, 1)
		layers.AssignTo(more, layers.LessThan(i, limit))
	})
}

// greater compares the sum of x with a number.
func greater(m *layers.Model, x layers.Variable, than float64) layers.Variable {
	return layers.LessThan(layers.FillConstant(m, than, []int64{1}, layers.DType(tensor.Float64)), layers.Reshape(layers.ReduceSum(x), []int64{1}))
}

var recurrences = []recurrence{
	{name: "a state and a weight", feeds: map[string][]int64{"h": {2, 3}, "w": {3, 3}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		h := layers.Assign(in["h"])
		repeat(m, 4, func(layers.Variable) { layers.AssignTo(h, layers.Tanh(layers.MatMul(h, in["w"]))) })
		return layers.ReduceSum(layers.Square(h))
	}},
	{name: "segments", feeds: map[string][]int64{"x": {5, 2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		numbers, _ := tensor.FromSlice([]int64{0, 0, 1, 3, 3})
		ids := layers.AssignValue(m, numbers)
		var losses []layers.Variable
		for _, kind := range []string{"SUM", "MEAN", "MAX", "MIN"} {
			losses = append(losses, layers.ReduceSum(layers.Square(layers.SegmentPool(in["x"], ids, kind))))
		}
		return layers.Sums(losses)
	}},
	{name: "rows that a loop looks up", feeds: map[string][]int64{"w": {4, 2}, "h": {1, 2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		h := layers.Assign(in["h"])
		repeat(m, 3, func(i layers.Variable) {
			row := layers.OpInto(m, "lookup_table", layers.In{"W": {in["w"]}, "Ids": {layers.Reshape(i, []int64{1, 1})}}, layers.Attrs{"is_sparse": true}, layers.In{"Out": layers.NewVariables(m, "row", 1)}).All("Out")[0]
			layers.AssignTo(h, layers.Tanh(layers.Mul(h, row)))
		})
		return layers.ReduceSum(h)
	}},
	{name: "rows that a loop cuts out", feeds: map[string][]int64{"x": {5, 2}, "w": {2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		h := layers.Assign(in["w"])
		repeat(m, 3, func(i layers.Variable) {
			next := layers.Scale(i, 1, 1)
			row := layers.Op(m, "slice", layers.In{"Input": {in["x"]}, "StartsTensorList": {i}, "EndsTensorList": {next}},
				layers.Attrs{"axes": []int32{0}, "starts": []int32{-1}, "ends": []int32{-1}, "decrease_axis": []int32{0}}).One("Out")
			rest := layers.Op(m, "slice", layers.In{"Input": {in["x"]}, "StartsTensor": {next}}, layers.Attrs{"axes": []int32{0}, "starts": []int32{-1}, "ends": []int32{5}}).One("Out")
			layers.AssignTo(h, layers.Tanh(layers.Add(layers.Mul(h, row), layers.ReduceMean(layers.Square(rest), layers.Axes(0)))))
		})
		return layers.ReduceSum(h)
	}},
	{name: "numbers of elements that data decide", feeds: map[string][]int64{"x": {6}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		large := layers.GreaterThan(in["x"], layers.FillLike(in["x"], 0.1))
		k := layers.Reshape(layers.ReduceSum(layers.Cast(large, tensor.Int64)), []int64{1})
		best := layers.Op(m, "top_k_v2", layers.In{"X": {layers.Square(in["x"])}, "K": {k}}, nil).All("Out")[0]
		return layers.ReduceSum(layers.Tanh(best))
	}},
	{name: "arrays", feeds: map[string][]int64{"x": {3, 2}, "w": {2, 2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		items, results, states := layers.CreateArray(m, layers.DType(tensor.Float64)), layers.CreateArray(m, layers.DType(tensor.Float64)), layers.CreateArray(m, layers.DType(tensor.Float64))
		for i := range 3 {
			layers.ArrayWrite(layers.Slice(in["x"], []int{0}, []int64{int64(i)}, []int64{int64(i) + 1}), layers.Counter(m, int64(i)), items)
		}
		layers.ArrayWrite(layers.Scale(layers.Slice(in["x"], []int{0}, []int64{0}, []int64{1}), 0.5, 0), layers.Counter(m, 0), states)
		repeat(m, 3, func(i layers.Variable) {
			h := layers.Tanh(layers.Add(layers.MatMul(layers.ArrayRead(states, i), in["w"]), layers.ArrayRead(items, i)))
			layers.ArrayWrite(layers.Square(h), i, results)
			next := layers.Sums([]layers.Variable{i, layers.Counter(m, 1)})
			layers.ArrayWrite(h, next, states)
		})
		last := layers.ArrayRead(states, layers.Counter(m, 3))
		return layers.ReduceSum(layers.Mul(last, layers.Add(layers.ArrayRead(results, layers.Counter(m, 0)), layers.ArrayRead(results, layers.Counter(m, 2)))))
	}},
	{name: "a counter that changes before it is used again", feeds: map[string][]int64{"x": {1, 2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		items := layers.CreateArray(m, layers.DType(tensor.Float64))
		i, limit := layers.Counter(m, 0), layers.Counter(m, 3)
		layers.ArrayWrite(in["x"], i, items)
		more := layers.LessThan(i, limit)
		layers.While(more, func() {
			item := layers.Sin(layers.ArrayRead(items, i))
			layers.Increment(i, 1)
			layers.ArrayWrite(layers.Mul(item, in["x"]), i, items)
			layers.AssignTo(more, layers.LessThan(i, limit))
		})
		return layers.ReduceSum(layers.ArrayRead(items, i))
	}},
	{name: "a loop in a loop", feeds: map[string][]int64{"h": {1, 2}, "w": {2, 2}, "x": {3, 2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		h := layers.Assign(in["h"])
		items := layers.CreateArray(m, layers.DType(tensor.Float64))
		for i := range 3 {
			layers.ArrayWrite(layers.Slice(in["x"], []int{0}, []int64{int64(i)}, []int64{int64(i) + 1}), layers.Counter(m, int64(i)), items)
		}
		repeat(m, 3, func(i layers.Variable) {
			j := layers.Counter(m, 0)
			again := layers.LessThan(j, i) // 0, 1 and 2 runs
			layers.While(again, func() {
				layers.AssignTo(h, layers.Tanh(layers.Add(layers.MatMul(h, in["w"]), layers.ArrayRead(items, i))))
				layers.Increment(j, 1)
				layers.AssignTo(again, layers.LessThan(j, i))
			})
			layers.AssignTo(h, layers.Mul(h, layers.ArrayRead(items, i)))
		})
		return layers.ReduceSum(h)
	}},
	{name: "branches", feeds: map[string][]int64{"x": {1, 2}, "w": {2, 2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		y := layers.Assign(in["x"])
		layers.Switch(m,
			layers.SwitchCase{If: greater(m, in["x"], 100), Then: func() { layers.AssignTo(y, layers.MatMul(in["x"], in["w"])) }},
			layers.SwitchCase{If: greater(m, in["x"], -100), Then: func() { layers.AssignTo(y, layers.Tanh(layers.Mul(y, layers.MatMul(in["x"], in["w"])))) }},
			layers.SwitchCase{Then: func() { layers.AssignTo(y, layers.Square(in["x"])) }})
		return layers.ReduceSum(layers.Mul(y, in["x"]))
	}},
	{name: "a branch in a loop", feeds: map[string][]int64{"h": {1, 2}, "w": {2, 2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		h := layers.Assign(in["h"])
		repeat(m, 4, func(i layers.Variable) {
			layers.Switch(m,
				layers.SwitchCase{If: layers.Equal(i, layers.Counter(m, 2)), Then: func() { layers.AssignTo(h, layers.Tanh(layers.MatMul(h, in["w"]))) }},
				layers.SwitchCase{Then: func() { layers.AssignTo(h, layers.Sin(h)) }})
		})
		return layers.ReduceSum(layers.Mul(h, in["h"]))
	}},
	{name: "a loop that does not run", feeds: map[string][]int64{"h": {1, 2}, "w": {2, 2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		h := layers.Assign(in["h"])
		repeat(m, 0, func(layers.Variable) { layers.AssignTo(h, layers.Tanh(layers.MatMul(h, in["w"]))) })
		return layers.Add(layers.ReduceSum(layers.Square(h)), layers.ReduceSum(layers.Square(in["w"])))
	}},
	{name: "sequences step by step", feeds: map[string][]int64{"x": {9, 2}, "w": {2, 3}, "u": {3, 3}, "first": {4, 3}, "each": {4, 3}},
		build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
			rnn := layers.NewDynamicRNN(m)
			rnn.Block(func() {
				x := rnn.StepInput(in["x"])
				before, sum := rnn.InitialMemory(in["first"]), rnn.Memory([]int64{3}, 0.5, layers.DType(tensor.Float64))
				h := layers.Tanh(layers.Add(layers.MatMul(x, in["w"]), layers.MatMul(layers.Mul(before, rnn.StaticInput(in["each"])), in["u"])))
				rnn.UpdateMemory(before, h)
				rnn.UpdateMemory(sum, layers.Add(sum, layers.Square(h)))
				rnn.Output(layers.Mul(sum, h), before)
			})
			results := rnn.Results()
			return layers.ReduceSum(layers.Mul(results[0], layers.Sin(results[1])))
		}, lod: map[string][]int64{"x": {0, 2, 5, 5, 9}}},
	{name: "steps of one length", feeds: map[string][]int64{"x": {3, 2, 2}, "w": {2, 3}, "u": {3, 3}, "first": {2, 3}},
		build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable { return staticSteps(m, in) }},
	{name: "steps of one length, the last one first", feeds: map[string][]int64{"x": {3, 2, 2}, "w": {2, 3}, "u": {3, 3}, "first": {2, 3}},
		build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
			return staticSteps(m, in, layers.Reverse())
		}},
	{name: "steps in a loop, with a loop in them", feeds: map[string][]int64{"x": {2, 2, 2}, "w": {2, 2}, "h": {2, 2}},
		build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
			h := layers.Assign(in["h"])
			repeat(m, 2, func(layers.Variable) {
				rnn := layers.NewStaticRNN(m)
				rnn.Block(func() {
					before := rnn.InitialMemory(h)
					now := layers.Mul(rnn.StepInput(in["x"]), before)
					repeat(m, 2, func(layers.Variable) { layers.AssignTo(now, layers.Tanh(layers.MatMul(now, in["w"]))) })
					rnn.UpdateMemory(before, now)
					rnn.Output(now)
				})
				layers.AssignTo(h, layers.ReduceSum(rnn.Result(), layers.Axes(0)))
			})
			return layers.ReduceSum(layers.Square(h))
		}},
	{name: "layers after a choice of elements", feeds: map[string][]int64{"x": {3, 4}, "w": {1, 5}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		chosen := layers.MaskedSelect(in["x"], layers.GreaterThan(in["x"], layers.FillLike(in["x"], 0)))
		rows := layers.Tanh(layers.MatMul(layers.Reshape(chosen, []int64{-1, 1}), in["w"]))
		again := layers.MaskedSelect(rows, layers.LessThan(rows, layers.FillLike(rows, 0.2)))
		return layers.Add(layers.ReduceSum(layers.Square(again)), layers.Mean(rows))
	}},
	{name: "halves of a batch", feeds: map[string][]int64{"x": {5, 2}, "w": {2, 3}, "u": {2, 3}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		first := layers.Slice(in["x"], []int{1}, []int64{0}, []int64{1})
		ie := layers.NewIfElse(layers.GreaterThan(first, layers.FillLike(first, 0.1)))
		ie.True(func() {
			h := layers.Tanh(layers.MatMul(ie.Input(in["x"]), in["w"]))
			ie.Output(h, layers.Square(h))
		})
		ie.False(func() {
			x := ie.Input(in["x"])
			ie.Output(layers.MatMul(layers.Square(x), in["u"]), layers.FillLike(layers.MatMul(x, in["u"]), 2))
		})
		results := ie.Results()
		return layers.ReduceSum(layers.Mul(layers.Sin(results[0]), layers.Add(results[1], layers.MatMul(in["x"], in["u"]))))
	}},
	{name: "halves of sequences, one of which is empty", feeds: map[string][]int64{"x": {6, 2}, "w": {2, 2}}, lod: map[string][]int64{"x": {0, 2, 3, 6}},
		build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
			first := layers.ReduceSum(layers.SequencePool(in["x"], "first"), layers.Axes(1), layers.KeepDims())
			ie := layers.NewIfElse(layers.GreaterThan(first, layers.FillLike(first, -100)))
			ie.True(func() { ie.Output(layers.SequencePool(layers.Tanh(layers.MatMul(ie.Input(in["x"]), in["w"])), "sum")) })
			ie.False(func() { ie.Output(layers.SequencePool(ie.Input(in["x"]), "sum")) })
			return layers.ReduceSum(layers.Square(ie.Result()))
		}},
	{name: "results of branches", feeds: map[string][]int64{"x": {2, 2}, "w": {2, 2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		number := func(value int64) layers.Variable { return layers.Counter(m, value) }
		square := func() []layers.Variable { return []layers.Variable{layers.Square(in["x"]), layers.Sin(in["x"])} }
		product := func() []layers.Variable {
			return []layers.Variable{layers.MatMul(in["x"], in["w"]), layers.Square(in["w"])}
		}
		a := layers.Cond(greater(m, in["x"], 100), square, product)
		b := layers.SelectCase(number(7), []layers.IndexCase{{Index: 3, Then: square}, {Index: 7, Then: product}, {Index: 1, Then: square}}, nil)
		all := layers.Mul(layers.Add(a[0], a[1]), layers.Add(b[0], layers.Tanh(b[1])))
		return layers.ReduceSum(layers.WhileLoop(func(v []layers.Variable) layers.Variable { return layers.LessThan(v[0], number(3)) },
			func(v []layers.Variable) []layers.Variable {
				return []layers.Variable{layers.Sums([]layers.Variable{v[0], number(1)}), v[2], layers.Tanh(layers.MatMul(v[1], in["w"]))}
			}, []layers.Variable{number(0), all, in["x"]})[2])
	}},
	{name: "a result for one of two readers", feeds: map[string][]int64{"x": {2, 2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		for i, out := range layers.SelectOutput(layers.Square(in["x"]), layers.FillConstant(m, 1, []int64{1}, layers.DType(tensor.Int32)), 2) {
			if i == 1 {
				return layers.ReduceSum(layers.Mul(out, in["x"]))
			}
		}
		return layers.Variable{}
	}},
	{name: "items of an array, joined and stacked", feeds: map[string][]int64{"x": {2, 3}, "y": {2, 3}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		array := layers.CreateArray(m, layers.DType(tensor.Float64))
		for i, v := range []layers.Variable{layers.Sin(in["x"]), in["y"], layers.Mul(in["x"], in["y"])} {
			layers.ArrayWrite(v, layers.Counter(m, int64(i)), array)
		}
		joined, _ := layers.TensorArrayToTensor(array, 1, false)
		stacked, _ := layers.TensorArrayToTensor(array, -2, true)
		return layers.Add(layers.ReduceSum(layers.Square(joined)), layers.ReduceSum(layers.Tanh(stacked)))
	}},
	{name: "a variable that a loop makes wider", open: true, feeds: map[string][]int64{"h": {2, 3}, "w": {1, 1}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		words := layers.Tanh(in["h"])
		repeat(m, 3, func(layers.Variable) {
			next := layers.Tanh(layers.MatMul(layers.ReduceSum(words, layers.Axes(1), layers.KeepDims()), in["w"]))
			layers.AssignTo(words, layers.Concat([]layers.Variable{words, next}, 1))
		})
		return layers.ReduceSum(layers.Square(words))
	}},
	{name: "a variable that a loop makes longer", open: true, feeds: map[string][]int64{"h": {2, 3}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		words := layers.Tanh(in["h"])
		repeat(m, 2, func(layers.Variable) {
			layers.AssignTo(words, layers.Concat([]layers.Variable{words, layers.Sin(words)}, 0))
		})
		return layers.ReduceSum(layers.Square(words))
	}},
	{name: "a row that each run sets", feeds: map[string][]int64{"h": {3, 2}, "w": {2, 2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		table := layers.Scale(in["h"], 2, 0)
		repeat(m, 3, func(i layers.Variable) {
			row := layers.Tanh(layers.MatMul(layers.ReduceSum(table, layers.Axes(0), layers.KeepDims()), in["w"]))
			next := layers.Scale(i, 1, 1)
			out := layers.Op(m, "set_value", layers.In{"Input": {table}, "ValueTensor": {row}, "StartsTensorList": {i}, "EndsTensorList": {next}}, layers.Attrs{"axes": []int64{0}, "starts": []int64{0}, "ends": []int64{0}, "steps": []int64{1}, "dtype": int32(tensor.Float64)}).One("Out")
			layers.AssignTo(table, out)
		})
		return layers.ReduceSum(layers.Square(table))
	}},
	{name: "a column that each run sets to a number", feeds: map[string][]int64{"h": {3, 2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		table := layers.Scale(in["h"], 2, 0)
		repeat(m, 2, func(i layers.Variable) {
			layers.AssignTo(table, layers.SetValue(layers.Sin(table), layers.FillConstant(m, 0.5, []int64{1}, layers.DType(tensor.Float64)), []int{1}, []int64{0}, []int64{1}))
		})
		return layers.ReduceSum(layers.Square(table))
	}},
	{name: "what a block overwrites unread", feeds: map[string][]int64{"h": {1, 2}, "w": {2, 2}}, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable {
		h := layers.Sin(in["h"])
		repeat(m, 2, func(layers.Variable) { layers.AssignTo(h, layers.Tanh(layers.MatMul(in["h"], in["w"]))) })
		return layers.ReduceSum(h)
	}},
}

// staticSteps has a memory that an output shows too, one that only its next value reads, and a step that reads all of its input.
func staticSteps(m *layers.Model, in map[string]layers.Variable, opts ...layers.Option) layers.Variable {
	rnn := layers.NewStaticRNN(m, opts...)
	rnn.Block(func() {
		x := rnn.StepInput(in["x"])
		before, sum := rnn.InitialMemory(in["first"]), rnn.Memory([]int64{3}, 0.5, layers.DType(tensor.Float64))
		all := layers.ReduceSum(in["x"], layers.Axes(0))
		h := layers.Tanh(layers.Add(layers.MatMul(layers.Mul(x, all), in["w"]), layers.MatMul(before, in["u"])))
		rnn.UpdateMemory(before, h)
		rnn.UpdateMemory(sum, layers.Add(sum, layers.Square(h)))
		rnn.Output(layers.Mul(sum, h), before)
	})
	results := rnn.Results()
	return layers.ReduceSum(layers.Mul(results[0], layers.Sin(results[1])))
}

// trained is the model with the gradients of its feeds.
func (r recurrence) trained(t *testing.T, dtype tensor.DType) (p *program.Program, fetch []string) {
	t.Helper()
	m := layers.NewModel()
	in, names := map[string]layers.Variable{}, r.names()
	var wrt []layers.Variable
	for _, name := range names {
		if dims := slices.Repeat([]int64{program.Unknown}, len(r.feeds[name])); r.open {
			in[name] = layers.Data(m, name, layers.Dims(dims...), layers.NoBatchDim(), layers.DType(dtype))
		} else if r.lod[name] != nil {
			in[name] = layers.Data(m, name, layers.Dims(r.feeds[name][1:]...), layers.LoD(1), layers.DType(dtype))
		} else {
			in[name] = layers.Data(m, name, layers.Dims(r.feeds[name]...), layers.NoBatchDim(), layers.DType(dtype))
		}
		wrt = append(wrt, in[name])
	}
	loss := r.build(m, in)
	pairs := optimizer.AppendBackward(loss, wrt...)
	p = finished(t, m)
	if len(pairs) != len(wrt) {
		t.Fatalf("%d gradients, want %d", len(pairs), len(wrt))
	}
	fetch = []string{loss.Name()}
	for _, pair := range pairs {
		fetch = append(fetch, pair.Grad.Name())
	}
	return p, fetch
}

func (r recurrence) names() (names []string) {
	for name := range r.feeds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// feed draws feeds. seed tells them apart.
func (r recurrence) feed(t *testing.T, seed int) map[string]*tensor.Tensor {
	t.Helper()
	feed := map[string]*tensor.Tensor{}
	for k, name := range r.names() {
		n, _ := tensor.Count(r.feeds[name])
		values := make([]float64, n)
		for i := range values {
			values[i] = math.Sin(float64(1+i*(k+2)+seed)) / 1.5
		}
		feed[name], _ = tensor.FromSlice(values, r.feeds[name]...)
		if offsets := r.lod[name]; offsets != nil {
			feed[name].SetLoD([][]int64{offsets})
		}
	}
	return feed
}

// The gradients through loops, branches and arrays are those that central differences show.
func TestGradientsThroughBlocks(t *testing.T) {
	for _, r := range recurrences {
		t.Run(r.name, func(t *testing.T) {
			p, fetch := r.trained(t, tensor.Float64)
			exe := executor.New()
			defer exe.Close()
			run := func(feed map[string]*tensor.Tensor, fetch ...string) []*tensor.Tensor {
				got, err := exe.Run(t.Context(), p, executor.Feed(feed), fetch...)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			for seed := range 2 { // the second run begins with what the first has left
				feed := r.feed(t, seed)
				grads := run(feed, fetch...)[1:]
				for k, name := range r.names() {
					for i := range feed[name].Float64s() {
						const h = 1e-6
						at := func(by float64) float64 {
							shifted := map[string]*tensor.Tensor{}
							for n, x := range feed {
								shifted[n] = x.Clone()
							}
							shifted[name].Float64s()[i] += by
							return run(shifted, fetch[0])[0].Float64s()[0]
						}
						want := (at(h) - at(-h)) / (2 * h)
						if got := grads[k].Float64s()[i]; math.Abs(got-want) > 1e-7*(1+math.Abs(want)) {
							t.Errorf("gradient of %s[%d] is %v, want %v", name, i, got, want)
						}
					}
				}
			}
		})
	}
}

// unrolled computes what the loop of loop does, without a loop.
func unrolled(m *layers.Model, in map[string]layers.Variable, loop bool) layers.Variable {
	h := layers.Assign(in["h"])
	step := func(h layers.Variable) layers.Variable { return layers.Tanh(layers.MatMul(h, in["w"])) }
	if loop {
		repeat(m, 5, func(layers.Variable) { layers.AssignTo(h, step(h)) })
	} else {
		for range 5 {
			h = step(h)
		}
	}
	return layers.Mean(layers.Square(h))
}

// unrolledSteps computes what the steps of a network of one length do, without the network if without is true. A memory is a copy in both.
func unrolledSteps(m *layers.Model, in map[string]layers.Variable, network, reverse bool) layers.Variable {
	const steps = 5
	step := func(x, before layers.Variable) layers.Variable {
		return layers.Tanh(layers.Add(layers.MatMul(x, in["w"]), layers.Mul(layers.MatMul(before, in["u"]), before)))
	}
	if network {
		opts := []layers.Option{}
		if reverse {
			opts = append(opts, layers.Reverse())
		}
		rnn := layers.NewStaticRNN(m, opts...)
		rnn.Block(func() {
			before := rnn.InitialMemory(in["h"])
			now := step(rnn.StepInput(in["x"]), before)
			rnn.UpdateMemory(before, now)
			rnn.Output(now)
		})
		return layers.Mean(layers.Square(rnn.Result()))
	}
	rows, now := make([]layers.Variable, steps), in["h"]
	for k := range int64(steps) {
		t := k
		if reverse {
			t = steps - 1 - k
		}
		x := layers.Reshape(layers.Slice(in["x"], []int{0}, []int64{t}, []int64{t + 1}), in["x"].Dims()[1:])
		now = step(x, layers.Assign(now))
		rows[t] = layers.Assign(now)
	}
	return layers.Mean(layers.Square(layers.Stack(rows, 0)))
}

// A loop, and a network of steps of one length, has the gradients of the same model without it, bit for bit: parts are summed from the last run to the first.
func TestLoopsHaveTheGradientsOfUnrolledModels(t *testing.T) {
	type build = func(m *layers.Model, in map[string]layers.Variable, loop bool) layers.Variable
	steps := map[string][]int64{"x": {5, 7, 9}, "w": {9, 33}, "u": {33, 33}, "h": {7, 33}}
	for name, r := range map[string]struct {
		feeds map[string][]int64
		build build
	}{
		"loop": {map[string][]int64{"h": {7, 33}, "w": {33, 33}}, unrolled},
		"steps": {steps, func(m *layers.Model, in map[string]layers.Variable, loop bool) layers.Variable {
			return unrolledSteps(m, in, loop, false)
		}},
		"steps in reverse": {steps, func(m *layers.Model, in map[string]layers.Variable, loop bool) layers.Variable {
			return unrolledSteps(m, in, loop, true)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			loop, without := gradients32(t, r.feeds, true, r.build), gradients32(t, r.feeds, false, r.build)
			for i := range loop {
				if !slices.Equal(loop[i].Float32s(), without[i].Float32s()) {
					t.Errorf("value %d differs", i)
				}
			}
		})
	}
}

// gradients32 runs a model in float32, with a loop or without it. It returns the loss and the gradients of the feeds.
func gradients32(t *testing.T, feeds map[string][]int64, loop bool, build func(m *layers.Model, in map[string]layers.Variable, loop bool) layers.Variable) []*tensor.Tensor {
	t.Helper()
	r := recurrence{feeds: feeds, build: func(m *layers.Model, in map[string]layers.Variable) layers.Variable { return build(m, in, loop) }}
	p, fetch := r.trained(t, tensor.Float32)
	feed := executor.Feed{}
	for name, x := range r.feed(t, 1) {
		values := make([]float32, x.Len())
		for i, v := range x.Float64s() {
			values[i] = float32(v)
		}
		feed[name], _ = tensor.FromSlice(values, x.Dims()...)
	}
	exe := executor.New()
	defer exe.Close()
	got, err := exe.Run(t.Context(), p, feed, fetch...)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Every op of control flow that has a gradient stands in one of the models above.
func TestGradientsOfControlFlowAreChecked(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range recurrences {
		p, _ := r.trained(t, tensor.Float64)
		for _, b := range p.Blocks {
			for _, op := range b.Ops {
				seen[op.Type] = true
			}
		}
	}
	for _, def := range ops.All() {
		if def.Class == ops.Control && def.Gradient != nil && !seen[def.Type] {
			t.Errorf("no model checks the gradient of %s", def.Type)
		}
	}
}

// A loop with its gradient allocates nothing once it has met its dims, however often its block runs.
func TestGradientsOfLoopsAllocateNothing(t *testing.T) {
	allocations := func(times int64) float64 {
		m := layers.NewModel()
		x := layers.Data(m, "x", layers.Dims(3, 4), layers.NoBatchDim())
		h := layers.Assign(x)
		repeat(m, times, func(layers.Variable) { layers.AssignTo(h, layers.Tanh(layers.Scale(h, 2, 0))) })
		pairs := optimizer.AppendBackward(layers.Mean(h), x)
		p, exe := finished(t, m), executor.New()
		defer exe.Close()
		feed, _ := tensor.New(tensor.Float32, 3, 4)
		prepared, err := exe.Prepare(t.Context(), p, executor.Feed{"x": feed}, pairs[0].Grad.Name())
		if err != nil {
			t.Fatal(err)
		}
		run := func() {
			if _, err := prepared.Run(t.Context(), executor.Feed{"x": feed}); err != nil {
				t.Fatal(err)
			}
		}
		run()
		return testing.AllocsPerRun(10, run)
	}
	if few, many := allocations(2), allocations(200); many > few {
		t.Errorf("%v allocations in 2 runs of a block, %v in 200", few, many)
	}
}

// So does a recurrent network over sequences.
func TestSequencesStepByStepAllocateNothing(t *testing.T) {
	allocations := func(longest int64) float64 {
		m := layers.NewModel()
		x := layers.Data(m, "x", layers.Dims(3), layers.LoD(1))
		rnn := layers.NewDynamicRNN(m)
		rnn.Block(func() {
			now, before := rnn.StepInput(x), rnn.Memory([]int64{3}, 0)
			next := layers.Tanh(layers.Add(now, before))
			rnn.UpdateMemory(before, next)
			rnn.Output(next)
		})
		pairs := optimizer.AppendBackward(layers.Mean(rnn.Result()), x)
		p, exe := finished(t, m), executor.New()
		defer exe.Close()
		batch, _ := tensor.New(tensor.Float32, longest+3, 3)
		batch.SetLoD([][]int64{{0, 2, longest + 2, longest + 3}})
		feed := executor.Feed{"x": batch}
		prepared, err := exe.Prepare(t.Context(), p, feed, pairs[0].Grad.Name())
		if err != nil {
			t.Fatal(err)
		}
		run := func() {
			if _, err := prepared.Run(t.Context(), feed); err != nil {
				t.Fatal(err)
			}
		}
		run()
		return testing.AllocsPerRun(10, run)
	}
	if few, many := allocations(3), allocations(100); many > few {
		t.Errorf("%v allocations in 3 steps, %v in 100", few, many)
	}
}

// What a loop leaves to its gradient is bounded, so a loop without end is an error before it fills the machine.
func TestMemoryOfStepsIsBounded(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(256, 1024), layers.NoBatchDim())
	h := layers.Assign(x)
	endless(m, func() { layers.AssignTo(h, layers.Tanh(h)) })
	pairs := optimizer.AppendBackward(layers.Mean(h), x)
	exe := executor.New(executor.WithMemory(64 << 20))
	defer exe.Close()
	feed, _ := tensor.New(tensor.Float32, 256, 1024)
	_, err := exe.Run(t.Context(), finished(t, m), executor.Feed{"x": feed}, pairs[0].Grad.Name())
	if !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "gradient") {
		t.Errorf("a loop without end: %v", err)
	}
}
