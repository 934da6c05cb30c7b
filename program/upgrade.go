package program

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// upgrade rewrites a file of an old form as generation B. Only variables differ: their fields had other numbers, and the kinds of variables began
// at 1. Malformed bytes stay as they are, so that scan refuses them. The result is at most a few bytes a variable longer than data.
func upgrade(data []byte, f form) []byte {
	return rewrite(data, fieldBlocks, func(block []byte) []byte {
		return rewrite(block, fieldVars, func(variable []byte) []byte {
			if f == formAPrime {
				return rewrite(variable, fieldVarType, upgradeType)
			}
			return upgradeVar(variable, oldVarFields[f])
		})
	})
}

// rewrite copies a message and replaces each length-delimited value of one field by what change makes of it.
func rewrite(message []byte, field protowire.Number, change func([]byte) []byte) []byte {
	out := make([]byte, 0, len(message)+len(message)/8)
	for len(message) > 0 {
		number, wire, value, rest, ok := nextField(message)
		if !ok {
			return append(out, message...)
		}
		if number == field && wire == protowire.BytesType {
			inner, _ := protowire.ConsumeBytes(value)
			out = protowire.AppendTag(out, field, protowire.BytesType)
			out = protowire.AppendBytes(out, change(inner))
		} else {
			out = append(out, message[:len(message)-len(rest)]...)
		}
		message = rest
	}
	return out
}

// oldVarFields says for each field of an old VarDesc which field of today's VarType describes the variable, and which field is persistable.
var oldVarFields = map[form]oldVar{
	form0: {persistable: 5, types: map[protowire.Number]protowire.Number{3: 3, 4: 2, 6: 4}},
	formA: {persistable: 3, types: map[protowire.Number]protowire.Number{4: 3, 5: 2, 6: 4, 7: 5}},
}

type oldVar struct {
	persistable protowire.Number
	types       map[protowire.Number]protowire.Number
}

// upgradeVar writes a VarDesc of generation 0 or A anew. Fields that the generation did not have are dropped: today they would mean something.
func upgradeVar(variable []byte, old oldVar) []byte {
	var out, varType []byte
	for len(variable) > 0 {
		number, wire, value, rest, valid := nextField(variable)
		if !valid {
			return append(out, variable...)
		}
		switch described, ok := old.types[number]; {
		case number == 1:
			out = append(out, variable[:len(variable)-len(rest)]...)
		case number == fieldVarType && wire == protowire.VarintType:
			varType = appendKind(varType, value)
		case number == old.persistable:
			out = protowire.AppendTag(out, 3, wire)
			out = append(out, value...)
		case ok:
			varType = protowire.AppendTag(varType, described, wire)
			varType = append(varType, value...)
		}
		variable = rest
	}
	out = protowire.AppendTag(out, fieldVarType, protowire.BytesType)
	return protowire.AppendBytes(out, varType)
}

// upgradeType writes a VarType of generation A' anew.
func upgradeType(varType []byte) []byte {
	out := make([]byte, 0, len(varType))
	for len(varType) > 0 {
		number, wire, value, rest, ok := nextField(varType)
		if !ok {
			return append(out, varType...)
		}
		if number == 1 && wire == protowire.VarintType {
			out = appendKind(out, value)
		} else {
			out = append(out, varType[:len(varType)-len(rest)]...)
		}
		varType = rest
	}
	return out
}

// noKind is no kind of variable in any generation.
const noKind = 1000

// appendKind appends the kind of a variable in today's numbering. The old one began at 1 with what is LoDTensor today, in the same order up to
// 9, READER. A kind outside becomes one that no generation has.
func appendKind(out, value []byte) []byte {
	kind, _ := protowire.ConsumeVarint(value)
	if kind < 1 || kind > 9 {
		kind = noKind
	} else {
		kind += uint64(LoDTensor) - 1
	}
	out = protowire.AppendTag(out, 1, protowire.VarintType)
	return protowire.AppendVarint(out, kind)
}
