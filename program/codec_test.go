package program_test

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/framework"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func TestEveryValueSurvivesARoundTrip(t *testing.T) {
	p := regression(t)
	p.Version = 2_001_000
	b := p.Global()
	child := p.NewBlock(b)
	child.Forward = 0
	want := program.Attrs{
		"int": int32(-1), "float": float32(math.Inf(-1)), "string": "é", "ints": []int32{1, -1}, "floats": []float32{0.5}, "strings": []string{"a", ""},
		"bool": true, "bools": []bool{true, false}, "block": program.BlockIndex(1), "long": int64(math.MinInt64), "blocks": []program.BlockIndex{1},
		"longs": []int64{1 << 40}, "float64s": []float64{1e300}, "float64": 1e-300, "empty": []int64(nil),
	}
	op := child.Append(&program.Op{Type: "while", IsTarget: true, Inputs: map[string][]string{"X": {"x", program.Empty}, "None": {}}, Attrs: want})
	reader := program.Var{Name: "reader", Kind: program.Reader, Persistable: true,
		Fields: []program.Var{{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{program.Unknown, 1}, LoDLevel: 1}}}
	rows := program.Var{Name: "rows", Kind: program.SelectedRows, DType: tensor.Float64, Dims: []int64{1 << 33, 4}}
	array := program.Var{Name: "array", Kind: program.LoDTensorArray, DType: tensor.Float32, Dims: []int64{2}, LoDLevel: 2}
	for _, v := range []program.Var{reader, rows, array} {
		if _, err := child.AddVar(v); err != nil {
			t.Fatal(err)
		}
	}

	got := decode(t, encode(t, p))
	if got.Version != p.Version || len(got.Blocks) != 2 ||
		got.Blocks[1].Parent != 0 || got.Blocks[1].Forward != 0 || got.Global().Forward != program.NoBlock {
		t.Errorf("the blocks came back as %+v", got)
	}
	back := got.Blocks[1].Ops[0]
	if !reflect.DeepEqual(back.Attrs, want) {
		t.Errorf("attributes %v came back as %v", want, back.Attrs)
	}
	if !back.IsTarget || back.Type != op.Type || !slices.Equal(back.Inputs["X"], op.Inputs["X"]) {
		t.Errorf("%+v came back as %+v", op, back)
	}
	for _, v := range []program.Var{reader, rows, array} {
		if back, _ := got.Blocks[1].Var(v.Name); back == nil || !reflect.DeepEqual(*back, v) {
			t.Errorf("%+v came back as %+v", v, back)
		}
	}
	if x, _ := got.Global().Var("x"); !x.NeedCheckFeed || !x.StopGradient || x.IsParameter {
		t.Errorf("the flags of x came back as %+v", x)
	}
	if got.Startup == nil || len(got.Startup.Global().Ops) != 2 {
		t.Error("the startup program did not come back")
	}
}

func TestEqualProgramsHaveEqualBytes(t *testing.T) {
	p := regression(t)
	reordered := program.New()
	vars := p.Global().Vars()
	slices.Reverse(vars)
	for _, v := range vars {
		reordered.Global().EnsureVar(*v)
	}
	for _, op := range p.Global().Ops {
		reordered.Global().Append(op.Clone())
	}
	reordered.Startup = p.Startup
	if !bytes.Equal(encode(t, p), encode(t, reordered)) {
		t.Error("the order in which variables were made changes the bytes")
	}
}

func TestUniqueNamesGoOnBehindThoseOfTheFile(t *testing.T) {
	p := decode(t, encode(t, regression(t)))
	for prefix, want := range map[string]string{"fc": "fc_1", "fc_0.w": "fc_0.w_1", "fc_0.tmp": "fc_0.tmp_2", "fresh": "fresh_0"} {
		if got := p.UniqueName(prefix); got != want {
			t.Errorf("the next %s is %s, want %s", prefix, got, want)
		}
	}
	if got := p.Clone().UniqueName("fc"); got != "fc_2" {
		t.Errorf("a clone goes on with %s", got)
	}
}

