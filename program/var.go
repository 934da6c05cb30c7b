package program

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/proto/framework"
	"github.com/edl-go/edl/tensor"
)

// A VarKind is the kind of a variable. Its numbers are Fluid's VarType.Type.
type VarKind int32

// Kinds of variable. Only those that EDL runs have names here; others keep their number.
const (
	LoDTensor      VarKind = 7
	SelectedRows   VarKind = 8
	FeedMinibatch  VarKind = 9
	FetchList      VarKind = 10
	StepScopes     VarKind = 11
	LoDRankTable   VarKind = 12
	LoDTensorArray VarKind = 13
	Reader         VarKind = 15
	Raw            VarKind = 17
)

// Unknown marks an extent that a program leaves open, such as the batch.
const Unknown = -1

// A Var declares a variable of a block.
type Var struct {
	Name     string
	Kind     VarKind
	DType    tensor.DType
	Dims     []int64 // Unknown where open
	LoDLevel int     // how many levels of sequences divide the rows; 0 for none

	Persistable   bool // keeps its value from step to step and is saved
	IsParameter   bool // trained by an optimizer
	StopGradient  bool // no gradient flows through it
	NeedCheckFeed bool // a feed must match DType and Dims

	Fields []Var // of a Reader: the variables of one read; only DType, Dims and LoDLevel count

	unknown []byte // of VarDesc
	rest    []byte // of VarType: everything that is not in the fields above
}

func (v *Var) clone() *Var {
	c := *v
	c.Dims = slices.Clone(v.Dims)
	c.Fields = slices.Clone(v.Fields)
	for i := range c.Fields {
		c.Fields[i] = *c.Fields[i].clone()
	}
	return &c
}

// Copy returns a copy that shares nothing. It has the given name, unless that is empty.
func (v *Var) Copy(name string) Var {
	c := v.clone()
	if name != "" {
		c.Name = name
	}
	return *c
}

// String returns Fluid's name of the kind in lower case, such as "lod_tensor". It returns the number of a kind that Fluid does not have.
func (k VarKind) String() string { return strings.ToLower(framework.VarType_Type(k).String()) }
