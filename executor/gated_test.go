package executor_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Small merged ops, whose numbers are those of PyTorch.
func TestSmallMergedOpsOfLanguageModels(t *testing.T) {
	for _, c := range []mergedOp{
		{name: "gate", opType: "swiglu", in: map[string]*tensor.Tensor{"x": waves(1, 2, 4), "y": waves(2, 2, 4)}, out: "out", key: "kept",
			want: map[string]float64{"result": 0.427963226844, "x@GRAD": 0.807961588480, "y@GRAD": 0.488203237605}},
		{name: "gate of halves", opType: "swiglu", in: map[string]*tensor.Tensor{"x": waves(1, 2, 8)}, out: "out", key: "kept", halves: true,
			want: map[string]float64{"result": -1.008948283825, "x@GRAD": -0.763732947536}},
		{name: "masked softmax", opType: "fused_softmax_mask", in: map[string]*tensor.Tensor{"X": waves(1, 2, 2, 3, 3), "Mask": waves(2, 2, 1, 3, 3)}, constant: "Mask", out: "Out", softmax: true,
			want: map[string]float64{"result": 0.362310737028, "X@GRAD": 1.417678870712}},
		{name: "causal softmax", opType: "fused_softmax_mask_upper_triangle", in: map[string]*tensor.Tensor{"X": waves(1, 2, 2, 3, 3)}, out: "Out", softmax: true,
			want: map[string]float64{"result": 0.182324434007, "X@GRAD": 0.773721676203}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.run(t)
			for name, want := range c.want {
				if math.Abs(got[name]-want) > 1e-9 {
					t.Errorf("%s: %.12f, want %.12f", name, got[name], want)
				}
			}
		})
	}
	values := runMerged(t, "rms_norm", map[string]program.Attr{"begin_norm_axis": int32(2), "epsilon": float32(0)}, map[string]*tensor.Tensor{"x": waves(1, 2, 3, 4), "residual": waves(2, 2, 3, 4), "bias": waves(3, 4),
		"norm_weight": waves(4, 4), "norm_bias": waves(5, 4)}, "out", "residual_out")
	for i, want := range []float64{-0.526259226868, 0.479785776509} {
		if got := weighted(values[i].Float64s()); math.Abs(got-want) > 1e-9 {
			t.Errorf("rms_norm: %.12f, want %.12f", got, want)
		}
	}
}

