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
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A decided is a network in which integers decide how many rows there are, or how they form sequences.
type decided struct {
	name  string
	build func(m *layers.Model, x, words, n layers.Variable) layers.Variable // x: float32 [rows, 4] and words: int64 [rows, 1], in sequences
	n     [3][]int64                                                         // of the batches, whose sequences have batchLengths
	fixed bool                                                               // n does not have a row for each sequence
}

var batchLengths = [3][]int64{{3, 1, 4}, {2, 2, 4}, {1, 5}}

var decidedRows = []decided{
	{name: "sequence_slice", n: [3][]int64{{2, 1, 3}, {2, 0, 1}, {1, 4}}, build: func(m *layers.Model, x, _, n layers.Variable) layers.Variable {
		first := layers.Scale(n, 0, 0)
		return layers.SequencePool(layers.Tanh(layers.SequenceSlice(x, first, n)), "sum")
	}},
	{name: "sequence_unpad", n: [3][]int64{{2, 1, 3}, {2, 0, 1}, {1, 4}}, build: func(m *layers.Model, x, _, n layers.Variable) layers.Variable {
		padded, _ := layers.SequencePad(x, layers.FillConstant(m, 0, []int64{1}), layers.PaddedLength(5))
		return layers.SequencePool(layers.SequenceSoftmax(layers.FC(layers.SequenceUnpad(padded, n), 1)), "max")
	}},
	{name: "lod_reset", n: [3][]int64{{0, 3, 8}, {0, 8}, {0, 1, 1, 6}}, fixed: true, build: func(m *layers.Model, x, _, n layers.Variable) layers.Variable {
		return layers.SequencePool(layers.Tanh(layers.LoDReset(x, n)), "average")
	}},
	{name: "lod_reset, with rows of a fixed number", n: [3][]int64{{0, 3, 8}, {0, 8}, {0, 1, 1, 6}}, fixed: true, build: func(m *layers.Model, x, _, n layers.Variable) layers.Variable {
		return layers.Mul(x, layers.SequenceExpandAs(layers.SequencePool(layers.LoDReset(x, n), "last"), layers.LoDReset(x, n)))
	}},
	{name: "repeat_interleave", n: [3][]int64{{2, 0, 3, 1}, {1, 1, 1, 1}, {0, 0, 4, 2}}, fixed: true, build: func(m *layers.Model, x, _, n layers.Variable) layers.Variable {
		return layers.Square(layers.Op(m, "repeat_interleave", layers.In{"X": {x}, "RepeatsTensor": {n}}, layers.Attrs{"dim": 1}).One("Out"))
	}},
	{name: "two of them, the second with what the first makes", n: [3][]int64{{2, 1, 3}, {2, 1, 1}, {1, 4}}, build: func(m *layers.Model, x, _, n layers.Variable) layers.Variable {
		first := layers.Scale(n, 0, 0)
		part := layers.SequenceSlice(x, first, n)
		padded, lengths := layers.SequencePad(part, layers.FillConstant(m, 0, []int64{1}))
		one := layers.Min(lengths, layers.FillConstant(m, 1, []int64{1}, layers.DType(tensor.Int64)))
		return layers.Add(layers.SequencePool(layers.SequenceUnpad(padded, one), "sum"), layers.SequencePool(part, "last"))
	}},
	{name: "filter_by_instag", n: [3][]int64{{1, 2, 2, 3, 1, 2, 1, 1}, {2, 2, 2, 1, 1, 1, 3, 2}, {1, 2, 3, 2, 2, 1}}, fixed: true, build: func(m *layers.Model, x, words, n layers.Variable) layers.Variable {
		tags := layers.LoDReset(layers.Reshape(n, []int64{-1, 1}), words)
		wanted := layers.FillConstant(m, 3, []int64{1}, layers.DType(tensor.Int64))
		return layers.Tanh(layers.Op(m, "filter_by_instag", layers.In{"Ins": {x}, "Ins_tag": {tags}, "Filter_tag": {wanted}}, layers.Attrs{"is_lod": true}).One("Out"))
	}},
	{name: "sequences that are fetched", n: [3][]int64{{2, 1, 3}, {2, 0, 1}, {1, 4}}, build: func(m *layers.Model, x, _, n layers.Variable) layers.Variable {
		return layers.SequenceSlice(x, layers.Scale(n, 0, 0), n)
	}},
	{name: "in each run of a loop", n: [3][]int64{{2, 1, 3}, {2, 0, 1}, {1, 4}}, build: func(m *layers.Model, x, _, n layers.Variable) layers.Variable {
		sum := layers.SequencePool(x, "sum")
		repeat(m, 2, func(i layers.Variable) {
			fewer := layers.Max(layers.Sub(n, i), layers.FillConstant(m, 0, []int64{1}, layers.DType(tensor.Int64)))
			part := layers.SequenceSlice(layers.Tanh(x), layers.Scale(n, 0, 0), fewer)
			layers.AssignTo(sum, layers.Tanh(layers.Add(sum, layers.SequencePool(part, "sum"))))
		})
		return sum
	}},
	{name: "sequence_erase", n: [3][]int64{{1, 2, 2, 3, 1, 2, 1, 1}, {2, 2, 2, 1, 1, 1, 3, 2}, {1, 2, 3, 2, 2, 1}}, fixed: true, build: func(m *layers.Model, x, words, n layers.Variable) layers.Variable {
		left := layers.SequenceErase(layers.LoDReset(layers.Reshape(n, []int64{-1, 1}), words), []int{2})
		return layers.SequencePool(layers.Embedding(left, 4, 4, layers.Param(layers.ParamAttr{Name: "table"})), "sum")
	}},
}

