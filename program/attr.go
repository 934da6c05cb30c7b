package program

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/proto/framework"
)

// An Attr is the value of an attribute. Its Go type is its Fluid AttrType:
//
//	int32 INT, float32 FLOAT, string STRING, bool BOOLEAN, int64 LONG, float64 FLOAT64, BlockIndex BLOCK,
//	[]int32 INTS, []float32 FLOATS, []string STRINGS, []bool BOOLEANS, []int64 LONGS, []float64 FLOAT64S,
//	[]BlockIndex BLOCKS, and Opaque for the types of later Fluid versions. Decode reads those that it knows as one of the others (later.go) and keeps the rest.
type Attr any

// BlockIndex is the value of a BLOCK attribute: the index of a block of the same program.
type BlockIndex int32

// Opaque is an attribute of a type that EDL does not interpret. Decode and Encode keep it.
type Opaque struct {
	Type int32 // Fluid's AttrType number
	raw  []byte
}

// Attrs are attributes by name. Its methods read one as the Go type that a kernel wants. Each returns false where there is none of that name, and where its type does not fit.
type Attrs map[string]Attr

// Int returns an integer attribute. Fluid versions write different types, so Int takes INT, LONG, BOOLEAN, and a list of one.
func (attrs Attrs) Int(name string) (int64, bool) {
	switch v := attrs[name].(type) {
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case []int32:
		if len(v) == 1 {
			return int64(v[0]), true
		}
	case []int64:
		if len(v) == 1 {
			return v[0], true
		}
	}
	return 0, false
}

// Ints returns a list of integers: INTS, LONGS, a single INT or LONG, or an empty list of numbers, whose type writers could not know.
func (attrs Attrs) Ints(name string) ([]int64, bool) {
	switch v := attrs[name].(type) {
	case []int32:
		out := make([]int64, len(v))
		for i, x := range v {
			out[i] = int64(x)
		}
		return out, true
	case []int64:
		return slices.Clone(v), true
	case int32:
		return []int64{int64(v)}, true
	case int64:
		return []int64{v}, true
	case []float32:
		return nil, len(v) == 0
	case []float64:
		return nil, len(v) == 0
	}
	return nil, false
}

// Float returns a number: FLOAT, FLOAT64, INT, LONG, or a list of one number.
func (attrs Attrs) Float(name string) (float64, bool) {
	switch v := attrs[name].(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	case int32:
		return float64(v), true
	case int64:
		return float64(v), true
	case []float32:
		if len(v) == 1 {
			return float64(v[0]), true
		}
	case []float64:
		if len(v) == 1 {
			return v[0], true
		}
	}
	return 0, false
}

// Floats returns a list of numbers: FLOATS, FLOAT64S, a single FLOAT or FLOAT64, or an empty list of integers.
func (attrs Attrs) Floats(name string) ([]float64, bool) {
	switch v := attrs[name].(type) {
	case []float32:
		out := make([]float64, len(v))
		for i, x := range v {
			out[i] = float64(x)
		}
		return out, true
	case []float64:
		return slices.Clone(v), true
	case float32:
		return []float64{float64(v)}, true
	case float64:
		return []float64{v}, true
	case []int32:
		return nil, len(v) == 0
	case []int64:
		return nil, len(v) == 0
	}
	return nil, false
}

// Bool returns a truth value: BOOLEAN, or INT and LONG, where all but zero mean true.
func (attrs Attrs) Bool(name string) (value, ok bool) {
	switch v := attrs[name].(type) {
	case bool:
		return v, true
	case int32:
		return v != 0, true
	case int64:
		return v != 0, true
	}
	return false, false
}

// Str returns a STRING attribute.
func (attrs Attrs) Str(name string) (string, bool) {
	v, ok := attrs[name].(string)
	return v, ok
}

// Strs returns a STRINGS attribute, or an empty list of numbers, whose type writers could not know. The caller must not change it.
func (attrs Attrs) Strs(name string) ([]string, bool) {
	switch v := attrs[name].(type) {
	case []string:
		return v, true
	case []int32:
		return nil, len(v) == 0
	case []float32:
		return nil, len(v) == 0
	}
	return nil, false
}

// SubBlock returns a BLOCK attribute.
func (attrs Attrs) SubBlock(name string) (BlockIndex, bool) {
	v, ok := attrs[name].(BlockIndex)
	return v, ok
}

