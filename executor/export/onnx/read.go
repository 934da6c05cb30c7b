package onnx

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/onnx"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// mostMessages bounds the nodes, attributes, tensors and extents of a model together: each takes some hundred bytes of memory, and as few as two of the file.
const mostMessages = 1 << 20

// A Model is what Read makes of a file: an inference program with feed and fetch ops, and the values of its persistable variables.
type Model struct {
	Program *program.Program
	Values  map[string]*tensor.Tensor
}

// Read makes a program of an ONNX model. Inputs and outputs keep their names, in which characters that a file name cannot have become "_". An optimizer that is added later trains the float
// parameters.
//
// Errors: fault.Corrupt for what is no ONNX model, fault.Unsupported for ops, types and attributes that have no counterpart here, all ops at once, and fault.InvalidArgument
// for a model that contradicts itself. The memory that it takes is in proportion to the file.
func Read(file []byte) (*Model, error) {
	if _, err := count(file, &modelLayout, 0); err != nil {
		return nil, err
	}
	m := &onnx.ModelProto{}
	if err := proto.Unmarshal(file, m); err != nil || m.Graph == nil {
		return nil, fault.E(fault.Corrupt, fault.At("the ONNX model"), fault.Got("bytes that are no model, or one without a graph"), fault.Want("a file .onnx"))
	}
	r := &reader{graph: m.Graph, names: map[string]string{}, taken: map[string]bool{}, metas: map[string]ops.Meta{}, values: map[string]*tensor.Tensor{}, known: map[string][]int64{}}
	for _, set := range m.OpsetImport {
		if set.Domain == "" || set.Domain == "ai.onnx" {
			r.opset = set.Version
		}
	}
	if r.opset < oldestOpset || r.opset > newestOpset {
		return nil, fault.E(fault.Unsupported, fault.At("the ONNX model"), fault.Gotf("opset %d", r.opset), fault.Wantf("%d to %d", oldestOpset, newestOpset))
	}
	return r.read()
}

// A layout says which fields of a message are messages.
type layout map[protowire.Number]*layout

var (
	leaf        = layout{}
	attributes  = layout{5: &leaf}
	nodes       = layout{5: &attributes}
	shape       = layout{1: &leaf}
	tensorType  = layout{2: &shape}
	valueType   = layout{1: &tensorType}
	valueLayout = layout{2: &valueType}
	graphLayout = layout{1: &nodes, 5: &leaf, 11: &valueLayout, 12: &valueLayout}
	modelLayout = layout{7: &graphLayout, 8: &leaf}
)

// count counts the messages in b, and refuses more than mostMessages.
func count(b []byte, of *layout, have int) (int, error) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0, fault.E(fault.Corrupt, fault.At("the ONNX model"), fault.Got("bytes that are no message"), fault.Want("a file .onnx"))
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return 0, fault.E(fault.Corrupt, fault.At("the ONNX model"), fault.Got("bytes that are no ONNX model, or one that is cut"), fault.Want("a whole file .onnx"))
		}
		if have++; have > mostMessages {
			return 0, fault.E(fault.TooLarge, fault.At("the ONNX model"), fault.Gotf("more than %d fields", mostMessages), fault.Want("fewer"))
		}
		if inner := (*of)[number]; inner != nil && kind == protowire.BytesType {
			body, _ := protowire.ConsumeBytes(b)
			var err error
			if have, err = count(body, inner, have); err != nil {
				return 0, err
			}
		}
		b = b[size:]
	}
	return have, nil
}

// A reader makes the program of one graph.
type reader struct {
	graph  *onnx.GraphProto
	opset  int64
	block  *program.Block
	names  map[string]string // of variables, by the name of the value
	taken  map[string]bool   // names of variables
	metas  map[string]ops.Meta
	values map[string]*tensor.Tensor // constants so far, by the name of the variable
	known  map[string][]int64        // extents that nodes compute, by the name of the value

	openExtents int // names of open extents of inputs
	node
	err error // of the node
}

// A node is what is being read.
type node struct{ *onnx.NodeProto }

