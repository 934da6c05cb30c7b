package program

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/protobuf/encoding/protowire"
)

// Limits bounds what Decode accepts. The counts cover the whole file, including the startup program. Decode checks them against the raw bytes
// before it allocates. A zero field means its default.
type Limits struct {
	Bytes     int64 // length of the file
	Blocks    int64
	Vars      int64
	Ops       int64
	Attrs     int64
	Arguments int64 // slots of ops and variable names in them
	Elements  int64 // elements of lists in attributes, and every other repeated value
	String    int64 // bytes of one name or string
	Rank      int64 // dims of one variable
	Depth     int64 // messages and groups within each other
	Memory    int64 // bytes that decoding takes, at most; counted from what the file holds, before anything is decoded
}

// DefaultLimits returns limits far above every program that people or the transpiler make.
func DefaultLimits() Limits {
	return Limits{
		Bytes:     512 << 20,
		Blocks:    10_000,
		Vars:      1_000_000,
		Ops:       1_000_000,
		Attrs:     10_000_000,
		Arguments: 10_000_000,
		Elements:  100_000_000,
		String:    16 << 20,
		Rank:      tensor.MaxRank,
		Depth:     32,
		Memory:    512 << 20,
	}
}

func (l Limits) withDefaults() Limits {
	defaults := DefaultLimits()
	for field, value := range map[*int64]int64{
		&l.Bytes: defaults.Bytes, &l.Blocks: defaults.Blocks, &l.Vars: defaults.Vars, &l.Ops: defaults.Ops, &l.Attrs: defaults.Attrs,
		&l.Arguments: defaults.Arguments, &l.Elements: defaults.Elements, &l.String: defaults.String, &l.Rank: defaults.Rank, &l.Depth: defaults.Depth,
		&l.Memory: defaults.Memory,
	} {
		if *field <= 0 {
			*field = value
		}
	}
	return l
}

// scan walks the raw bytes of a program file without allocating. It refuses bytes that are malformed, not UTF-8 or above a limit. The limits must
// hold before protobuf decodes, because decoding allocates up to a hundred times the bytes that it reads.
func scan(data []byte, limits Limits) error {
	s := scanner{limits: limits, memory: 2 * int64(len(data))}
	if int64(len(data)) > limits.Bytes {
		return s.tooLarge(0, "bytes", int64(len(data)), limits.Bytes)
	}
	return s.message(data, 0, &programLayout, 1)
}

type scanner struct {
	limits    Limits
	used      [counters]int64
	memory    int64 // bytes that decoding takes
	inStartup bool
}

// message scans the body b of a message that begins at byte `at` of the file.
func (s *scanner) message(b []byte, at int64, m *layout, depth int64) error {
	if depth > s.limits.Depth {
		return s.tooLarge(at, "depth of nesting", depth, s.limits.Depth)
	}
	var rank int64
	for len(b) > 0 {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return malformed(at, n)
		}
		b, at = b[n:], at+int64(n)
		field := m.field(number)
		var took int64
		var err error
		switch wire {
		case protowire.BytesType:
			took, err = s.bytes(b, at, field, depth, &rank)
		case protowire.StartGroupType:
			took, err = s.group(b, at, number, depth+1)
		default:
			took, err = s.number(b, at, number, wire, field, &rank)
		}
		if err != nil {
			return err
		}
		b, at = b[took:], at+took
	}
	return nil
}

// bytes scans a length-delimited value and returns its length with the prefix.
func (s *scanner) bytes(b []byte, at int64, field layoutField, depth int64, rank *int64) (int64, error) {
	value, n := protowire.ConsumeBytes(b)
	if n < 0 {
		return 0, malformed(at, n)
	}
	start := at + int64(n-len(value))
	count := int64(1)
	if field.isList {
		count = packedCount(value, field.packed)
	}
	if err := s.count(start, field, count, rank); err != nil {
		return 0, err
	}
	switch {
	case field.message != nil:
		return int64(n), s.message(value, start, field.message, depth+1)
	case field.program:
		if s.inStartup {
			return 0, fault.E(fault.InvalidProgram, fault.At(atByte(start)), fault.Got("a startup program of a startup program"),
				fault.Want("at most one"))
		}
		s.inStartup = true
		defer func() { s.inStartup = false }()
		return int64(n), s.message(value, start, &programLayout, 1)
	case field.text:
		if int64(len(value)) > s.limits.String {
			return 0, s.tooLarge(start, "bytes of a string", int64(len(value)), s.limits.String)
		}
		if !utf8.Valid(value) {
			return 0, fault.E(fault.Corrupt, fault.At(atByte(start)), fault.Got("the string "+fault.Quote(string(value))), fault.Want("UTF-8"))
		}
	}
	return int64(n), nil
}

