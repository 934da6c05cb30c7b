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

// waves is a float64 tensor of numbers between -1 and 1, which PyTorch makes, too.
func waves(seed float64, dims ...int64) *tensor.Tensor {
	t, err := tensor.New(tensor.Float64, dims...)
	if err != nil {
		panic(err)
	}
	for i := range t.Float64s() {
		t.Float64s()[i] = math.Sin(seed + 0.7*float64(i)*(1+0.1*seed))
	}
	return t
}

// weighted is the sum of the elements times the cosine of their places.
func weighted(values []float64) (sum float64) {
	for i, v := range values {
		sum += v * math.Cos(float64(i))
	}
	return sum
}

// A mergedOp is an op for a layer of a transformer, with what its gradient reads.
type mergedOp struct {
	name, opType string
	attrs        map[string]program.Attr
	in           map[string]*tensor.Tensor
	constant     string // an input without a gradient
	out, key     string // outputs of the op, the second of which its gradient reads
	want         map[string]float64
	halves       bool // the result has half the columns of the input
	softmax      bool // the gradient reads the result as Softmax
}

// run computes weighted sums of the result and of the gradients, in a program that went through a file.
func (c mergedOp) run(t *testing.T) map[string]float64 {
	t.Helper()
	m, feed := layers.NewModel(), executor.Feed{}
	forward := &program.Op{Type: c.opType, Inputs: map[string][]string{}, Outputs: map[string][]string{c.out: {"result"}, c.key: {"kept"}}, Attrs: c.attrs}
	backward := &program.Op{Type: c.opType + "_grad", Inputs: map[string][]string{c.out + "@GRAD": {"dresult"}, c.key: {"kept"}}, Outputs: map[string][]string{}, Attrs: maps.Clone(c.attrs)}
	fetch := []string{"result"}
	for slot, v := range c.in {
		feed[slot] = v
		declared(m, slot, v)
		forward.Inputs[slot], backward.Inputs[slot] = []string{slot}, []string{slot}
		if slot != c.constant {
			backward.Outputs[slot+"@GRAD"] = []string{slot + "@GRAD"}
			fetch = append(fetch, slot+"@GRAD")
		}
	}
	first := slices.Sorted(maps.Keys(c.in))[0]
	for _, slot := range []string{"X", "q", "x"} {
		if c.in[slot] != nil {
			first = slot
		}
	}
	if c.softmax {
		forward.Outputs, backward.Inputs["Softmax"] = map[string][]string{c.out: {"result"}}, []string{"result"}
		delete(backward.Inputs, c.key)
	}
	grad := c.in[first].Clone()
	if c.halves {
		extents := slices.Clone(grad.Dims())
		extents[len(extents)-1] /= 2
		grad = waves(0, extents...)
	}
	for i := range grad.Float64s() {
		grad.Float64s()[i] = math.Cos(float64(i))
	}
	feed["dresult"] = grad
	declared(m, "dresult", grad)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"kept"}, fetch...) {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float64})
	}
	backward.SetRole(program.RoleBackward)
	p.Global().Append(forward)
	if len(fetch) > 1 {
		p.Global().Append(backward)
	}
	values := runFile(t, p, feed, fetch...)
	got := map[string]float64{}
	for i, name := range fetch {
		got[name] = weighted(values[i].Float64s())
	}
	return got
}

// attention is what fused_attention reads with and without a normalisation before.
func attention(before bool, mask ...int64) map[string]*tensor.Tensor {
	in := map[string]*tensor.Tensor{"X": waves(1, 2, 3, 4), "QKVW": waves(2, 3, 2, 2, 4), "QKVBias": waves(3, 3, 2, 2), "OutLinearW": waves(4, 4, 4), "OutLinearBias": waves(5, 4), "SrcMask": waves(8, mask...)}
	if before {
		in["LnScale"], in["LnBias"] = waves(6, 4), waves(7, 4)
	} else {
		in["Ln2Scale"], in["Ln2Bias"] = waves(6, 4), waves(7, 4)
	}
	return in
}

func feedforward(scale, bias string) map[string]*tensor.Tensor {
	return map[string]*tensor.Tensor{"X": waves(1, 2, 3, 4), "Linear1Weight": waves(2, 4, 3), "Linear1Bias": waves(3, 3), "Linear2Weight": waves(4, 3, 4), "Linear2Bias": waves(5, 4), scale: waves(6, 4), bias: waves(7, 4)}
}

// nothing are the attributes of dropout that drops nothing.
func nothing(more map[string]program.Attr) map[string]program.Attr {
	attrs := map[string]program.Attr{}
	for _, name := range []string{"attn_dropout_rate", "dropout_rate", "dropout1_rate", "dropout2_rate", "dropout"} {
		attrs[name] = float32(0)
	}
	maps.Copy(attrs, more)
	return attrs
}

