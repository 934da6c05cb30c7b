package program

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edl-go/edl/fault"
)

// Old forms of program files use today's field numbers for other things. They would decode to something wrong without an error, so
// checkForm recognises them by their shape.
const (
	formPickle = "a pickled Python dictionary (Fluid before 2018-01-24)"
	form0      = "generation 0 (Fluid before 2018-02-05)"
	formA      = "generation A (Fluid of 2018-02-05 to 02-12)"
	formAPrime = "generation A' (Fluid of 2018-02-12 to 02-15)"
	formOld    = "generation 0 or A (Fluid before 2018-02-12)"
)

// checkForm refuses files of an old form.
func checkForm(data []byte) error {
	form := ""
	if isPickle(data) {
		form = formPickle
	} else {
		form = oldGeneration(data)
	}
	if form == "" {
		return nil
	}
	return fault.E(fault.Unsupported, fault.Got("a program file of "+form), fault.Want("generation B, C or D (Fluid v0.12 or later)"),
		fault.Hint("load it with the Fluid release that wrote it and save it with a later one"))
}

// isPickle recognises Python's pickle by its first opcode, PROTO, and the protocol number. No program begins with this tag.
func isPickle(data []byte) bool {
	return len(data) >= 2 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5
}

// oldGeneration names the generation by the first variables that distinguish it, or returns "". In generations 0 and A, field 2 of a variable is a
// number. In A' it is a message whose enum of kinds begins at 1, where later generations have element types. The bytes have been scanned.
func oldGeneration(data []byte) string {
	form := ""
	eachField(data, fieldBlocks, func(block []byte) bool {
		eachField(block, fieldVars, func(variable []byte) bool {
			form = formOfVar(variable)
			return form == "" || form == formOld
		})
		return form == "" || form == formOld
	})
	return form
}

func formOfVar(variable []byte) string {
	wires := [8]protowire.Type{1: -1, 2: -1, 3: -1, 4: -1, 5: -1, 6: -1, 7: -1}
	var varType []byte
	for len(variable) > 0 {
		number, wire, n := protowire.ConsumeTag(variable)
		value := variable[n:]
		length := protowire.ConsumeFieldValue(number, wire, value)
		if int(number) < len(wires) {
			wires[number] = wire
		}
		if number == fieldVarType && wire == protowire.BytesType {
			varType, _ = protowire.ConsumeBytes(value)
		}
		variable = value[length:]
	}
	if wires[fieldVarType] != protowire.VarintType {
		if isAPrime(varType) {
			return formAPrime
		}
		return ""
	}
	switch {
	case wires[3] == protowire.VarintType || wires[5] == protowire.BytesType:
		return formA
	case wires[3] == protowire.BytesType || wires[5] == protowire.VarintType:
		return form0
	}
	return formOld
}

// isAPrime reports whether a VarType is LOD_TENSOR or SELECTED_ROWS in the old numbering and has its description.
func isAPrime(varType []byte) bool {
	var kind uint64
	var hasRows, hasTensor bool
	for len(varType) > 0 {
		number, wire, n := protowire.ConsumeTag(varType)
		value := varType[n:]
		if number == 1 && wire == protowire.VarintType {
			kind, _ = protowire.ConsumeVarint(value)
		}
		hasRows = hasRows || number == 2
		hasTensor = hasTensor || number == 3
		varType = value[protowire.ConsumeFieldValue(number, wire, value):]
	}
	return kind == 1 && hasTensor || kind == 2 && hasRows
}

// eachField calls visit with every length-delimited value of a field until visit returns false.
func eachField(message []byte, want protowire.Number, visit func([]byte) bool) {
	for len(message) > 0 {
		number, wire, n := protowire.ConsumeTag(message)
		value := message[n:]
		if number == want && wire == protowire.BytesType {
			if inner, _ := protowire.ConsumeBytes(value); !visit(inner) {
				return
			}
		}
		message = value[protowire.ConsumeFieldValue(number, wire, value):]
	}
}