func (r *reader) read() (*Model, error) {
	p := program.New()
	r.block = p.Global()
	for _, m := range r.graph.Initializer {
		t, err := decode(m)
		if err != nil {
			return nil, err
		}
		r.keep(m.GetName(), t)
	}
	var feeds, targets []string
	params := map[string]bool{}
	for _, in := range r.graph.Input {
		if _, ok := r.names[in.GetName()]; ok {
			continue // old models list their initializers, too
		}
		if err := r.input(in); err != nil {
			return nil, err
		}
		feeds = append(feeds, r.names[in.GetName()])
		for i, d := range in.GetType().GetTensorType().GetShape().GetDim() {
			if _, known := d.Value.(*onnx.TensorShapeProto_Dimension_DimValue); !known {
				params[cmp.Or(d.GetDimParam(), fmt.Sprintf("%s/%d", in.GetName(), i))] = true
			}
		}
	}
	r.openExtents = len(params)
	if err := r.check(); err != nil {
		return nil, err
	}
	for _, n := range r.graph.Node {
		r.node = node{n}
		done, err := fold(r)
		if err == nil && !done {
			err = r.convert()
		}
		if err == nil {
			err = r.err
		}
		if err != nil {
			return nil, fault.E(fault.KindOf(err), fault.Atf("node %s (%s)", fault.Quote(n.GetName()), n.GetOpType()), fault.Cause(err))
		}
	}
	for _, out := range r.graph.Output {
		name, ok := r.names[out.GetName()]
		if !ok {
			return nil, fault.E(fault.InvalidArgument, fault.Var(out.GetName()), fault.Got("an output that no node computes"), fault.Want("the output of a node"))
		}
		targets = append(targets, name)
	}
	inference, err := p.InferenceProgram(feeds, targets)
	if err != nil {
		return nil, err
	}
	values := map[string]*tensor.Tensor{}
	for _, v := range inference.Global().Vars() {
		if t, ok := r.values[v.Name]; ok {
			values[v.Name] = t
		}
	}
	return &Model{inference, values}, nil
}

// convert makes ops of the node.
func (r *reader) convert() error {
	source := readers[r.node.GetOpType()]
	if source == nil {
		return unsupported("extents that the model computes, as elements", "extents as shapes of others alone")
	}
	return source(r)
}

// check lists all ops that have no counterpart.
func (r *reader) check() error {
	counts := map[string]int{}
	var order []string
	for _, n := range r.graph.Node {
		kind := n.GetOpType()
		if d := n.GetDomain(); d != "" && d != "ai.onnx" {
			kind = d + "." + kind
		}
		if readers[kind] != nil || kind == "Shape" {
			continue
		}
		if counts[kind]++; counts[kind] == 1 {
			order = append(order, kind)
		}
	}
	if len(order) == 0 {
		return nil
	}
	slices.Sort(order)
	var said []string
	for _, kind := range order[:min(len(order), 20)] {
		said = append(said, fmt.Sprintf("%d %s", counts[kind], fault.Quote(kind)))
	}
	return fault.E(fault.Unsupported, fault.At("the ONNX model"), fault.Got("ops without a counterpart here: "+strings.Join(said, ", ")), fault.Want("a model without them"))
}

// variable returns the name of the variable of a value, which it makes.
func (r *reader) variable(value string) string {
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-', c == '@':
			return c
		}
		return '_'
	}, value)
	name = strings.TrimLeft(name, ".-")
	if name == "" || len(name) > 200 {
		name = "value"
	}
	free := name
	for i := 1; r.taken[free]; i++ {
		free = fmt.Sprintf("%s_%d", name, i)
	}
	r.taken[free] = true
	r.names[value] = free
	return free
}

// keep declares a constant and remembers its value.
func (r *reader) keep(value string, t *tensor.Tensor) string {
	name := r.variable(value)
	trained := t.DType().IsFloat() && len(t.Dims()) > 0
	r.block.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: t.DType(), Dims: slices.Clone(t.Dims()), Persistable: true, IsParameter: trained, StopGradient: !trained})
	r.values[name], r.metas[name] = t, ops.MetaOfValue(t)
	return name
}

func (r *reader) input(in *onnx.ValueInfoProto) error {
	of := in.GetType().GetTensorType()
	if of == nil {
		return fault.E(fault.Unsupported, fault.Var(in.GetName()), fault.Got("an input that is no tensor"), fault.Want("tensors"))
	}
	dtype, err := dtypeOf(of.GetElemType(), in.GetName())
	if err != nil {
		return err
	}
	if of.Shape == nil {
		return fault.E(fault.Unsupported, fault.Var(in.GetName()), fault.Got("an input without a rank"), fault.Want("its extents, open ones with a name"))
	}
	v := program.Var{Kind: program.LoDTensor, DType: dtype, NeedCheckFeed: true}
	for _, d := range of.Shape.Dim {
		n := int64(program.Unknown)
		if known, ok := d.Value.(*onnx.TensorShapeProto_Dimension_DimValue); ok {
			if n = known.DimValue; n <= 0 {
				return fault.E(fault.InvalidArgument, fault.Var(in.GetName()), fault.Gotf("an extent of %d", n), fault.Want("at least 1, or a name"))
			}
		}
		v.Dims = append(v.Dims, n)
	}
	v.Name = r.variable(in.GetName())
	r.block.EnsureVar(v)
	r.metas[v.Name] = ops.MetaOf(&v)
	return nil
}

