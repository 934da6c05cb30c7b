package program

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// A form is one of the layouts that program files have had. Old forms use today's field numbers for other things: they would decode to something
// wrong without an error, so formOf recognises them by their shape.
type form int

const (
	formToday  form = iota // generations B, C and D
	form0                  // Fluid before 2018-02-05
	formA                  // Fluid of 2018-02-05 to 02-12
	formAPrime             // Fluid of 2018-02-12 to 02-15
)

// formOf tells the form by the first variable that decides it. In generations 0 and A, field 2 of a variable is a number. In A' it is a message
// whose enum of kinds begins at 1, where later generations have element types. Malformed bytes end the search: scan refuses them.
func formOf(data []byte) form {
	decided, old := false, false
	f := formToday
	eachField(data, fieldBlocks, func(block []byte) bool {
		eachField(block, fieldVars, func(variable []byte) bool {
			var isOld bool
			f, isOld, decided = formOfVar(variable)
			old = old || isOld
			return !decided
		})
		return !decided
	})
	if !decided && old {
		return formA // no variable has a field that 0 and A number differently
	}
	return f
}

// formOfVar returns the form that a variable has. If the variable does not decide, isOld says whether it is one of 0 or A.
func formOfVar(variable []byte) (f form, isOld, decided bool) {
	wires := [8]protowire.Type{1: -1, 2: -1, 3: -1, 4: -1, 5: -1, 6: -1, 7: -1}
	var varType []byte
	for len(variable) > 0 {
		number, wire, value, rest, ok := nextField(variable)
		if !ok {
			break
		}
		if int(number) < len(wires) {
			wires[number] = wire
		}
		if number == fieldVarType && wire == protowire.BytesType {
			varType, _ = protowire.ConsumeBytes(value)
		}
		variable = rest
	}
	if wires[fieldVarType] != protowire.VarintType {
		aPrime, today := formOfType(varType)
		if aPrime {
			return formAPrime, true, true
		}
		return formToday, false, today
	}
	switch {
	case wires[3] == protowire.VarintType || wires[5] == protowire.BytesType:
		return formA, true, true
	case wires[3] == protowire.BytesType || wires[5] == protowire.VarintType:
		return form0, true, true
	}
	return formA, true, false
}

// formOfType reports whether a VarType is LOD_TENSOR or SELECTED_ROWS with its description, in the numbering of A' or in that of today.
func formOfType(varType []byte) (aPrime, today bool) {
	var kind uint64
	var hasRows, hasTensor bool
	for len(varType) > 0 {
		number, wire, value, rest, ok := nextField(varType)
		if !ok {
			break
		}
		if number == 1 && wire == protowire.VarintType {
			kind, _ = protowire.ConsumeVarint(value)
		}
		hasRows = hasRows || number == 2
		hasTensor = hasTensor || number == 3
		varType = rest
	}
	return kind == 1 && hasTensor || kind == 2 && hasRows,
		VarKind(kind) == LoDTensor && hasTensor || VarKind(kind) == SelectedRows && hasRows
}

// eachField calls visit with every length-delimited value of a field until visit returns false or the bytes are malformed.
func eachField(message []byte, want protowire.Number, visit func([]byte) bool) {
	for len(message) > 0 {
		number, wire, value, rest, ok := nextField(message)
		if !ok {
			return
		}
		if number == want && wire == protowire.BytesType {
			if inner, _ := protowire.ConsumeBytes(value); !visit(inner) {
				return
			}
		}
		message = rest
	}
}

// nextField splits the first field from a message. value has the length before the bytes of a length-delimited field. ok is false if the message is malformed.
func nextField(message []byte) (number protowire.Number, wire protowire.Type, value, rest []byte, ok bool) {
	number, wire, n := protowire.ConsumeTag(message)
	if n < 0 {
		return 0, 0, nil, nil, false
	}
	length := protowire.ConsumeFieldValue(number, wire, message[n:])
	if length < 0 {
		return 0, 0, nil, nil, false
	}
	return number, wire, message[n : n+length], message[n+length:], true
}
