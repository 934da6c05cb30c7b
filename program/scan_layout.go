package program

import "google.golang.org/protobuf/encoding/protowire"

// Numbers of fields that are looked for in raw bytes.
const (
	fieldBlocks  = 1    // of ProgramDesc
	fieldVars    = 3    // of BlockDesc
	fieldVarType = 2    // of VarDesc
	fieldStartup = 1001 // of ProgramDesc
)

// A counter names one of the sums that the scan compares with Limits.
type counter int

const (
	uncounted counter = iota // not repeated: bounded by what surrounds it
	countBlocks
	countVars
	countOps
	countAttrs
	countArguments
	countElements
	counters // number of counters
)

func (c counter) String() string {
	return [...]string{"fields", "blocks", "variables", "ops", "attributes", "arguments", "list elements"}[c]
}

func (l Limits) of(c counter) int64 {
	return [counters]int64{
		countBlocks: l.Blocks, countVars: l.Vars, countOps: l.Ops,
		countAttrs: l.Attrs, countArguments: l.Arguments, countElements: l.Elements,
	}[c]
}

// A layout says by field number what the scan must know of a message: where the messages and strings are, and what is counted.
type layout []layoutField

type layoutField struct {
	counter counter
	message *layout        // of a field that is a message
	text    bool           // a string, which must be UTF-8
	isList  bool           // a repeated number
	packed  protowire.Type // of a list: wire type of one element, as lists may come packed
	isDims  bool           // of a list: its length is the rank of a variable
	program bool           // bytes that are a program
}

func (l *layout) field(number protowire.Number) layoutField {
	if l == &programLayout && number == fieldStartup {
		return layoutField{program: true}
	}
	if int(number) < len(*l) {
		return (*l)[number]
	}
	return layoutField{}
}

var (
	textField     = layoutField{text: true}
	textsField    = layoutField{text: true, counter: countElements}
	varintsField  = layoutField{isList: true, packed: protowire.VarintType, counter: countElements}
	fixed32sField = layoutField{isList: true, packed: protowire.Fixed32Type, counter: countElements}
	fixed64sField = layoutField{isList: true, packed: protowire.Fixed64Type, counter: countElements}
	dimsField     = layoutField{isList: true, packed: protowire.VarintType, counter: countElements, isDims: true}
)

func one(m *layout) layoutField             { return layoutField{message: m} }
func many(c counter, m *layout) layoutField { return layoutField{counter: c, message: m} }

// The layouts of the messages of framework.proto. A test compares them with it.
var (
	numbersLayout = layout{} // numbers only
	nameLayout    = layout{1: textField}

	programLayout = layout{
		fieldBlocks: many(countBlocks, &blockLayout),
		2:           one(&numbersLayout),
		3:           one(&versionMapLayout),
		4:           one(&numbersLayout),
		5:           one(&versionMapLayout),
	}
	versionMapLayout = layout{1: many(countElements, &opVersionLayout), 2: textField} // also OpCompatibleMap
	opVersionLayout  = layout{1: textField, 2: one(&nameLayout)}

	blockLayout = layout{fieldVars: many(countVars, &varLayout), 4: many(countOps, &opLayout)}

	varLayout     = layout{1: textField, fieldVarType: one(&varTypeLayout), 7: many(countAttrs, &varAttrLayout)}
	varAttrLayout = layout{1: textField, 4: textField, 5: varintsField}
	varTypeLayout = layout{
		2:  one(&tensorLayout),
		3:  one(&lodTensorLayout),
		4:  one(&lodTensorLayout),
		5:  one(&readerLayout),
		6:  one(&numbersLayout),
		7:  one(&tupleLayout),
		8:  one(&tensorLayout),
		9:  one(&tensorLayout),
		10: one(&tensorLayout),
		11: one(&tensorLayout),
		12: one(&tensorLayout),
	}
	tensorLayout    = layout{2: dimsField}
	lodTensorLayout = layout{1: one(&tensorLayout)}
	readerLayout    = layout{1: many(countElements, &lodTensorLayout)}
	tupleLayout     = layout{1: varintsField}

	opLayout = layout{
		1: many(countArguments, &slotLayout),
		2: many(countArguments, &slotLayout),
		3: textField,
		4: many(countAttrs, &attrLayout),
	}
	slotLayout = layout{1: textField, 2: {text: true, counter: countArguments}}
	attrLayout = layout{
		1:  textField,
		5:  textField,
		6:  varintsField,
		7:  fixed32sField,
		8:  textsField,
		11: varintsField,
		14: varintsField,
		15: varintsField,
		16: fixed64sField,
		17: textField,
		18: textsField,
		20: one(&scalarLayout),
		21: many(countElements, &scalarLayout),
	}
	scalarLayout = layout{5: one(&numbersLayout)}
)