func TestEncodeRefusesWhatAFileCannotHold(t *testing.T) {
	tests := map[string]struct {
		spoil func(*program.Program)
		words []string
	}{
		"attribute of a Go int": {func(p *program.Program) { p.Global().Ops[0].SetAttr("axis", 5) },
			[]string{"block 0, op 0", "axis", "Go type int", "fit.go:12"}},
		"name that is no UTF-8": {func(p *program.Program) { p.Global().Ops[1].Inputs["X"][0] = "\xff" }, []string{"block 0, op 1", "UTF-8"}},
		"op without a type": {func(p *program.Program) { p.Startup.Global().Ops[0].Type = "" },
			[]string{"startup program, block 0, op 0", "empty name"}},
		"renamed variable":     {func(p *program.Program) { p.Global().Vars()[0].Name = "z" }, []string{`"z"`, `"x"`}},
		"no block":             {func(p *program.Program) { p.Blocks = nil }, []string{"no block"}},
		"moved block":          {func(p *program.Program) { p.Blocks[0].Index = 3 }, []string{"index 3"}},
		"startup of a startup": {func(p *program.Program) { p.Startup.Startup = program.NewStartup() }, []string{"startup program of a startup program"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := regression(t)
			test.spoil(p)
			_, err := p.Encode()
			requireFault(t, err, fault.InvalidProgram, test.words...)
		})
	}
}

func TestRealModelsSurviveARoundTrip(t *testing.T) {
	for name, data := range models(t) {
		t.Run(name, func(t *testing.T) {
			p := decode(t, data)
			again := encode(t, p)
			original, rewritten := new(framework.ProgramDesc), new(framework.ProgramDesc)
			if err := proto.Unmarshal(data, original); err != nil {
				t.Fatal(err)
			}
			if err := proto.Unmarshal(again, rewritten); err != nil {
				t.Fatal(err)
			}
			// Generation D keeps the version in field 4, and defaults and orders have no meaning.
			if original.Version == nil {
				original.Version = original.LegacyVersion
			}
			if original.Version == nil {
				original.Version = new(framework.Version)
			}
			original.LegacyVersion = nil
			if rewritten.LegacyVersion != nil {
				t.Error("the version is still in field 2")
			}
			for _, v := range original.Blocks[0].Vars {
				if name := strings.TrimSuffix(v.GetName(), "@GRAD"); name == "mean_0.tmp_0" && v.GetPersistable() { // a loss, which is no state
					v.Persistable = nil
				}
			}
			normalize(original.ProtoReflect())
			normalize(rewritten.ProtoReflect())
			if !proto.Equal(original, rewritten) {
				t.Error("the file changed its meaning")
			}
			if !bytes.Equal(again, encode(t, decode(t, again))) {
				t.Error("encoding twice gives other bytes")
			}
		})
	}
}

// normalize drops optional fields that hold their default and sorts what has no order.
func normalize(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsList() && field.Message() != nil:
			list := value.List()
			for i := range list.Len() {
				normalize(list.Get(i).Message())
			}
		case field.Message() != nil:
			normalize(value.Message())
		case !field.IsList() && field.HasPresence() && value.Equal(field.Default()) && m.Descriptor().Name() != "Attr":
			m.Clear(field)
		}
		return true
	})
	switch desc := m.Interface().(type) {
	case *framework.BlockDesc:
		slices.SortFunc(desc.Vars, func(a, b *framework.VarDesc) int { return strings.Compare(a.GetName(), b.GetName()) })
	case *framework.OpDesc:
		bySlot := func(a, b *framework.OpDesc_Var) int { return strings.Compare(a.GetParameter(), b.GetParameter()) }
		slices.SortFunc(desc.Inputs, bySlot)
		slices.SortFunc(desc.Outputs, bySlot)
		slices.SortFunc(desc.Attrs, func(a, b *framework.OpDesc_Attr) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
}

// field appends a length-delimited field.
func field(b []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}

func number(b []byte, number protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), value)
}

// block wraps fields of a BlockDesc into a program of one block.
func block(fields ...[]byte) []byte {
	body := number(nil, 1, 0)
	body = number(body, 2, ^uint64(0))
	return field(nil, 1, append(body, bytes.Join(fields, nil)...))
}

// op wraps fields of an OpDesc into a program of one op.
func op(fields ...[]byte) []byte {
	return block(field(nil, 4, append(field(nil, 3, []byte("relu")), bytes.Join(fields, nil)...)))
}

// attr wraps fields of an attribute named "a" into a program of one op.
func attr(fields ...[]byte) []byte {
	return op(field(nil, 4, append(field(nil, 1, []byte("a")), bytes.Join(fields, nil)...)))
}

// variable makes the field of a BlockDesc that declares a float tensor.
func variable(name string, dims ...int64) []byte {
	desc := number(nil, 1, 5)
	for _, d := range dims {
		desc = number(desc, 2, uint64(d))
	}
	varType := field(number(nil, 1, 7), 3, field(nil, 1, desc))
	return field(nil, 3, field(field(nil, 1, []byte(name)), 2, varType))
}