// Sums of sequences with clicks in the first two columns: their gradient has the clicks there, as that of cvm.
func TestMergedSumsOfClicks(t *testing.T) {
	x, err := tensor.FromSlice([]float64{1, 0, 3, 4, 2, 1, 5, 6, 4, 2, 7, 8}, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	x.SetLoD([][]int64{{0, 2, 3}})
	clicks, err := tensor.FromSlice([]float64{0.5, 0.25, 9, 8}, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	grad := waves(1, 2, 4)
	m := layers.NewModel()
	declared(m, "x", x)
	layers.Data(m, "clicks", layers.Dims(2), layers.DType(tensor.Float64))
	layers.Data(m, "dout", layers.Dims(4), layers.DType(tensor.Float64))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"out", "dx"} {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float64})
	}
	attrs := map[string]program.Attr{"pooltype": "SUM", "use_cvm": true, "pad_value": float32(0), "cvm_offset": int32(2)}
	p.Global().Append(&program.Op{Type: "fused_seqpool_cvm", Inputs: map[string][]string{"X": slot("x"), "CVM": slot("clicks")}, Outputs: map[string][]string{"Out": slot("out")}, Attrs: attrs})
	back := &program.Op{Type: "fused_seqpool_cvm_grad", Inputs: map[string][]string{"X": slot("x"), "CVM": slot("clicks"), "Out@GRAD": slot("dout")}, Outputs: map[string][]string{"X@GRAD": slot("dx")},
		Attrs: maps.Clone(attrs)}
	back.SetRole(program.RoleBackward)
	p.Global().Append(back)
	values := runFile(t, p, executor.Feed{"x": x, "clicks": clicks, "dout": grad}, "out", "dx")
	d := grad.Float64s()
	for i, want := range [][]float64{{math.Log(4), math.Log(2) - math.Log(4), 8, 10, math.Log(5), math.Log(3) - math.Log(5), 7, 8}, {0.5, 0.25, d[2], d[3], 0.5, 0.25, d[2], d[3], 9, 8, d[6], d[7]}} {
		if got := values[i].Float64s(); !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestGradientOfMergedProduct(t *testing.T) {
	x, y, d := waves(1, 2, 3, 4), waves(2, 5, 4), waves(3, 2, 3, 5)
	attrs := map[string]program.Attr{"trans_x": false, "trans_y": true, "activation_grad": "none"}
	values := runMerged(t, "fused_gemm_epilogue_grad", attrs, map[string]*tensor.Tensor{"X": x, "Y": y, "DOut": d}, "DX", "DY", "DBias")
	dx, dy, db := make([]float64, 24), make([]float64, 20), make([]float64, 5)
	for row := range 6 {
		for column := range 5 {
			g := d.Float64s()[row*5+column]
			db[column] += g
			for k := range 4 {
				dx[row*4+k] += g * y.Float64s()[column*4+k]
				dy[column*4+k] += g * x.Float64s()[row*4+k]
			}
		}
	}
	for i, want := range [][]float64{dx, dy, db} {
		if got := values[i].Float64s(); !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
			t.Errorf("%d: %v, want %v", i, got, want)
		}
	}
}

// Rotary positions are linear: the gradient of a weighted sum, times what was rotated, is the sum.
func TestMergedRotaryPositions(t *testing.T) {
	const batch, rows, heads, size = 2, 3, 2, 4
	ids, err := tensor.FromSlice([]int64{2, 0, 4, 1, 1, 3}, batch, rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, neighbours := range []bool{true, false} {
		for _, chosen := range []bool{true, false} {
			places := int64(rows)
			if chosen {
				places = 5
			}
			q, sin, cos := waves(1, batch, rows, heads, size), waves(2, 1, places, 1, size), waves(3, 1, places, 1, size)
			in := map[string]*tensor.Tensor{"q": q, "sin": sin, "cos": cos}
			if chosen {
				in["position_ids"] = ids
			}
			attrs := map[string]program.Attr{"use_neox_rotary_style": neighbours}
			got := runMerged(t, "fused_rotary_position_embedding", attrs, in, "out_q")[0].Float64s()
			for i := range got {
				at, row := i%size, i/(size*heads)
				place, first := row%rows, i-at
				if chosen {
					place = int(ids.Int64s()[row])
				}
				partner, sign := at^1, 2*float64(at%2)-1
				if !neighbours {
					partner, sign = (at+size/2)%size, 2*float64(at/(size/2))-1
				}
				want := q.Float64s()[i]*cos.Float64s()[place*size+at] + sign*q.Float64s()[first+partner]*sin.Float64s()[place*size+at]
				if math.Abs(got[i]-want) > 1e-12 {
					t.Fatalf("neighbours %t, places %t: element %d is %v, want %v", neighbours, chosen, i, got[i], want)
				}
			}
			delete(in, "q")
			d := waves(4, batch, rows, heads, size)
			in["out_q@GRAD"] = d
			dq := runMerged(t, "fused_rotary_position_embedding_grad", attrs, in, "q@GRAD")[0].Float64s()
			sum, back := 0.0, 0.0
			for i, v := range dq {
				sum, back = sum+got[i]*d.Float64s()[i], back+q.Float64s()[i]*v
			}
			if math.Abs(sum-back) > 1e-12 {
				t.Errorf("neighbours %t, places %t: gradient gives %v, want %v", neighbours, chosen, back, sum)
			}
		}
	}
}