// SubBlocks returns every block in the BLOCK and BLOCKS attributes, in the order of attribute names.
func (attrs Attrs) SubBlocks() []BlockIndex {
	var names []string
	for name, a := range attrs {
		switch a.(type) {
		case BlockIndex, []BlockIndex:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var all []BlockIndex
	for _, name := range names {
		switch v := attrs[name].(type) {
		case BlockIndex:
			all = append(all, v)
		case []BlockIndex:
			all = append(all, v...)
		}
	}
	return all
}

// CloneAttr returns a copy that shares no memory with a.
func CloneAttr(a Attr) Attr {
	switch v := a.(type) {
	case []int32:
		return slices.Clone(v)
	case []float32:
		return slices.Clone(v)
	case []string:
		return slices.Clone(v)
	case []bool:
		return slices.Clone(v)
	case []int64:
		return slices.Clone(v)
	case []float64:
		return slices.Clone(v)
	case []BlockIndex:
		return slices.Clone(v)
	}
	return a
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m)) // at once: plans of batches of new lengths list the slots of all ops
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// An attrForm converts attributes of one Fluid AttrType between the IR and the file.
type attrForm struct {
	name string
	take func(*framework.OpDesc_Attr) (Attr, bool) // moves the value out of the message
	put  func(*framework.OpDesc_Attr, Attr)
}

// attrForms has an entry for each AttrType that the IR interprets.
var attrForms = map[int32]attrForm{
	0:  scalarForm("INT", func(a *framework.OpDesc_Attr) **int32 { return &a.I }),
	1:  scalarForm("FLOAT", func(a *framework.OpDesc_Attr) **float32 { return &a.F }),
	2:  scalarForm("STRING", func(a *framework.OpDesc_Attr) **string { return &a.S }),
	3:  listForm("INTS", func(a *framework.OpDesc_Attr) *[]int32 { return &a.Ints }),
	4:  listForm("FLOATS", func(a *framework.OpDesc_Attr) *[]float32 { return &a.Floats }),
	5:  listForm("STRINGS", func(a *framework.OpDesc_Attr) *[]string { return &a.Strings }),
	6:  scalarForm("BOOLEAN", func(a *framework.OpDesc_Attr) **bool { return &a.B }),
	7:  listForm("BOOLEANS", func(a *framework.OpDesc_Attr) *[]bool { return &a.Bools }),
	8:  {name: "BLOCK", take: takeBlock, put: putBlock},
	9:  scalarForm("LONG", func(a *framework.OpDesc_Attr) **int64 { return &a.L }),
	10: {name: "BLOCKS", take: takeBlocks, put: putBlocks},
	11: listForm("LONGS", func(a *framework.OpDesc_Attr) *[]int64 { return &a.Longs }),
	12: listForm("FLOAT64S", func(a *framework.OpDesc_Attr) *[]float64 { return &a.Float64S }),
	15: scalarForm("FLOAT64", func(a *framework.OpDesc_Attr) **float64 { return &a.Float64 }),
}

// attrType returns the Fluid AttrType of a value. It returns false for a Go type that Attr does not list.
func attrType(a Attr) (int32, bool) {
	switch v := a.(type) {
	case int32:
		return 0, true
	case float32:
		return 1, true
	case string:
		return 2, true
	case []int32:
		return 3, true
	case []float32:
		return 4, true
	case []string:
		return 5, true
	case bool:
		return 6, true
	case []bool:
		return 7, true
	case BlockIndex:
		return 8, true
	case int64:
		return 9, true
	case []BlockIndex:
		return 10, true
	case []int64:
		return 11, true
	case []float64:
		return 12, true
	case float64:
		return 15, true
	case Opaque:
		return v.Type, true
	}
	return 0, false
}

// AttrTypeName returns Fluid's name of an attribute's type, such as "INTS". For a value that is no Attr it returns the Go type.
func AttrTypeName(a Attr) string {
	number, ok := attrType(a)
	if form, known := attrForms[number]; ok && known {
		return form.name
	}
	if opaque, ok := a.(Opaque); ok {
		return framework.AttrType(opaque.Type).String()
	}
	return fmt.Sprintf("Go type %T", a)
}

func scalarForm[T any](name string, field func(*framework.OpDesc_Attr) **T) attrForm {
	return attrForm{
		name: name,
		take: func(a *framework.OpDesc_Attr) (Attr, bool) {
			p := field(a)
			if *p == nil {
				return nil, false
			}
			value := **p
			*p = nil
			return value, true
		},
		put: func(a *framework.OpDesc_Attr, value Attr) { *field(a) = new(value.(T)) },
	}
}

// listForm reads an absent list as an empty one, because files do not distinguish them.
func listForm[T any](name string, field func(*framework.OpDesc_Attr) *[]T) attrForm {
	return attrForm{
		name: name,
		take: func(a *framework.OpDesc_Attr) (Attr, bool) {
			p := field(a)
			value := *p
			*p = nil
			return value, true
		},
		put: func(a *framework.OpDesc_Attr, value Attr) { *field(a) = value.([]T) },
	}
}

func takeBlock(a *framework.OpDesc_Attr) (Attr, bool) {
	if a.BlockIdx == nil {
		return nil, false
	}
	index := BlockIndex(*a.BlockIdx)
	a.BlockIdx = nil
	return index, true
}

func putBlock(a *framework.OpDesc_Attr, value Attr) { a.BlockIdx = new(int32(value.(BlockIndex))) }

func takeBlocks(a *framework.OpDesc_Attr) (Attr, bool) {
	indices := make([]BlockIndex, len(a.BlocksIdx))
	for i, index := range a.BlocksIdx {
		indices[i] = BlockIndex(index)
	}
	a.BlocksIdx = nil
	return indices, true
}

func putBlocks(a *framework.OpDesc_Attr, value Attr) {
	for _, index := range value.([]BlockIndex) {
		a.BlocksIdx = append(a.BlocksIdx, int32(index))
	}
}
