package executor_test

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// fused runs an op that Paddle has merged, in a program that went through a file. All inputs are fed.
func fused(t *testing.T, op *program.Op, out string, feed executor.Feed) *tensor.Tensor {
	t.Helper()
	m := layers.NewModel()
	for name, v := range feed {
		declared(m, name, v)
	}
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range op.OutputNames() {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32})
	}
	p.Global().Append(op)
	return runFile(t, p, feed, out)[0]
}

// runFile runs a program that goes through a file before, as one of Paddle does, once.
func runFile(t *testing.T, p *program.Program, feed executor.Feed, fetch ...string) []*tensor.Tensor {
	t.Helper()
	data, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if p, err = program.Decode(data, program.Limits{}); err != nil {
		t.Fatal(err)
	}
	exe := executor.New()
	defer exe.Close()
	values, err := exe.Run(t.Context(), p, feed, fetch...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range values {
		values[i] = values[i].Clone()
	}
	return values
}

// declared is the variable of a value that is fed.
func declared(m *layers.Model, name string, v *tensor.Tensor) layers.Variable {
	if levels := len(v.LoD()); levels > 0 {
		return layers.Data(m, name, layers.Dims(v.Dims()[1:]...), layers.DType(v.DType()), layers.LoD(levels))
	}
	return layers.Data(m, name, layers.Dims(v.Dims()...), layers.DType(v.DType()), layers.NoBatchDim())
}

// made runs layers on variables that are fed.
func made(t *testing.T, feed executor.Feed, build func(v map[string]layers.Variable) layers.Variable) *tensor.Tensor {
	t.Helper()
	m := layers.NewModel()
	v := map[string]layers.Variable{}
	for name, value := range feed {
		v[name] = declared(m, name, value)
	}
	out := build(v)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	exe := executor.New()
	defer exe.Close()
	values, err := exe.Run(t.Context(), p, feed, out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return values[0].Clone()
}

func slot(names ...string) []string { return names }

func TestMergedOpsAreTheirParts(t *testing.T) {
	x, w, b := fixture.Numbers(1, 2, 3), fixture.Numbers(2, 3, 4), fixture.Numbers(3, 1, 4)
	rows, scale, shift := fixture.Numbers(4, 2, 3, 4), fixture.Numbers(5, 4), fixture.Numbers(6, 4)
	image, filter, channels := fixture.Numbers(7, 1, 2, 4, 4), fixture.Numbers(8, 3, 2, 3, 3), fixture.Numbers(9, 3)
	for name, c := range map[string]struct {
		op   program.Op
		out  string
		feed executor.Feed
		same func(v map[string]layers.Variable) layers.Variable
	}{
		"fc": {program.Op{Type: "fc", Inputs: map[string][]string{"Input": slot("x"), "W": slot("w"), "Bias": slot("b")},
			Attrs: map[string]program.Attr{"in_num_col_dims": int32(1), "activation_type": "relu", "use_mkldnn": false}}, "Out", executor.Feed{"x": x, "w": w, "b": b},
			func(v map[string]layers.Variable) layers.Variable {
				return layers.Relu(layers.Add(layers.MatMul(v["x"], v["w"]), v["b"]))
			}},
		"conv2d_fusion": {program.Op{Type: "conv2d_fusion", Inputs: map[string][]string{"Input": slot("x"), "Filter": slot("w"), "Bias": slot("b"), "ResidualData": slot("r")},
			Attrs: map[string]program.Attr{"strides": []int32{1, 1}, "paddings": []int32{0, 0}, "activation": "sigmoid"}}, "Output",
			executor.Feed{"x": image, "w": filter, "b": channels, "r": fixture.Numbers(11, 1, 3, 2, 2)},
			func(v map[string]layers.Variable) layers.Variable {
				columns := layers.MatMul(layers.Reshape(v["w"], []int64{3, 18}), layers.Unfold(v["x"], 3, 3))
				return layers.Sigmoid(layers.Add(layers.Add(layers.Reshape(columns, []int64{1, 3, 2, 2}), v["b"], layers.Axis(1)), v["r"]))
			}},
		"unary of a pair": {program.Op{Type: "fused_elemwise_activation", Inputs: map[string][]string{"X": slot("x"), "Y": slot("x")},
			Attrs: map[string]program.Attr{"functor_list": []string{"tanh", "elementwise_add"}, "axis": int32(-1)}}, "Out", executor.Feed{"x": x},
			func(v map[string]layers.Variable) layers.Variable { return layers.Tanh(layers.Add(v["x"], v["x"])) }},
		"pair with a unary": {program.Op{Type: "fused_elemwise_activation", Inputs: map[string][]string{"X": slot("x"), "Y": slot("x")},
			Attrs: map[string]program.Attr{"functor_list": []string{"elementwise_mul", "scale"}, "scale": float32(3)}}, "Out", executor.Feed{"x": x},
			func(v map[string]layers.Variable) layers.Variable {
				return layers.Mul(v["x"], layers.Scale(v["x"], 3, 0))
			}},
		"fusion_squared_mat_sub": {program.Op{Type: "fusion_squared_mat_sub", Inputs: map[string][]string{"X": slot("x"), "Y": slot("w")},
			Attrs: map[string]program.Attr{"scalar": float32(0.5)}}, "Out", executor.Feed{"x": x, "w": w},
			func(v map[string]layers.Variable) layers.Variable {
				return layers.Scale(layers.Sub(layers.Square(layers.MatMul(v["x"], v["w"])), layers.MatMul(layers.Square(v["x"]), layers.Square(v["w"]))), 0.5, 0)
			}},
		"fusion_repeated_fc_relu": {program.Op{Type: "fusion_repeated_fc_relu", Inputs: map[string][]string{"X": slot("x"), "W": slot("w", "u"), "Bias": slot("b", "b")}}, "Out",
			executor.Feed{"x": x, "w": w, "u": fixture.Numbers(12, 4, 4), "b": b},
			func(v map[string]layers.Variable) layers.Variable {
				h := layers.Relu(layers.Add(layers.MatMul(v["x"], v["w"]), v["b"]))
				return layers.Relu(layers.Add(layers.MatMul(h, v["u"]), v["b"]))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			op := c.op.Clone()
			op.Outputs = map[string][]string{c.out: {"out"}}
			got, want := fused(t, op, "out", c.feed), made(t, c.feed, c.same)
			if !near(got, want) {
				t.Errorf("%v %v, want %v %v", got.Dims(), got.Float32s(), want.Dims(), want.Float32s())
			}
		})
	}
	t.Run("skip_layernorm", func(t *testing.T) {
		op := &program.Op{Type: "skip_layernorm", Inputs: map[string][]string{"X": slot("x"), "Y": slot("x"), "Scale": slot("s"), "Bias": slot("b")},
			Outputs: map[string][]string{"Out": {"out"}}, Attrs: map[string]program.Attr{"epsilon": float32(1e-5), "begin_norm_axis": int32(2)}}
		got := fused(t, op, "out", executor.Feed{"x": rows, "s": scale, "b": shift})
		want := got.Clone()
		for i := 0; i < want.Len(); i += 4 {
			normalise(want.Float32s()[i:i+4], rows.Float32s()[i:i+4], scale.Float32s(), shift.Float32s())
		}
		if !near(got, want) {
			t.Errorf("%v, want %v", got.Float32s(), want.Float32s())
		}
	})
}

// near compares values up to the rounding of float32.
func near(got, want *tensor.Tensor) bool {
	return slices.Equal(got.Dims(), want.Dims()) && slices.EqualFunc(got.Float32s(), want.Float32s(), func(a, b float32) bool {
		return math.Abs(float64(a-b)) <= 1e-5*max(1, math.Abs(float64(b)))
	})
}

// normalise is the layer_norm of twice a row.
func normalise(out, row, scale, shift []float32) {
	mean, variance := 0.0, 0.0
	for _, v := range row {
		mean += 2 * float64(v) / float64(len(row))
	}
	for _, v := range row {
		variance += (2*float64(v) - mean) * (2*float64(v) - mean) / float64(len(row))
	}
	for i, v := range row {
		out[i] = float32((2*float64(v)-mean)/math.Sqrt(variance+1e-5))*scale[i] + shift[i]
	}
}

// TestMergedAttention compares multihead_matmul with attention that is computed row by row.
func TestMergedAttention(t *testing.T) {
	const batch, rows, heads, size = 2, 3, 2, 2
	const n = heads * size
	x, w, b, mask := fixture.Numbers(1, batch, rows, n), fixture.Numbers(2, n, 3, n), fixture.Numbers(3, 3, n), fixture.Numbers(4, batch, heads, rows, rows)
	op := &program.Op{Type: "multihead_matmul", Inputs: map[string][]string{"Input": slot("x"), "W": slot("w"), "Bias": slot("b"), "BiasQK": slot("mask")},
		Outputs: map[string][]string{"Out": {"out"}}, Attrs: map[string]program.Attr{"head_number": int32(heads), "alpha": float32(0.5)}}
	got := fused(t, op, "out", executor.Feed{"x": x, "w": w, "b": b, "mask": mask})
	// lane is Q (0), K (1) or V (2) of a row, at a place of a head.
	lane := func(kind, i, row, head, at int) float64 {
		sum := float64(b.Float32s()[kind*n+head*size+at])
		for k := range n {
			sum += float64(x.Float32s()[(i*rows+row)*n+k]) * float64(w.Float32s()[(k*3+kind)*n+head*size+at])
		}
		return sum
	}
	want := got.Clone()
	for i := range batch {
		for head := range heads {
			for row := range rows {
				weights, total := make([]float64, rows), 0.0
				for other := range rows {
					score := 0.0
					for at := range size {
						score += lane(0, i, row, head, at) * lane(1, i, other, head, at)
					}
					weights[other] = math.Exp(0.5*score + float64(mask.Float32s()[((i*heads+head)*rows+row)*rows+other]))
					total += weights[other]
				}
				for at := range size {
					sum := 0.0
					for other := range rows {
						sum += weights[other] / total * lane(2, i, other, head, at)
					}
					want.Float32s()[(i*rows+row)*n+head*size+at] = float32(sum)
				}
			}
		}
	}
	if !near(got, want) || !slices.Equal(got.Dims(), []int64{batch, rows, n}) {
		t.Errorf("%v %v, want %v", got.Dims(), got.Float32s(), want.Float32s())
	}
}

// The rows of the table of fused_embedding_fc_lstm have the bias of the gates in them: of its Bias only the peepholes count.
func TestMergedLSTMOfLookups(t *testing.T) {
	const width = 2
	ids, err := tensor.FromSlice([]int64{3, 0, 1, 2, 3}, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	ids.SetLoD([][]int64{{0, 2, 5}})
	for _, peepholes := range []bool{false, true} {
		extent := int64(4 * width)
		if peepholes {
			extent = 7 * width
		}
		bias := fixture.Numbers(4, 1, extent)
		feed := executor.Feed{"ids": ids, "e": fixture.Numbers(2, 4, 4*width), "u": fixture.Numbers(3, width, 4*width), "b": bias}
		got := fused(t, &program.Op{Type: "fused_embedding_fc_lstm", Inputs: map[string][]string{"Ids": slot("ids"), "Embeddings": slot("e"), "WeightH": slot("u"), "Bias": slot("b")},
			Outputs: map[string][]string{"Hidden": slot("out"), "Cell": slot("cell"), "XX": slot("xx")},
			Attrs:   map[string]program.Attr{"use_peepholes": peepholes, "use_seq": true, "is_reverse": true}}, "out", feed)
		own := bias.Clone()
		clear(own.Float32s()[:4*width])
		feed = executor.Feed{"ids": ids, "e": feed["e"], "u": feed["u"], "b": own}
		want := made(t, feed, func(v map[string]layers.Variable) layers.Variable {
			rows := layers.OpInto(v["e"].Model(), "lookup_table", layers.In{"W": {v["e"]}, "Ids": {v["ids"]}}, nil, layers.In{"Out": layers.NewVariables(v["e"].Model(), "rows", 1)}).All("Out")
			m := v["e"].Model()
			m.Append(&program.Op{Type: "lstm", Inputs: map[string][]string{"Input": slot(rows[0].Name()), "Weight": slot("u"), "Bias": slot("b")},
				Outputs: map[string][]string{"Hidden": slot("out"), "Cell": slot("cell")}, Attrs: map[string]program.Attr{"use_peepholes": peepholes, "is_reverse": true}})
			out, _ := m.Variable("out")
			return out
		})
		if !near(got, want) {
			t.Errorf("peepholes %t: %v, want %v", peepholes, got.Float32s(), want.Float32s())
		}
	}
}

// Sequences: merged gru, lstm, convolution and lookups are layers on projected rows.
func TestMergedOpsOfSequences(t *testing.T) {
	const width = 2
	x := fixture.Numbers(1, 5, 3)
	x.SetLoD([][]int64{{0, 2, 5}})
	for name, c := range map[string]struct {
		op   program.Op
		out  string
		feed executor.Feed
		part program.Op // what reads the projected rows
	}{
		"fusion_gru": {program.Op{Type: "fusion_gru", Inputs: map[string][]string{"X": slot("x"), "WeightX": slot("w"), "WeightH": slot("u"), "Bias": slot("b")},
			Attrs: map[string]program.Attr{"activation": "tanh", "gate_activation": "sigmoid", "is_reverse": true, "use_seq": true}}, "Hidden",
			executor.Feed{"x": x, "w": fixture.Numbers(2, 3, 3*width), "u": fixture.Numbers(3, width, 3*width), "b": fixture.Numbers(4, 1, 3*width)},
			program.Op{Type: "gru", Inputs: map[string][]string{"Input": slot("wide"), "Weight": slot("u"), "Bias": slot("b")}, Attrs: map[string]program.Attr{"is_reverse": true}}},
		"fusion_lstm": {program.Op{Type: "fusion_lstm", Inputs: map[string][]string{"X": slot("x"), "WeightX": slot("w"), "WeightH": slot("u"), "Bias": slot("b")},
			Attrs: map[string]program.Attr{"use_peepholes": false, "use_seq": true}}, "Hidden",
			executor.Feed{"x": x, "w": fixture.Numbers(2, 3, 4*width), "u": fixture.Numbers(3, width, 4*width), "b": fixture.Numbers(4, 1, 4*width)},
			program.Op{Type: "lstm", Inputs: map[string][]string{"Input": slot("wide"), "Weight": slot("u"), "Bias": slot("b")}, Outputs: map[string][]string{"Cell": slot("cell")},
				Attrs: map[string]program.Attr{"use_peepholes": false}}},
	} {
		t.Run(name, func(t *testing.T) {
			op, part := c.op.Clone(), c.part.Clone()
			op.Outputs = map[string][]string{c.out: {"out"}}
			if part.Outputs == nil {
				part.Outputs = map[string][]string{}
			}
			part.Outputs[c.out] = slot("out")
			got := fused(t, op, "out", c.feed)
			want := made(t, c.feed, func(v map[string]layers.Variable) layers.Variable {
				wide := layers.MatMul(v["x"], v["w"], layers.Name("wide"))
				m := wide.Model()
				m.Append(part)
				out, _ := m.Variable("out")
				return out
			})
			if !near(got, want) {
				t.Errorf("%v, want %v", got.Float32s(), want.Float32s())
			}
		})
	}
}
