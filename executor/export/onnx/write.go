package onnx

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/onnx"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/protobuf/proto"
)

// mostBytes is how long a message of protobuf may be. ONNX keeps parameters of larger models in other files, which Write does not.
const mostBytes = math.MaxInt32

// Write writes an inference program, as export.Program makes them, and its parameters as an ONNX model. value returns the parameters by name. An open extent of an input
// stays open: the first one of each is called batch.
//
// Errors: fault.Unsupported for an op, a type or an attribute that opset 17 has no counterpart for, all of them at once; what value returns; and what to returns.
func Write(to io.Writer, p *program.Program, value func(name string) (*tensor.Tensor, error)) error {
	w := &writer{
		program: p, graph: &onnx.GraphProto{Name: "edl"}, metas: map[string]ops.Meta{}, names: map[string]string{}, taken: map[string]bool{}, value: value,
	}
	if err := w.write(); err != nil {
		return err
	}
	m := &onnx.ModelProto{
		IrVersion: irVersion, ProducerName: "edl", Graph: w.graph, OpsetImport: []*onnx.OperatorSetIdProto{{Version: Opset}},
	}
	if n := proto.Size(m); n > mostBytes {
		return fault.E(fault.Unsupported, fault.At("the ONNX model"), fault.Gotf("%d bytes", n), fault.Wantf("at most %d, the most that one file of this format holds", mostBytes))
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return err
	}
	_, err = to.Write(b)
	return err
}

// A writer makes the graph of one program.
type writer struct {
	program *program.Program
	graph   *onnx.GraphProto
	metas   map[string]ops.Meta // types of variables so far
	names   map[string]string   // the value that a variable has at this point, by the name of the variable
	taken   map[string]bool     // names of values
	value   func(name string) (*tensor.Tensor, error)
}

func (w *writer) write() error {
	if len(w.program.Blocks) > 1 {
		return fault.E(fault.Unsupported, fault.At("the program"), fault.Got("loops or branches"), fault.Want("one without blocks: ONNX models of EDL have none"))
	}
	block := w.program.Global()
	for _, v := range block.Vars() {
		w.taken[v.Name] = true
	}
	if err := w.parameters(block); err != nil {
		return err
	}
	if err := w.check(block); err != nil {
		return err
	}
	for _, name := range w.program.Feeds() {
		if err := w.input(block, name); err != nil {
			return err
		}
	}
	for _, op := range block.Ops {
		if op.Type == "feed" || op.Type == "fetch" {
			continue
		}
		if err := w.op(op); err != nil {
			return ops.At(op, err)
		}
	}
	for _, name := range w.program.Targets() {
		if err := w.output(name); err != nil {
			return err
		}
	}
	used := map[string]bool{}
	for _, n := range w.graph.Node {
		for _, name := range n.Input {
			used[name] = true
		}
	}
	w.graph.Initializer = slices.DeleteFunc(w.graph.Initializer, func(m *onnx.TensorProto) bool { return !used[m.Name] })
	return nil
}

