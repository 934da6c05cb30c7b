package program_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/framework"
)

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