// program is the network, which learns the parameters w and table. If computed is set, it computes n from numbers of which nothing is known before a run.
func (d decided) program(t *testing.T, computed bool) (p *program.Program, fetch []string) {
	t.Helper()
	m := layers.NewModel().Seed(3)
	x := layers.Data(m, "x", layers.Dims(2), layers.LoD(1))
	words := layers.Data(m, "words", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
	dims, dtype := layers.Dims(1), tensor.Int64
	if d.fixed {
		dims = layers.Dims()
	}
	if computed {
		dtype = tensor.Float32
	}
	n := layers.Data(m, "n", dims, layers.DType(dtype))
	if computed {
		n = layers.Cast(layers.Scale(n, 0.5, 0), tensor.Int64)
	}
	h := layers.FC(x, 4, layers.Param(layers.ParamAttr{Name: "w"}))
	out := d.build(m, h, words, n)
	loss := layers.Mean(out)
	pairs := optimizer.SGD(0.3).Minimize(loss)
	for _, pair := range pairs {
		fetch = append(fetch, pair.Grad.Name())
	}
	return finished(t, m), append(fetch, out.Name(), loss.Name())
}

// batch is what the network is fed in a step.
func (d decided) batch(t *testing.T, k int, computed bool) executor.Feed {
	t.Helper()
	offsets := []int64{0}
	for _, n := range batchLengths[k] {
		offsets = append(offsets, offsets[len(offsets)-1]+n)
	}
	rows := offsets[len(offsets)-1]
	numbers, words := make([]float32, 2*rows), make([]int64, rows)
	for i := range numbers {
		numbers[i] = float32(math.Sin(float64(1 + i + 5*k)))
	}
	x := values(t, numbers, rows, 2)
	x.SetLoD([][]int64{offsets})
	w := values(t, words, rows, 1)
	w.SetLoD([][]int64{offsets})
	shape := []int64{int64(len(d.n[k]))}
	if !d.fixed {
		shape = append(shape, 1)
	}
	n := values(t, d.n[k], shape...)
	if computed {
		twice := make([]float32, len(d.n[k]))
		for i, v := range d.n[k] {
			twice[i] = float32(2 * v)
		}
		n = values(t, twice, shape...)
	}
	return executor.Feed{"x": x, "words": w, "n": n}
}

// A program trains with rows whose number follows from values that it computes, to the bit as with such values that are fed.
func TestRowsThatFollowFromComputedValues(t *testing.T) {
	for _, d := range decidedRows {
		t.Run(d.name, func(t *testing.T) {
			var want [][]*tensor.Tensor
			for _, computed := range []bool{false, true} {
				p, fetch := d.program(t, computed)
				exe := executor.New()
				defer exe.Close()
				for step, k := range []int{0, 1, 2, 0, 1} {
					got, err := exe.Run(t.Context(), p, d.batch(t, k, computed), fetch...)
					if err != nil {
						t.Fatalf("computed %v, step %d: %v", computed, step, err)
					}
					if !computed {
						want = append(want, got)
						continue
					}
					for i, name := range fetch {
						if err := gradcheck.SameBits(got[i], want[step][i]); err != nil {
							t.Errorf("step %d, %s: %v", step, name, err)
						}
						if !slices.EqualFunc(got[i].LoD(), want[step][i].LoD(), slices.Equal[[]int64]) {
							t.Errorf("step %d, %s: LoD %v, want %v", step, name, got[i].LoD(), want[step][i].LoD())
						}
					}
				}
			}
		})
	}
}

// Numbers that do not fit are refused by the name of the op and of the variable, and do not spoil the next run.
func TestComputedRowsThatDoNotFit(t *testing.T) {
	for _, d := range decidedRows {
		if !slices.Contains([]string{"sequence_slice", "sequence_unpad", "lod_reset", "repeat_interleave"}, d.name) {
			continue
		}
		p, fetch := d.program(t, true)
		exe := executor.New()
		defer exe.Close()
		for _, wrong := range []float32{0, -2, 5e9} {
			feed := d.batch(t, 0, true)
			if wrong != 0 {
				feed["n"].Float32s()[1] = wrong
			}
			_, err := exe.Run(t.Context(), p, feed, fetch...)
			if wrong == 0 && err != nil || wrong != 0 && (!errors.Is(err, fault.InvalidArgument) && !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "op "+d.name)) {
				t.Errorf("%s with %v: %v", d.name, wrong, err)
			}
		}
		if _, err := exe.Run(t.Context(), p, d.batch(t, 0, true), fetch...); err != nil {
			t.Errorf("%s after numbers that do not fit: %v", d.name, err)
		}
	}
	d := decidedRows[slices.IndexFunc(decidedRows, func(d decided) bool { return d.name == "repeat_interleave" })]
	p, fetch := d.program(t, true)
	exe := executor.New(executor.WithMemory(1 << 20))
	defer exe.Close()
	feed := d.batch(t, 0, true)
	feed["n"].Float32s()[1] = 1e6
	if _, err := exe.Run(t.Context(), p, feed, fetch...); !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "op square") && !strings.Contains(err.Error(), "op "+d.name) {
		t.Errorf("rows that do not fit into memory: %v", err)
	}
}