// nestedGroups opens and closes unknown groups within each other.
func nestedGroups(depth int) []byte {
	b := bytes.Repeat(protowire.AppendTag(nil, 50, protowire.StartGroupType), depth)
	return append(b, bytes.Repeat(protowire.AppendTag(nil, 50, protowire.EndGroupType), depth)...)
}

// packedVarints returns n elements of one byte.
func packedVarints(n int) []byte { return make([]byte, n) }

func TestUnknownFieldsSurviveAtEveryLevel(t *testing.T) {
	unknown := protowire.AppendTag(nil, 900, protowire.BytesType)
	unknown = protowire.AppendString(unknown, "from a later version")
	tensorDesc := &framework.VarType_TensorDesc{DataType: framework.VarType_FP32.Enum(), Dims: []int64{1}}
	lodTensor := &framework.VarType_LoDTensorDesc{Tensor: tensorDesc}
	varType := &framework.VarType{Type: framework.VarType_LOD_TENSOR.Enum(), LodTensor: lodTensor}
	field := &framework.VarType_LoDTensorDesc{Tensor: &framework.VarType_TensorDesc{DataType: framework.VarType_FP32.Enum()}}
	reader := &framework.VarType_ReaderDesc{LodTensor: []*framework.VarType_LoDTensorDesc{field}}
	array := &framework.VarType_LoDTensorArrayDesc{Tensor: &framework.VarType_TensorDesc{DataType: framework.VarType_FP32.Enum()}}
	variable := &framework.VarDesc{Name: new("v"), Type: varType,
		Attrs: []*framework.VarDesc_Attr{{Name: new("kept"), Type: framework.AttrType_INT.Enum(), I: new(int32(7))}}}
	slot := &framework.OpDesc_Var{Parameter: new("X"), Arguments: []string{"v"}}
	out := &framework.OpDesc_Var{Parameter: new("X"), Arguments: []string{"v"}}
	attr := &framework.OpDesc_Attr{Name: new("X"), Type: framework.AttrType_INT.Enum(), I: new(int32(1))}
	scalar := &framework.OpDesc_Attr{Name: new("scalar"), Type: framework.AttrType_SCALAR.Enum(),
		Scalar: &framework.Scalar{Type: framework.Scalar_LONG.Enum(), I: new(int64(5))}}
	later := &framework.OpDesc_Attr{Name: new("later"), Type: new(framework.AttrType(99))}
	op := &framework.OpDesc{Type: new("relu"), Inputs: []*framework.OpDesc_Var{slot}, Outputs: []*framework.OpDesc_Var{out},
		Attrs: []*framework.OpDesc_Attr{attr, later, scalar}}
	block := &framework.BlockDesc{Idx: new(int32(0)), ParentIdx: new(int32(-1)), Ops: []*framework.OpDesc{op}, Vars: []*framework.VarDesc{
		{Name: new("array"), Type: &framework.VarType{Type: framework.VarType_LOD_TENSOR_ARRAY.Enum(), TensorArray: array}},
		{Name: new("later"), Type: &framework.VarType{Type: new(framework.VarType_Type(77))}},
		{Name: new("reader"), Type: &framework.VarType{Type: framework.VarType_READER.Enum(), Reader: reader}},
		variable,
	}}
	desc := &framework.ProgramDesc{Blocks: []*framework.BlockDesc{block}, Version: &framework.Version{Version: new(int64(3))},
		OpVersionMap: &framework.OpVersionMap{Pair: []*framework.OpVersionMap_OpVersionPair{{OpName: new("relu"),
			OpVersion: &framework.OpVersion{Version: new(int32(2))}}}}}
	for _, m := range []proto.Message{tensorDesc, lodTensor, varType, field, field.Tensor, reader, array, array.Tensor, variable,
		variable.Attrs[0], slot, out, attr, scalar, scalar.Scalar, later, op, block, desc, desc.Version, desc.OpVersionMap} {
		m.ProtoReflect().SetUnknown(unknown)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(desc)
	if err != nil {
		t.Fatal(err)
	}
	p := decode(t, data)
	if !bytes.Equal(encode(t, p), data) {
		t.Error("decoding and encoding changed bytes")
	}
	if !bytes.Equal(encode(t, p.Clone()), data) {
		t.Error("a clone lost unknown fields")
	}
	if got := p.Global().Ops[0].Attrs["later"].(program.Opaque).Type; got != 99 {
		t.Errorf("the type of a later version reads as %d", got)
	}
}
