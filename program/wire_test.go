package program_test

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

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