// Numbers of rows that are ever new give plans other dims, and compute what numbers that are fed compute.
func TestComputedRowsOfManyNumbers(t *testing.T) {
	d := decidedRows[0]
	var want [][]*tensor.Tensor
	for _, computed := range []bool{false, true} {
		p, fetch := d.program(t, computed)
		exe := executor.New()
		defer exe.Close()
		for k := range 90 {
			feed := d.batch(t, 0, computed)
			feed["x"] = values(t, slices.Repeat([]float32{0.5, float32(k) / 90, -1, 0.25}, 7), 14, 2)
			feed["x"].SetLoD([][]int64{{0, 5, 9, 14}})
			feed["words"].SetLoD(nil)
			n := []int64{int64(k % 6), int64(k / 6 % 5), int64(k / 30 % 6)}
			for i, v := range n {
				if computed {
					feed["n"].Float32s()[i] = float32(2 * v)
				} else {
					feed["n"].Int64s()[i] = v
				}
			}
			delete(feed, "words")
			got, err := exe.Run(t.Context(), p, feed, fetch...)
			if err != nil {
				t.Fatalf("computed %v, %v rows: %v", computed, n, err)
			}
			if !computed {
				want = append(want, got)
				continue
			}
			for i, name := range fetch {
				if err := gradcheck.SameBits(got[i], want[k][i]); err != nil {
					t.Fatalf("%v rows, %s: %v", n, name, err)
				}
			}
		}
	}
}

// A mask of lengths that the program computes is compiled for the largest of them alone.
func TestMasksOfOneLargestLengthShareAPlan(t *testing.T) {
	m := layers.NewModel()
	lengths := layers.Cast(layers.Data(m, "lengths", layers.Dims()), tensor.Int64)
	mask := layers.SequenceMask(lengths)
	sum := layers.ReduceSum(layers.FC(layers.Reshape(mask, []int64{-1, 1}), 2), layers.Axes(1))
	p, exe := finished(t, m), executor.New()
	defer exe.Close()
	fed, k := values(t, []float32{9, 0, 0, 0}, 4), 0
	run := func(next float32) {
		k++
		fed.Float32s()[1+k%3] = next
		got, err := exe.Run(t.Context(), p, executor.Feed{"lengths": fed}, mask.Name(), sum.Name())
		if err != nil {
			t.Fatal(err)
		}
		within := 0
		for _, v := range got[0].Float32s() {
			within += int(v)
		}
		want := 0
		for _, n := range fed.Float32s() {
			want += int(n)
		}
		if within != want || !slices.Equal(got[0].Dims(), []int64{4, 9}) {
			t.Fatalf("the mask of %v is %v", fed.Float32s(), got[0])
		}
	}
	run(0)
	same := testing.AllocsPerRun(50, func() { run(0) })
	if other := testing.AllocsPerRun(50, func() { run(float32(k * 7 % 10)) }); other > 2*same {
		t.Errorf("runs of other lengths allocate %v times, runs of the same lengths %v times", other, same)
	}
}