// The numbers are those of PyTorch.
func mergedLayers() []mergedOp {
	return []mergedOp{
		{name: "attention, normalised before", opType: "fused_attention", attrs: nothing(map[string]program.Attr{"pre_layer_norm": true}), in: attention(true, 2, 1, 3, 3), constant: "SrcMask", out: "Y", key: "QKVOut",
			want: map[string]float64{"result": 2.903275343119, "X@GRAD": 4.966005605581, "QKVW@GRAD": 3.626635596128, "QKVBias@GRAD": -0.038735412659, "OutLinearW@GRAD": -2.183198499515,
				"OutLinearBias@GRAD": 1.231066260841, "LnScale@GRAD": 1.248433567093, "LnBias@GRAD": 4.434537871538}},
		{name: "attention, normalised behind", opType: "fused_attention", attrs: nothing(nil), in: attention(false, 2, 2, 3, 3), constant: "SrcMask", out: "Y", key: "QKVOut",
			want: map[string]float64{"result": 0.733816275535, "X@GRAD": 3.582039251398, "QKVW@GRAD": 2.029310035175, "QKVBias@GRAD": -0.360637233113, "OutLinearW@GRAD": 1.224838390903,
				"OutLinearBias@GRAD": 0.675563367257, "Ln2Scale@GRAD": -0.392304758611, "Ln2Bias@GRAD": 1.231066260841}},
		{name: "feedforward, normalised before", opType: "fused_feedforward", attrs: nothing(map[string]program.Attr{"pre_layer_norm": true}), in: feedforward("Ln1Scale", "Ln1Bias"), out: "Out", key: "Dropout1Out",
			want: map[string]float64{"result": -3.491798319816, "X@GRAD": 12.492085725983, "Linear1Weight@GRAD": -1.582940732454, "Linear1Bias@GRAD": -1.255435136510, "Linear2Weight@GRAD": 0.731412972166,
				"Linear2Bias@GRAD": 1.231066260841, "Ln1Scale@GRAD": 0.413286793396, "Ln1Bias@GRAD": -0.262086807540}},
		{name: "feedforward, normalised behind", opType: "fused_feedforward", attrs: nothing(map[string]program.Attr{"act_method": "relu"}), in: feedforward("Ln2Scale", "Ln2Bias"), out: "Out", key: "Dropout1Out",
			want: map[string]float64{"result": 0.153712721168, "X@GRAD": 2.031242703253, "Linear1Weight@GRAD": 0.194561384381, "Linear1Bias@GRAD": 0.912921773756, "Linear2Weight@GRAD": -0.150703234977,
				"Linear2Bias@GRAD": -0.485828927552, "Ln2Scale@GRAD": 0.301888963075, "Ln2Bias@GRAD": 1.231066260841}},
		{name: "a normalised sum", opType: "fused_bias_dropout_residual_layer_norm", attrs: nothing(nil), out: "Y", key: "BiasDropoutResidualOut",
			in:   map[string]*tensor.Tensor{"X": waves(1, 2, 3, 4), "Residual": waves(2, 2, 3, 4), "Bias": waves(3, 4), "LnScale": waves(4, 4), "LnBias": waves(5, 4)},
			want: map[string]float64{"result": -1.045288966430, "X@GRAD": -2.077001565028, "Residual@GRAD": -2.077001565028, "Bias@GRAD": -1.136856398787, "LnScale@GRAD": -0.508434747075, "LnBias@GRAD": 1.231066260841}},
		{name: "attention to rows before", opType: "flash_attn", attrs: nothing(map[string]program.Attr{"causal": true}), out: "out", key: "softmax_lse",
			in:   map[string]*tensor.Tensor{"q": waves(1, 2, 3, 2, 2), "k": waves(2, 2, 3, 2, 2), "v": waves(3, 2, 3, 2, 2)},
			want: map[string]float64{"result": 2.008291658803, "q@GRAD": -0.685333233815, "k@GRAD": -0.821261743007, "v@GRAD": 3.763698184102}},
	}
}

func TestMergedLayersOfTransformers(t *testing.T) {
	for _, c := range mergedLayers() {
		t.Run(c.name, func(t *testing.T) {
			got := c.run(t)
			for name, want := range c.want {
				if math.Abs(got[name]-want) > 1e-6 { // alpha and epsilon are float32
					t.Errorf("%s: %.12f, want %.12f", name, got[name], want)
				}
			}
		})
	}
}

// With dropout the gradients are those of what was drawn: central differences draw the same.
func TestMergedLayersThatDrop(t *testing.T) {
	cases := mergedLayers()
	cases = append(cases, mergedOp{name: "a sum", opType: "fused_dropout_add", in: map[string]*tensor.Tensor{"x": waves(1, 2, 3), "y": waves(2, 2, 3)}, out: "out", key: "seed_offset"})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.attrs = maps.Clone(c.attrs)
			if c.attrs == nil {
				c.attrs = map[string]program.Attr{}
			}
			for _, name := range []string{"attn_dropout_rate", "dropout_rate", "dropout1_rate", "dropout2_rate", "dropout", "p"} {
				c.attrs[name] = float32(0.25)
			}
			got := c.run(t)
			if got["result"] == c.want["result"] {
				t.Error("nothing was dropped")
			}
			for slot, v := range c.in {
				if slot == c.constant {
					continue
				}
				along := v.Clone() // the weights with which run adds up the gradient are a direction
				step := func(h float64) float64 {
					for i := range along.Float64s() {
						along.Float64s()[i] = v.Float64s()[i] + h*math.Cos(float64(i))
					}
					moved := c
					moved.in = maps.Clone(c.in)
					moved.in[slot] = along
					return moved.run(t)["result"]
				}
				const h = 1e-5
				if want := (step(h) - step(-h)) / (2 * h); math.Abs(got[slot+"@GRAD"]-want) > 1e-5*max(1, math.Abs(want)) {
					t.Errorf("%s: gradient %.9f, want %.9f", slot, got[slot+"@GRAD"], want)
				}
			}
		})
	}
}

