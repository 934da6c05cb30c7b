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
	single counter = iota // not repeated: bounded by what surrounds it
	blocks
	vars
	ops
	attributes
	arguments
	elements
	counters // number of counters
)

func (c counter) String() string {
	return [...]string{"fields", "blocks", "variables", "ops", "attributes", "arguments", "list elements"}[c]
}

func (l Limits) of(c counter) int64 {
	return [counters]int64{blocks: l.Blocks, vars: l.Vars, ops: l.Ops, attributes: l.Attrs, arguments: l.Arguments, elements: l.Elements}[c]
}

// A layout says what the scan must know of a message, by field number: where the messages and strings are, what is counted.
type layout []layoutField

type layoutField struct {
	counter counter
	message *layout        // of a field that is a message
	text    bool           // a string, which must be UTF-8
	packed  protowire.Type // wire type of one element, of a repeated number that may come packed
	isList  bool           // a repeated number
	isDims  bool           // its elements are the rank of a variable
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
	text       = layoutField{text: true}
	texts      = layoutField{text: true, counter: elements}
	varints    = layoutField{isList: true, packed: protowire.VarintType, counter: elements}
	fixed32s   = layoutField{isList: true, packed: protowire.Fixed32Type, counter: elements}
	fixed64s   = layoutField{isList: true, packed: protowire.Fixed64Type, counter: elements}
	dimensions = layoutField{isList: true, packed: protowire.VarintType, counter: elements, isDims: true}
)

func one(m *layout) layoutField             { return layoutField{message: m} }
func many(c counter, m *layout) layoutField { return layoutField{counter: c, message: m} }

// The layouts of the messages of framework.proto.
var (
	leafLayout      = layout{}
	versionsLayout  = layout{1: many(elements, &versionLayout), 2: text}
	versionLayout   = layout{1: text, 2: one(&leafLayout)}
	programLayout   = layout{fieldBlocks: many(blocks, &blockLayout), 2: one(&leafLayout), 3: one(&versionsLayout), 4: one(&leafLayout), 5: one(&versionsLayout)}
	blockLayout     = layout{fieldVars: many(vars, &varLayout), 4: many(ops, &opLayout)}
	varLayout       = layout{1: text, fieldVarType: one(&varTypeLayout), 7: many(attributes, &varAttrLayout)}
	varAttrLayout   = layout{1: text, 4: text, 5: varints}
	tensorLayout    = layout{2: dimensions}
	lodTensorLayout = layout{1: one(&tensorLayout)}
	readerLayout    = layout{1: many(elements, &lodTensorLayout)}
	tupleLayout     = layout{1: varints}
	opLayout        = layout{1: many(arguments, &slotLayout), 2: many(arguments, &slotLayout), 3: text, 4: many(attributes, &attrLayout)}
	slotLayout      = layout{1: text, 2: {text: true, counter: arguments}}
	scalarLayout    = layout{5: one(&leafLayout)}
	varTypeLayout   = layout{2: one(&tensorLayout), 3: one(&lodTensorLayout), 4: one(&lodTensorLayout), 5: one(&readerLayout), 6: one(&leafLayout), 7: one(&tupleLayout), 8: one(&tensorLayout), 9: one(&tensorLayout), 10: one(&tensorLayout), 11: one(&tensorLayout), 12: one(&tensorLayout)}
	attrLayout      = layout{1: text, 5: text, 6: varints, 7: fixed32s, 8: texts, 11: varints, 14: varints, 15: varints, 16: fixed64s, 17: text, 18: texts, 20: one(&scalarLayout), 21: many(elements, &scalarLayout)}
)
