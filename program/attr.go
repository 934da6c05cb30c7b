package program

import (
	"maps"
	"slices"
)

// An Attr is the value of an attribute. Its Go type is its Fluid AttrType:
//
//	int32 INT, float32 FLOAT, string STRING, bool BOOLEAN, int64 LONG, float64 FLOAT64, BlockIndex BLOCK,
//	[]int32 INTS, []float32 FLOATS, []string STRINGS, []bool BOOLEANS, []int64 LONGS, []float64 FLOAT64S,
//	[]BlockIndex BLOCKS, and Opaque for the types of later Fluid versions that EDL only carries along.
type Attr any

// BlockIndex is the value of a BLOCK attribute: the index of a block of the same program.
type BlockIndex int32

// Opaque is an attribute of a type that EDL does not interpret. It survives the round trip.
type Opaque struct {
	Type int32 // Fluid's AttrType number
	raw  []byte
}

func cloneAttr(a Attr) Attr {
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

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