// Keys and values of earlier rows come from a cache: the rows of a sequence one after the other have the results of all at once under a causal mask.
func TestAttentionWithACache(t *testing.T) {
	in := attention(true, 2, 1, 3, 3)
	for i := range in["SrcMask"].Float64s() {
		in["SrcMask"].Float64s()[i] = 0
		if row, column := i/3%3, i%3; column > row {
			in["SrcMask"].Float64s()[i] = -1e9
		}
	}
	attrs := nothing(map[string]program.Attr{"pre_layer_norm": true, "is_test": true})
	all := runMerged(t, "fused_attention", attrs, in, "Y")
	cache, err := tensor.New(tensor.Float64, 2, 2, 2, 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	delete(in, "SrcMask")
	rows := in["X"]
	for row := range 3 {
		one, err := tensor.New(tensor.Float64, 2, 1, 4)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			copy(one.Float64s()[i*4:][:4], rows.Float64s()[(i*3+row)*4:])
		}
		in["X"], in["CacheKV"] = one, cache
		values := runMerged(t, "fused_attention", attrs, in, "Y", "CacheKVOut")
		for i := range 8 {
			if got, want := values[0].Float64s()[i], all[0].Float64s()[(i/4*3+row)*4+i%4]; math.Abs(got-want) > 1e-6 {
				t.Errorf("row %d: %v, want %v", row, got, want)
			}
		}
		cache = values[1]
	}
	if !slices.Equal(cache.Dims(), []int64{2, 2, 2, 3, 2}) {
		t.Errorf("the cache has the dims %v", cache.Dims())
	}
}

// runMerged runs an op that Paddle has merged, in a program that went through a file.
func runMerged(t *testing.T, opType string, attrs map[string]program.Attr, in map[string]*tensor.Tensor, outs ...string) []*tensor.Tensor {
	t.Helper()
	lists := map[string][]*tensor.Tensor{}
	for slot, v := range in {
		lists[slot] = []*tensor.Tensor{v}
	}
	return runLists(t, opType, attrs, lists, outs...)
}

// runLists is runMerged with several variables in a slot.
func runLists(t *testing.T, opType string, attrs map[string]program.Attr, in map[string][]*tensor.Tensor, outs ...string) []*tensor.Tensor {
	t.Helper()
	m, feed := layers.NewModel(), executor.Feed{}
	op := &program.Op{Type: opType, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: attrs}
	for slot, list := range in {
		for i, v := range list {
			name := slot + string(rune('0'+i))
			feed[name] = v
			extents := slices.Clone(v.Dims())
			for axis, extent := range extents {
				if extent == 0 {
					extents[axis] = program.Unknown
				}
			}
			layers.Data(m, name, layers.Dims(extents...), layers.DType(v.DType()), layers.NoBatchDim())
			op.Inputs[slot] = append(op.Inputs[slot], name)
		}
	}
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range outs {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float64})
		op.Outputs[name] = []string{name}
	}
	p.Global().Append(op)
	values := runFile(t, p, feed, outs...)
	return values
}

// The number is that of PyTorch.
func TestMergedTransformer(t *testing.T) {
	in := map[string][]*tensor.Tensor{"X": {waves(1, 2, 3, 4)}, "SrcMask": {waves(20, 2, 1, 3, 3)}}
	for k := range 2 {
		seed := float64(k)
		for slot, v := range map[string]*tensor.Tensor{"QKVW": waves(2+seed, 4, 3, 2, 2), "QKVBias": waves(3+seed, 3, 2, 2), "OutLinearW": waves(4+seed, 4, 4), "OutLinearBias": waves(5+seed, 4),
			"LnScale": waves(6+seed, 4), "LnBias": waves(7+seed, 4), "FFNLnScale": waves(8+seed, 4), "FFNLnBias": waves(9+seed, 4), "FFN1Weight": waves(10+seed, 4, 5), "FFN1Bias": waves(11+seed, 5),
			"FFN2Weight": waves(12+seed, 5, 4), "FFN2Bias": waves(13+seed, 4)} {
			in[slot] = append(in[slot], v)
		}
	}
	got := weighted(runLists(t, "fused_multi_transformer", map[string]program.Attr{"is_test": true, "trans_qkvw": false}, in, "Out")[0].Float64s())
	if want := 0.104393692443; math.Abs(got-want) > 1e-6 {
		t.Errorf("%.12f, want %.12f", got, want)
	}
}
