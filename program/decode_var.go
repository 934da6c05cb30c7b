package program

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/framework"
	"github.com/edl-go/edl/tensor"
)

// noDType marks a tensor whose file does not say of what. Verify refuses it.
const noDType tensor.DType = -1

func (d *decoder) variable(b *Block, desc *framework.VarDesc) {
	v := &Var{
		Name: desc.GetName(), Persistable: desc.GetPersistable(), NeedCheckFeed: desc.GetNeedCheckFeed(),
		IsParameter: desc.GetIsParameter(), StopGradient: desc.GetStopGradient(),
	}
	switch _, twice := b.vars[v.Name]; {
	case v.Name == "":
		d.fault(fault.InvalidProgram, "a variable without a name", "a name")
		return
	case twice:
		d.fault(fault.InvalidProgram, "a second variable of this name in one block", "unique names").Variable = v.Name
		return
	case desc.Type == nil:
		d.fault(fault.InvalidProgram, "no type", "a type").Variable = v.Name
		return
	}
	d.varType(v, desc.Type)
	desc.Name, desc.Type, desc.Persistable, desc.NeedCheckFeed, desc.IsParameter, desc.StopGradient = nil, nil, nil, nil, nil, nil
	v.unknown = marshalRest(desc)
	b.vars[v.Name] = v
	b.order = append(b.order, v.Name)
}

// varType moves what the IR holds of a type into v and keeps the rest as bytes.
func (d *decoder) varType(v *Var, desc *framework.VarType) {
	if desc.Type != nil {
		v.Kind = VarKind(desc.GetType())
	} else {
		kind, rest, found := takeEnum(desc.ProtoReflect().GetUnknown(), 1)
		if !found {
			d.fault(fault.InvalidProgram, "a type without a kind", "a kind").Variable = v.Name
			return
		}
		v.Kind = VarKind(kind)
		desc.ProtoReflect().SetUnknown(rest)
	}
	desc.Type = nil
	switch v.Kind {
	case LoDTensor:
		desc.LodTensor = takeLoDTensor(v, desc.LodTensor)
	case SelectedRows:
		desc.SelectedRows = takeTensor(v, desc.SelectedRows)
	case LoDTensorArray:
		array := desc.TensorArray
		v.LoDLevel = int(array.GetLodLevel())
		if tensor := takeTensor(v, array.GetTensor()); array != nil {
			array.Tensor, array.LodLevel = tensor, nil
			if tensor == nil && unknownOf(array) == nil {
				desc.TensorArray = nil
			}
		}
	case Reader:
		for _, field := range desc.Reader.GetLodTensor() {
			f := Var{Kind: LoDTensor}
			if rest := takeLoDTensor(&f, field); rest != nil {
				f.rest = marshalRest(rest)
			}
			v.Fields = append(v.Fields, f)
		}
		if desc.Reader != nil {
			desc.Reader.LodTensor = nil
			if unknownOf(desc.Reader) == nil {
				desc.Reader = nil
			}
		}
	}
	v.rest = marshalRest(desc)
}

// takeLoDTensor moves dtype, dims and LoD level into v and returns what is left, nil when nothing is.
func takeLoDTensor(v *Var, desc *framework.VarType_LoDTensorDesc) *framework.VarType_LoDTensorDesc {
	rest := takeTensor(v, desc.GetTensor())
	if desc == nil {
		return nil
	}
	v.LoDLevel = int(desc.GetLodLevel())
	desc.Tensor, desc.LodLevel = rest, nil
	if rest == nil && unknownOf(desc) == nil {
		return nil
	}
	return desc
}

// takeTensor moves dtype and dims into v and returns what is left, nil when nothing is.
func takeTensor(v *Var, desc *framework.VarType_TensorDesc) *framework.VarType_TensorDesc {
	v.DType = noDType
	if desc == nil {
		return nil
	}
	v.Dims = desc.Dims
	unknown := desc.ProtoReflect().GetUnknown()
	if desc.DataType != nil {
		v.DType = tensor.DType(desc.GetDataType())
	} else if dtype, rest, found := takeEnum(unknown, 1); found {
		v.DType, unknown = tensor.DType(dtype), rest
	}
	if len(unknown) == 0 {
		return nil
	}
	rest := new(framework.VarType_TensorDesc)
	rest.ProtoReflect().SetUnknown(unknown)
	return rest
}
