package program

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/framework"
)

func (e *encoder) variable(name string, v *Var) *framework.VarDesc {
	if v.Name != name {
		e.fault("a variable that was renamed to "+fault.Quote(v.Name), "Block.Rename to rename it").Variable = name
	}
	desc := new(framework.VarDesc)
	unmarshalRest(v.unknown, desc)
	desc.Name = e.name(name)
	desc.Type = e.varType(v)
	desc.Persistable = flag(v.Persistable)
	desc.NeedCheckFeed = flag(v.NeedCheckFeed)
	desc.IsParameter = flag(v.IsParameter)
	desc.StopGradient = flag(v.StopGradient)
	return desc
}

// flag leaves false out, the default of the format.
func flag(b bool) *bool {
	if b {
		return &b
	}
	return nil
}

func (e *encoder) varType(v *Var) *framework.VarType {
	desc := new(framework.VarType)
	unmarshalRest(v.rest, desc)
	desc.Type = new(framework.VarType_Type(v.Kind))
	switch v.Kind {
	case LoDTensor:
		desc.LodTensor = e.lodTensor(v, desc.LodTensor)
	case SelectedRows:
		desc.SelectedRows = putTensor(v, desc.SelectedRows)
	case LoDTensorArray:
		if desc.TensorArray == nil {
			desc.TensorArray = new(framework.VarType_LoDTensorArrayDesc)
		}
		desc.TensorArray.Tensor = putTensor(v, desc.TensorArray.Tensor)
		desc.TensorArray.LodLevel = e.lodLevel(v)
	case Reader:
		if desc.Reader == nil {
			desc.Reader = new(framework.VarType_ReaderDesc)
		}
		for i := range v.Fields {
			field := new(framework.VarType_LoDTensorDesc)
			unmarshalRest(v.Fields[i].rest, field)
			desc.Reader.LodTensor = append(desc.Reader.LodTensor, e.lodTensor(&v.Fields[i], field))
		}
	}
	return desc
}

func (e *encoder) lodTensor(v *Var, rest *framework.VarType_LoDTensorDesc) *framework.VarType_LoDTensorDesc {
	if rest == nil {
		rest = new(framework.VarType_LoDTensorDesc)
	}
	rest.Tensor = putTensor(v, rest.Tensor)
	rest.LodLevel = e.lodLevel(v)
	return rest
}

// lodLevel leaves zero out, the default of the format.
func (e *encoder) lodLevel(v *Var) *int32 {
	if v.LoDLevel == 0 {
		return nil
	}
	return e.int32(v.LoDLevel, "LoD level")
}

func putTensor(v *Var, rest *framework.VarType_TensorDesc) *framework.VarType_TensorDesc {
	if rest == nil {
		rest = new(framework.VarType_TensorDesc)
	}
	if v.DType != noDType {
		rest.DataType = new(framework.VarType_Type(v.DType))
	}
	rest.Dims = v.Dims
	return rest
}