// number scans a varint or a fixed-width value.
func (s *scanner) number(b []byte, at int64, number protowire.Number, wire protowire.Type, field layoutField, rank *int64) (int64, error) {
	n := protowire.ConsumeFieldValue(number, wire, b)
	if n < 0 {
		return 0, malformed(at, n)
	}
	return int64(n), s.count(at, field, 1, rank)
}

// group scans an unknown group up to its end. Every level counts, because decoders recurse.
func (s *scanner) group(b []byte, at int64, group protowire.Number, depth int64) (int64, error) {
	if depth > s.limits.Depth {
		return 0, s.tooLarge(at, "depth of nesting", depth, s.limits.Depth)
	}
	total := int64(0)
	for {
		number, wire, n := protowire.ConsumeTag(b[total:])
		if n < 0 {
			return 0, malformed(at+total, n)
		}
		total += int64(n)
		switch wire {
		case protowire.EndGroupType:
			if number != group {
				return 0, fault.E(fault.Corrupt, fault.At(atByte(at+total)), fault.Gotf("the end of group %d", number),
					fault.Wantf("the end of group %d", group))
			}
			return total, nil
		case protowire.StartGroupType:
			inner, err := s.group(b[total:], at+total, number, depth+1)
			if err != nil {
				return 0, err
			}
			total += inner
		default:
			n := protowire.ConsumeFieldValue(number, wire, b[total:])
			if n < 0 {
				return 0, malformed(at+total, n)
			}
			total += int64(n)
		}
	}
}

// Numbers of fields that are looked for in raw bytes.
const (
	fieldBlocks  = 1    // of ProgramDesc
	fieldVars    = 3    // of BlockDesc
	fieldVarType = 2    // of VarDesc
	fieldStartup = 1001 // of ProgramDesc
)

// A counter names one of the sums that scan compares with Limits.
type counter int

const (
	uncounted counter = iota // not repeated; the message around it bounds it
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

// bytes is what decoding one takes beside the bytes of the file: its message and what the IR makes of it, as TestDecodingTakesWhatIsCounted measures.
func (c counter) bytes() int64 {
	return [...]int64{countBlocks: 1 << 10, countVars: 640, countOps: 384, countAttrs: 576, countArguments: 256, countElements: 16}[c]
}

func (l Limits) of(c counter) int64 {
	return [counters]int64{
		countBlocks: l.Blocks, countVars: l.Vars, countOps: l.Ops,
		countAttrs: l.Attrs, countArguments: l.Arguments, countElements: l.Elements,
	}[c]
}

// A layout says, by field number, what scan must know of a message: which fields are messages or strings, and what counts.
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

// count adds n elements of a field to what its limit, and that of a tensor's rank, allow.
func (s *scanner) count(at int64, field layoutField, n int64, rank *int64) error {
	if field.isDims {
		if *rank += n; *rank > s.limits.Rank {
			return s.tooLarge(at, "rank", *rank, s.limits.Rank)
		}
	}
	if field.counter == uncounted {
		return nil
	}
	s.used[field.counter] += n
	if used, limit := s.used[field.counter], s.limits.of(field.counter); used > limit {
		return s.tooLarge(at, field.counter.String(), used, limit)
	}
	if s.memory += n * field.counter.bytes(); s.memory > s.limits.Memory {
		return s.tooLarge(at, "bytes of memory that decoding takes", s.memory, s.limits.Memory)
	}
	return nil
}

// packedCount returns the number of elements of a packed list: of varints, the number of bytes that end one.
func packedCount(b []byte, element protowire.Type) int64 {
	switch element {
	case protowire.Fixed32Type:
		return int64(len(b)) / 4
	case protowire.Fixed64Type:
		return int64(len(b)) / 8
	}
	n := int64(0)
	for _, c := range b {
		if c < 0x80 {
			n++
		}
	}
	return n
}

func (scanner) tooLarge(at int64, what string, got, limit int64) error {
	return fault.E(fault.TooLarge, fault.At(atByte(at)), fault.Gotf("%s: %d or more", what, got), fault.Wantf("at most %d", limit))
}

func malformed(at int64, code int) error {
	err := protowire.ParseError(code)
	got := plainError(err).Error()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		got = "a field that is longer than the rest of the file"
	}
	return fault.E(fault.Corrupt, fault.At(atByte(at)), fault.Got(got), fault.Want("a whole program file"))
}

// plainError removes the prefix of the protobuf library from its errors, because it varies from build to build.
func plainError(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
}

// atByte is the place of a fault in a file: an offset from its first byte.
func atByte(offset int64) string { return fmt.Sprintf("byte %d", offset) }
