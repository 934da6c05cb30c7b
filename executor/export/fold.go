package export

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Folded is a program for inference with fewer ops than the one that it was made of, and its parameters. It computes the same but for rounding.
type Folded struct {
	Program   *program.Program
	Constants int // ops that were computed once, here
	Norms     int // batch norms that became part of the convolution or product before them

	values map[string]*tensor.Tensor // those that are others than before
	before func(name string) (*tensor.Tensor, error)
}

// Value returns a parameter.
func (f *Folded) Value(name string) (*tensor.Tensor, error) {
	if t, ok := f.values[name]; ok {
		return t, nil
	}
	return f.before(name)
}

// foldedSuffix ends the name of a parameter that takes the place of one which others read, too.
const foldedSuffix = ".folded"

// largeConstant is from how many bytes on a constant must be smaller than the parameters that it is computed from.
const largeConstant = 1 << 20

// Fold makes a program that Program has made smaller: what depends on parameters and attributes alone is computed once, and a batch norm behind a convolution or a
// product by a matrix becomes part of its weights and of a bias, as Fluid's InferenceTranspiler does. value returns the parameters by name. Rounding differs, as
// weights are scaled before they are multiplied: compare with Difference. inference does not change.
func Fold(ctx context.Context, inference *program.Program, value func(name string) (*tensor.Tensor, error)) (*Folded, error) {
	f := &Folded{Program: inference.Clone(), values: map[string]*tensor.Tensor{}, before: value}
	if err := f.foldConstants(ctx); err != nil {
		return nil, err
	}
	for f.foldNorm() {
		f.Norms++
	}
	f.dropUnused()
	return f, nil
}