// add appends an op, infers its outputs and declares them.
func (r *reader) add(kind string, in, out map[string][]string, attributes map[string]program.Attr) error {
	op := &program.Op{Type: kind, Inputs: in, Outputs: out, Attrs: attributes}
	s, err := ops.Infer(op, func(name string) (ops.Meta, bool) {
		m, ok := r.metas[name]
		return m, ok
	})
	if err != nil {
		return err
	}
	for slot, names := range out {
		for i, m := range s.Outs(slot) {
			r.metas[names[i]] = m
			r.block.EnsureVar(program.Var{Name: names[i], Kind: program.LoDTensor, DType: m.DType, Dims: slices.Clone(m.Dims)})
		}
	}
	r.block.Append(op)
	return nil
}

// step is add of an op with one input X and one output Out, which is between two nodes. It returns the output.
func (r *reader) step(kind, x string, attributes map[string]program.Attr) string {
	out := r.fresh(kind)
	if err := r.add(kind, one("X", x), one("Out", out), attributes); err != nil && r.err == nil {
		r.err = err
	}
	return out
}

func (r *reader) fresh(base string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("%s_%d.tmp", base, i); !r.taken[name] {
			r.taken[name] = true
			return name
		}
	}
}

func one(slot, name string) map[string][]string { return map[string][]string{slot: {name}} }

// in returns the variable of input i of the node, "" if it is absent.
func (r *reader) in(i int) string {
	if i >= len(r.node.Input) || r.node.Input[i] == "" {
		return ""
	}
	name, ok := r.names[r.node.Input[i]]
	if _, extents := r.known[r.node.Input[i]]; extents && r.err == nil {
		r.err = unsupported("extents that the model computes, as elements", "extents as shapes of others alone")
	} else if !ok && r.err == nil {
		r.err = fault.E(fault.InvalidArgument, fault.Var(r.node.Input[i]), fault.Got("an input that nothing before has computed"), fault.Want("nodes in the order in which values are made"))
	}
	return name
}

// out makes the variable of output i of the node.
func (r *reader) out(i int) string {
	if i >= len(r.node.Output) || r.node.Output[i] == "" {
		return r.fresh("unused")
	}
	if _, have := r.names[r.node.Output[i]]; have && r.err == nil {
		r.err = fault.E(fault.InvalidArgument, fault.Var(r.node.Output[i]), fault.Got("a value that is computed twice"), fault.Want("once"))
	}
	return r.variable(r.node.Output[i])
}

// list returns the integers of a constant input; ok is false if it is absent. Otherwise the error of the node says what is missing.
func (r *reader) list(i int) (values []int64, ok bool) {
	if i < len(r.node.Input) {
		if list, ok := r.known[r.node.Input[i]]; ok && !slices.ContainsFunc(list, func(n int64) bool { return n < 0 }) {
			return list, true
		}
	}
	name := r.in(i)
	if name == "" {
		return nil, false
	}
	t := r.values[name]
	switch {
	case t != nil && t.DType() == tensor.Int64:
		return t.Int64s(), true
	case t != nil && t.DType() == tensor.Int32:
		for _, v := range t.Int32s() {
			values = append(values, int64(v))
		}
		return values, true
	case r.err == nil:
		r.err = fault.E(fault.Unsupported, fault.Var(r.node.Input[i]), fault.Got("dims or places that the model computes"), fault.Want("constants"))
	}
	return nil, false
}

// number returns the one element of a constant input, or other if it is absent.
func (r *reader) number(i int, other float64) float64 {
	name := r.in(i)
	if name == "" {
		return other
	}
	if t := r.values[name]; t != nil && t.Len() == 1 {
		switch t.DType() {
		case tensor.Float32:
			return float64(t.Float32s()[0])
		case tensor.Float64:
			return t.Float64s()[0]
		case tensor.Int64:
			return float64(t.Int64s()[0])
		case tensor.Int32:
			return float64(t.Int32s()[0])
		}
	}
	if r.err == nil {
		r.err = fault.E(fault.Unsupported, fault.Var(r.node.Input[i]), fault.Got("a number that the model computes"), fault.Want("a constant of one element"))
	}
	return other
}

func (n node) attribute(name string) *onnx.AttributeProto {
	for _, a := range n.Attribute {
		if a.GetName() == name {
			return a
		}
	}
	return nil
}

func (n node) integer(name string, other int64) int64 {
	if a := n.attribute(name); a != nil {
		return a.GetI()
	}
	return other
}

func (n node) float(name string, other float64) float64 {
	if a := n.attribute(name); a != nil {
		return float64(a.GetF())
	}
	return other
}

func (n node) integers(name string) []int64 { return n.attribute(name).GetInts() }

// dims returns the dims of a variable.
func (r *reader) dims(name string) []int64 { return r.metas[name].Dims }