// parameters makes initializers of what ops read.
func (w *writer) parameters(block *program.Block) error {
	read := map[string]bool{}
	for _, op := range block.Ops {
		for _, name := range op.InputNames() {
			read[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(read)) {
		v, ok := block.Var(name)
		if !ok || !v.Persistable || v.Kind != program.LoDTensor {
			continue
		}
		t, err := w.value(name)
		if err != nil {
			return err
		}
		m, err := encode(name, t)
		if err != nil {
			return err
		}
		w.graph.Initializer = append(w.graph.Initializer, m)
		w.names[name], w.metas[name] = name, ops.MetaOfValue(t)
	}
	return nil
}

// check lists all ops that have no counterpart, before the first of them.
func (w *writer) check(block *program.Block) error {
	counts, first := map[string]int{}, map[string]*program.Op{}
	for _, op := range block.Ops {
		if _, ok := writers[op.Type]; ok || op.Type == "feed" || op.Type == "fetch" {
			continue
		}
		if counts[op.Type]++; counts[op.Type] == 1 {
			first[op.Type] = op
		}
	}
	if len(counts) == 0 {
		return nil
	}
	var said []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		line := first[name].Line()
		if line != "" {
			line = ", first at " + line
		}
		said = append(said, fmt.Sprintf("%d %s%s", counts[name], name, line))
	}
	return fault.E(fault.Unsupported, fault.At("the ONNX model"), fault.Got("ops without a counterpart in ONNX: "+strings.Join(said, "; ")),
		fault.Want("another format, or a model without them"))
}

func (w *writer) input(block *program.Block, name string) error {
	v, ok := block.Var(name)
	if !ok {
		return fault.E(fault.NotFound, fault.Var(name), fault.Got("a feed op of a variable that the program does not declare"), fault.Want("its declaration"))
	}
	if v.LoDLevel > 0 {
		return fault.E(fault.Unsupported, fault.Var(name), fault.Got("sequences"), fault.Want("an input without them: ONNX has no lengths of sequences"))
	}
	info, err := describe(name, ops.MetaOf(v))
	if err != nil {
		return err
	}
	w.graph.Input = append(w.graph.Input, info)
	w.names[name], w.metas[name] = name, ops.MetaOf(v)
	return nil
}

func (w *writer) output(name string) error {
	value, ok := w.names[name]
	if !ok {
		return fault.E(fault.NotFound, fault.Var(name), fault.Got("a target that no op computes"), fault.Want("the output of an op"))
	}
	if value != name || slices.ContainsFunc(w.graph.Input, func(in *onnx.ValueInfoProto) bool { return in.Name == name }) {
		// The graph may not return what it is given under the same name, and an output is called what the user knows.
		free := w.fresh(name)
		w.node("Identity", []string{value}, []string{free})
		value = free
	}
	info, err := describe(value, w.metas[name])
	w.graph.Output = append(w.graph.Output, info)
	return err
}

// describe makes the declaration of an input or output.
func describe(name string, m ops.Meta) (*onnx.ValueInfoProto, error) {
	number, err := elementType(m.DType, name)
	if err != nil {
		return nil, err
	}
	shape := &onnx.TensorShapeProto{}
	open := 0
	for _, n := range m.Dims {
		d := &onnx.TensorShapeProto_Dimension{Value: &onnx.TensorShapeProto_Dimension_DimValue{DimValue: n}}
		if n < 0 {
			param := "batch"
			if open > 0 {
				param = fmt.Sprintf("%s_%d", name, open)
			}
			d.Value = &onnx.TensorShapeProto_Dimension_DimParam{DimParam: param}
			open++
		}
		shape.Dim = append(shape.Dim, d)
	}
	return &onnx.ValueInfoProto{Name: name, Type: &onnx.TypeProto{Value: &onnx.TypeProto_TensorType{
		TensorType: &onnx.TypeProto_Tensor{ElemType: int32(number), Shape: shape},
	}}}, nil
}

// op writes the nodes of one op.
func (w *writer) op(op *program.Op) error {
	s, err := ops.Infer(op, func(name string) (ops.Meta, bool) {
		m, ok := w.metas[name]
		return m, ok
	})
	if err != nil {
		return err
	}
	c := &call{writer: w, Shapes: s, op: op}
	if err := errors.Join(writers[op.Type](c), c.err); err != nil {
		return err
	}
	for slot, names := range op.Outputs {
		for i, m := range s.Outs(slot) {
			if _, done := w.names[names[i]]; done {
				w.metas[names[i]] = m
			}
		}
	}
	return nil
}

// fresh returns the name of a value that nothing has.
func (w *writer) fresh(base string) string {
	for i := 1; ; i++ {
		if name := fmt.Sprintf("%s/%d", base, i); !w.taken[name] {
			w.taken[name] = true
			return name
		}
	}
}

func (w *writer) node(kind string, in, out []string, attributes ...*onnx.AttributeProto) {
	attributes = slices.DeleteFunc(attributes, func(a *onnx.AttributeProto) bool { return a == nil })
	w.graph.Node = append(w.graph.Node, &onnx.NodeProto{OpType: kind, Name: fmt.Sprintf("%s_%d", kind, len(w.graph.Node)), Input: in, Output: out, Attribute: attributes})
}

// A call is one op that is being written. Its attributes, with defaults, and types are those of Shapes.
type call struct {
	*writer
	*ops.Shapes
	op  *program.Op
	err error // of its constants
}

// in returns the value of the first variable of a slot, "" for none.
func (c *call) in(slot string) string {
	if !c.Has(slot) {
		return ""
	}
	return c.names[c.op.In(slot)]
}

// ins returns the values of all variables of a slot.
func (c *call) ins(slot string) []string {
	var all []string
	for _, name := range c.op.Inputs[slot] {
		all = append(all, c.names[name])
	}
	return all
}

// out makes the name of the value that the first variable of a slot gets. A variable that is written again gets a value of another name.
func (c *call) out(slot string) string { return c.result(c.op.Out(slot)) }

func (c *call) result(variable string) string {
	value := variable
	if _, written := c.names[variable]; written {
		value = c.fresh(variable)
	}
	c.names[variable] = value
	return value
}

// between writes a node whose value only this op reads, and returns its name.
func (c *call) between(kind string, in []string, attributes ...*onnx.AttributeProto) string {
	name := c.fresh(c.op.Type)
	c.node(kind, in, []string{name}, attributes...)
	return name
}

// last writes the node of the result.
func (c *call) last(slot, kind string, in []string, attributes ...*onnx.AttributeProto) error {
	c.node(kind, in, []string{c.out(slot)}, attributes...)
	return nil
}

// ints makes a constant list of int64, for inputs that opset 17 has in place of attributes.
func (c *call) ints(values ...int64) string {
	t, err := tensor.FromSlice(slices.Clone(values), int64(len(values)))
	return c.constant(t, err)
}

// number makes a constant of one element.
func (c *call) number(dtype tensor.DType, v float64) string {
	t, err := scalar(dtype, v)
	return c.constant(t, err)
}

// constant adds an initializer. The op fails with err, and with what makes the value none of ONNX's.
func (c *call) constant(t *tensor.Tensor, err error) string {
	name := c.fresh(c.op.Type)
	if err == nil {
		var m *onnx.TensorProto
		if m, err = encode(name, t); err == nil {
			c.graph.Initializer = append(c.graph.Initializer, m)
		}
	}
	c.err = errors.Join(c.err, err)
	return name
}

// refuse makes the error of an op that has no counterpart with this attribute or input.
func (c *call) refuse(got, want string) error {
	return fault.E(fault.Unsupported, fault.Got(got), fault.Want(want+" in an ONNX model"))
}

// noTensors refuses attributes that tensors give.
func (c *call) noTensors(slots ...string) error {
	for _, slot := range slots {
		if c.Has(slot) {
			return c.refuse(slot+", which the program computes", "the attribute in its place")
		}
	}
	return nil
}

func attrInt(name string, v int64) *onnx.AttributeProto {
	return &onnx.AttributeProto{Name: name, Type: onnx.AttributeProto_INT, I: v}
}

func attrBool(name string, v bool) *onnx.AttributeProto {
	if v {
		return attrInt(name, 1)
	}
	return attrInt(name, 0)
}

func attrFloat(name string, v float64) *onnx.AttributeProto {
	return &onnx.AttributeProto{Name: name, Type: onnx.AttributeProto_FLOAT, F: float32(v)}
}

func attrInts(name string, v []int64) *onnx.AttributeProto {
	return &onnx.AttributeProto{Name: name, Type: onnx.AttributeProto_INTS, Ints: v}
}

func attrStr(name, v string) *onnx.AttributeProto {
	return &onnx.AttributeProto{Name: name, Type: onnx.AttributeProto_STRING, S: []byte(v)}
}