// foldConstants computes what follows from parameters and attributes.
func (f *Folded) foldConstants(ctx context.Context) error {
	block := f.Program.Global()
	uses := block.Uses()
	constant := map[string]bool{} // what is computed from parameters and attributes
	var of []*program.Op
	for _, op := range block.Ops {
		if f.isConstant(op, uses, constant) {
			of = append(of, op)
			for _, name := range op.OutputNames() {
				constant[name] = true
			}
		}
	}
	var wanted []string // by ops that are not computed
	made := map[string]*program.Op{}
	for _, op := range of {
		for _, name := range op.OutputNames() {
			read := slices.ContainsFunc(uses[name].Readers, func(i int) bool { return !slices.Contains(of, block.Ops[i]) })
			if made[name] = op; read && len(op.InputNames()) > 0 {
				wanted = append(wanted, name)
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	alone := f.Program.Clone()
	alone.Global().Ops = slices.Clone(of)
	alone, err := alone.Prune(wanted...)
	if err != nil {
		return err
	}
	computed, err := runWith(ctx, alone, f.Value, nil, wanted)
	if err != nil {
		return err
	}
	for i, name := range wanted {
		if n := size(computed[i]); n > largeConstant && n > f.sizeOfInputs(made, name) || len(computed[i].LoD()) > 0 {
			continue
		}
		v, _ := block.Var(name)
		v.Persistable, v.Dims = true, slices.Clone(computed[i].Dims())
		f.values[name] = computed[i]
		at := slices.Index(block.Ops, made[name])
		if at < 0 { // another of its outputs has been computed before
			continue
		}
		rest := slices.DeleteFunc(made[name].OutputNames(), func(out string) bool { return f.values[out] != nil || len(uses[out].Readers) == 0 })
		if len(rest) == 0 {
			block.Ops = slices.Delete(block.Ops, at, at+1)
			f.Constants++
		}
	}
	before := len(block.Ops)
	f.dropUnused()
	f.Constants += before - len(block.Ops)
	return nil
}

// isConstant reports whether an op computes what follows from parameters and constants.
func (f *Folded) isConstant(op *program.Op, uses map[string]program.Use, constant map[string]bool) bool {
	def, known := ops.Lookup(op.Type)
	if !known || def.Class != ops.Compute || def.Effect || len(op.SubBlocks()) > 0 || def.MakesLoD != nil && def.MakesLoD(op) {
		return false
	}
	block := f.Program.Global()
	for _, name := range op.InputNames() {
		v, ok := block.Var(name)
		parameter := ok && v.Persistable && len(uses[name].Writers) == 0
		if !ok || v.Kind != program.LoDTensor || v.LoDLevel > 0 || !parameter && !constant[name] {
			return false
		}
	}
	for _, name := range op.OutputNames() {
		if v, ok := block.Var(name); !ok || v.Persistable || v.Kind != program.LoDTensor || v.LoDLevel > 0 || len(uses[name].Writers) != 1 {
			return false
		}
	}
	return len(op.OutputNames()) > 0
}

// sizeOfInputs is how many bytes the parameters have that a constant is computed from.
func (f *Folded) sizeOfInputs(made map[string]*program.Op, name string) (bytes int64) {
	op := made[name]
	if op == nil {
		if t, err := f.Value(name); err == nil {
			return size(t)
		}
		return 0
	}
	for _, in := range op.InputNames() {
		bytes += f.sizeOfInputs(made, in)
	}
	return bytes
}

func size(t *tensor.Tensor) int64 { return int64(t.Len()) * int64(t.DType().Size()) }

// foldNorm folds one batch norm, and reports whether there was one.
func (f *Folded) foldNorm() bool {
	block := f.Program.Global()
	uses := block.Uses()
	for at, norm := range block.Ops {
		if norm.Type != "batch_norm" || !isSet(norm, "use_global_stats") && (!isSet(norm, "is_test") || isSet(norm, "trainable_statistics")) || isSet(norm, "fuse_with_relu") {
			continue
		}
		x := norm.In("X")
		before := f.maker(uses, x)
		var add *program.Op
		if before != nil && before.Type == "elementwise_add" && f.isParameter(uses, before.In("Y")) {
			add, before = before, f.maker(uses, before.In("X"))
		}
		if before == nil || len(uses[norm.Out("Y")].Writers) != 1 {
			continue
		}
		weights, axis, ok := f.weightsOf(before, norm, uses)
		if !ok || add != nil && !f.addsTo(add, axis) {
			continue
		}
		if f.scale(weights, norm, before, add, uses) {
			f.join(at, norm, add, axis)
			return true
		}
	}
	return false
}

func isSet(op *program.Op, name string) bool { set, _ := op.Bool(name); return set }

// maker returns the op that alone writes a variable which one op alone reads, nil if there is none.
func (f *Folded) maker(uses map[string]program.Use, name string) *program.Op {
	if use := uses[name]; len(use.Readers) == 1 && len(use.Writers) == 1 && use.Writers[0] < use.Readers[0] {
		return f.Program.Global().Ops[use.Writers[0]]
	}
	return nil
}

func (f *Folded) isParameter(uses map[string]program.Use, name string) bool {
	v, ok := f.Program.Global().Var(name)
	return ok && v.Persistable && v.DType == tensor.Float32 && len(uses[name].Writers) == 0
}

// weightsOf returns the slot of the weights of an op whose outputs a batch norm may become a part of, and the axis of the channels of what it computes.
func (f *Folded) weightsOf(op, norm *program.Op, uses map[string]program.Use) (slot string, axis int64, ok bool) {
	last := func(op *program.Op, name string) bool {
		layout, _ := op.Str(name)
		return strings.HasSuffix(strings.ToUpper(layout), "C") && len(layout) > 1
	}
	switch op.Type {
	case "conv2d", "depthwise_conv2d", "conv3d":
		if slot, axis = "Filter", 1; last(op, "data_format") {
			axis = -1
		}
		activation, _ := op.Str("fuse_activation")
		ok = activation == "" && !isSet(op, "fuse_relu") && last(op, "data_format") == last(norm, "data_layout") && len(op.Inputs["Bias"]) == 0 && len(op.Inputs["ResidualData"]) == 0
	case "mul":
		columns, given := op.Int("y_num_col_dims")
		rows, _ := op.Int("x_num_col_dims")
		w, _ := f.Program.Global().Var(op.In("Y"))
		slot, axis, ok = "Y", 1, (!given || columns == 1) && rows <= 1 && w != nil && len(w.Dims) == 2
	}
	return slot, axis, ok && f.isParameter(uses, op.In(slot))
}

// addsTo reports whether an addition is that of a bias for each channel.
func (f *Folded) addsTo(add *program.Op, channels int64) bool {
	axis, given := add.Int("axis")
	if !given {
		axis = -1
	}
	bias, _ := f.Program.Global().Var(add.In("Y"))
	out, _ := f.Program.Global().Var(add.In("X"))
	if bias == nil || out == nil || len(bias.Dims) != 1 {
		return false
	}
	rank := int64(len(out.Dims))
	if axis < 0 {
		axis += rank
	}
	if channels < 0 {
		channels += rank
	}
	return axis == channels
}

// scale makes the weights and the bias that do what a norm does, and reports whether it could.
func (f *Folded) scale(slot string, norm, op, add *program.Op, uses map[string]program.Use) bool {
	name := op.In(slot)
	w, err := f.Value(name)
	if err != nil || w.DType() != tensor.Float32 {
		return false
	}
	var per [5][]float32 // by channel: scale, bias, mean and variance of the norm, and the bias that is added before
	for i, of := range []string{norm.In("Scale"), norm.In("Bias"), norm.In("Mean"), norm.In("Variance")} {
		t, err := f.Value(of)
		if !f.isStatistic(of) || err != nil || t.DType() != tensor.Float32 {
			return false
		}
		per[i] = t.Float32s()
	}
	channels := len(per[0])
	if per[4] = make([]float32, channels); add != nil {
		t, err := f.Value(add.In("Y"))
		if err != nil || t.DType() != tensor.Float32 {
			return false
		}
		per[4] = t.Float32s()
	}
	dims := w.Dims()
	ofWeight := func(i int) int { return i / (w.Len() / channels) } // channels are the first axis
	if slot == "Y" {
		ofWeight = func(i int) int { return i % channels }
	}
	if wide := dims[0]; slot == "Y" {
		wide = dims[1]
		if wide != int64(channels) {
			return false
		}
	} else if wide != int64(channels) {
		return false
	}
	if slices.ContainsFunc(per[:], func(v []float32) bool { return len(v) != channels }) {
		return false
	}
	epsilon, given := norm.Float("epsilon")
	if !given {
		epsilon = float64(float32(1e-5))
	}
	factor := make([]float64, channels)
	bias, weights := make([]float32, channels), make([]float32, w.Len())
	for c := range factor {
		factor[c] = float64(per[0][c]) / math.Sqrt(float64(per[3][c])+epsilon)
		bias[c] = float32(float64(per[1][c]) + (float64(per[4][c])-float64(per[2][c]))*factor[c])
	}
	for i, v := range w.Float32s() {
		weights[i] = float32(float64(v) * factor[ofWeight(i)])
	}
	op.Inputs[slot] = []string{f.put(name, weights, dims, uses)}
	norm.Inputs["Bias"] = []string{f.put(norm.In("Bias"), bias, []int64{int64(channels)}, uses)}
	return true
}

// isStatistic reports whether a variable of a norm is a parameter. The norm itself may name it as an output that it leaves as it is.
func (f *Folded) isStatistic(name string) bool {
	v, ok := f.Program.Global().Var(name)
	return ok && v.Persistable
}

// put gives a parameter other values: one that others read as well gets another name. It returns the name.
func (f *Folded) put(name string, values []float32, dims []int64, uses map[string]program.Use) string {
	block := f.Program.Global()
	if len(uses[name].Readers) > 1 {
		v, _ := block.Var(name)
		for name += foldedSuffix; block.Declares(name); name += foldedSuffix {
		}
		block.EnsureVar(v.Copy(name))
	}
	t, err := tensor.FromSlice(values, dims...)
	if err == nil {
		f.values[name] = t
	}
	return name
}

// join takes a norm out, whose bias is added in its place.
func (f *Folded) join(at int, norm, add *program.Op, axis int64) {
	block := f.Program.Global()
	if add != nil {
		add.Inputs["Y"] = norm.Inputs["Bias"]
		add.Outputs["Out"] = norm.Outputs["Y"]
		block.Ops = slices.Delete(block.Ops, at, at+1)
		return
	}
	sum := &program.Op{Type: "elementwise_add", Inputs: map[string][]string{"X": norm.Inputs["X"], "Y": norm.Inputs["Bias"]}, Outputs: map[string][]string{"Out": norm.Outputs["Y"]}}
	sum.SetAttr("axis", int32(axis))
	sum.SetRole(norm.Role())
	sum.SetLine(norm.Line())
	block.Ops[at] = sum
}

// dropUnused drops the ops of the global block whose results nobody reads, and variables that no op names.
func (f *Folded) dropUnused() {
	block := f.Program.Global()
	needed := map[string]bool{}
	var kept []*program.Op
	for _, op := range slices.Backward(block.Ops) {
		reads, writes := block.Touches(op)
		def, known := ops.Lookup(op.Type)
		keep := !known || def.Effect || def.Class != ops.Compute
		for name := range writes {
			v, declared := block.Var(name)
			keep = keep || needed[name] || declared && v.Persistable
		}
		if !keep {
			continue
		}
		kept = append(kept, op)
		for name := range reads {
			needed[name] = true
		}
	}
	slices.Reverse(kept)
	block.Ops = kept
	uses := block.Uses()
	for _, v := range slices.Clone(block.Vars()) {
		if use := uses[v.Name]; len(use.Readers)+len(use.Writers) == 0 {
			block.RemoveVar(v.Name)
		}
	}
}
