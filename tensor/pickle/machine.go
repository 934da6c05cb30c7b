package pickle

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/edl-go/edl/fault"
)

// A value of the stack is nil (None), a bool, int64, float64, string (text), *blob (bytes), tuple, *list, *dict, global, *dtype or *array.
type (
	tuple []any
	list  struct{ items []any }
	dict  struct{ items []item }
	item  struct{ key, value any }
	blob  struct {
		data []byte
		text string // of the data, when it was asked for
		used bool   // the data was made into elements, and is gone
	}
	global string // MODULE NAME, one of known
)

// A machine runs the opcodes of one pickle.
type machine struct {
	r      *bufio.Reader
	at     int64 // bytes read
	size   int64
	limits Limits

	stack       []any
	marks       []int // heights of the stack
	memo        map[uint32]any
	held        int   // values in containers
	bytesOfText int64 // that were made of texts
}

// Opcodes of protocols 2 to 4 that need no name of a class.
const (
	opMark, opStop, opNone                                  = '(', '.', 'N'
	opProto, opFrame                                        = 0x80, 0x95
	opTrue, opFalse                                         = 0x88, 0x89
	opInt, opInt1, opInt2, opLong1, opFloat                 = 'J', 'K', 'M', 0x8a, 'G'
	opString, opShortString                                 = 'T', 'U'
	opUnicode, opShortUnicode, opUnicode8                   = 'X', 0x8c, 0x8d
	opBytes, opShortBytes, opBytes8                         = 'B', 'C', 0x8e
	opEmptyTuple, opTuple, opTuple1, opTuple2, opTuple3     = ')', 't', 0x85, 0x86, 0x87
	opEmptyList, opAppend, opAppends                        = ']', 'a', 'e'
	opEmptyDict, opSetItem, opSetItems                      = '}', 's', 'u'
	opPut, opLongPut, opMemoize, opGet, opLongGet           = 'q', 'r', 0x94, 'h', 'j'
	opGlobal, opStackGlobal, opReduce, opBuild, opNewObject = 'c', 0x93, 'R', 'b', 0x81
)

// run returns the value at the end of the pickle, behind which nothing may stand.
func (m *machine) run() (any, error) {
	m.memo = map[uint32]any{}
	for {
		op, err := m.bytes(1)
		if err != nil {
			return nil, err
		}
		if op[0] == opStop {
			break
		}
		if err := m.step(op[0]); err != nil {
			return nil, err
		}
		if len(m.stack) > m.limits.Values || len(m.memo) > m.limits.Values || len(m.marks) > m.limits.Values || m.held > m.limits.Values {
			return nil, fault.E(fault.TooLarge, fault.At(m.place()), fault.Got("more values"), fault.Wantf("at most %d", m.limits.Values))
		}
	}
	if len(m.stack) != 1 || len(m.marks) != 0 {
		return nil, m.corrupt("an end without one value")
	}
	if _, err := m.r.ReadByte(); err != io.EOF {
		return nil, m.corrupt("bytes behind the end")
	}
	return m.stack[0], nil
}

// step runs one opcode.
func (m *machine) step(op byte) error {
	switch op {
	case opProto:
		return m.skip(1)
	case opFrame:
		return m.skip(8)
	case opMark:
		m.marks = append(m.marks, len(m.stack))
	case opNone:
		m.push(nil)
	case opTrue, opFalse:
		m.push(op == opTrue)
	case opInt, opInt1, opInt2, opLong1, opFloat:
		return m.number(op)
	case opString, opShortString, opUnicode, opShortUnicode, opUnicode8, opBytes, opShortBytes, opBytes8:
		return m.text(op)
	case opEmptyTuple, opTuple, opTuple1, opTuple2, opTuple3:
		return m.tuple(op)
	case opEmptyList:
		m.push(&list{})
	case opEmptyDict:
		m.push(&dict{})
	case opAppend, opAppends, opSetItem, opSetItems:
		return m.fill(op)
	case opPut, opLongPut, opMemoize, opGet, opLongGet:
		return m.remember(op)
	case opGlobal, opStackGlobal:
		return m.global(op)
	case opReduce, opNewObject, opBuild:
		args, err := m.take(2)
		if err != nil {
			return err
		}
		if op == opBuild {
			m.push(args[0])
			return m.build(args[0], args[1])
		}
		made, err := m.make(args[0], args[1])
		m.push(made)
		return err
	default:
		return m.refuse(opcode(op), "the opcodes of arrays")
	}
	return nil
}

func (m *machine) push(v any) { m.stack = append(m.stack, v) }

// take removes the n values at the top of the stack, which may not reach below a mark. They are valid until the next push.
func (m *machine) take(n int) ([]any, error) {
	floor := 0
	if len(m.marks) > 0 {
		floor = m.marks[len(m.marks)-1]
	}
	if len(m.stack)-floor < n {
		return nil, m.corrupt("too few values on the stack")
	}
	top := m.stack[len(m.stack)-n:]
	m.stack = m.stack[:len(m.stack)-n]
	return top, nil
}

// marked removes the values above the last mark, and the mark.
func (m *machine) marked() ([]any, error) {
	if len(m.marks) == 0 {
		return nil, m.corrupt("no mark on the stack")
	}
	values, err := m.take(len(m.stack) - m.marks[len(m.marks)-1])
	m.marks = m.marks[:len(m.marks)-1]
	return values, err
}

// bytes reads n bytes that are valid until the next call, at most 8.
func (m *machine) bytes(n int) ([]byte, error) {
	b, err := m.r.Peek(n)
	if err != nil {
		return nil, m.cut(err)
	}
	_, _ = m.r.Discard(n)
	m.at += int64(n)
	return b, nil
}

func (m *machine) skip(n int) error {
	_, err := m.bytes(n)
	return err
}

func (m *machine) cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fault.E(fault.Corrupt, fault.At(m.place()), fault.Got("the end of the file"), fault.Want("a whole file"), fault.Cause(io.ErrUnexpectedEOF))
	}
	return fault.Wrap(fault.Unavailable, m.place(), err)
}

// unsigned reads a little-endian number of n bytes.
func (m *machine) unsigned(n int) (uint64, error) {
	b, err := m.bytes(n)
	var wide [8]byte
	copy(wide[:], b)
	return binary.LittleEndian.Uint64(wide[:]), err
}

func (m *machine) number(op byte) error {
	width := map[byte]int{opInt: 4, opInt1: 1, opInt2: 2, opLong1: 1, opFloat: 8}[op]
	n, err := m.unsigned(width)
	switch {
	case err != nil:
		return err
	case op == opInt:
		m.push(int64(int32(n)))
	case op == opFloat: // big-endian
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], n)
		m.push(math.Float64frombits(binary.LittleEndian.Uint64(b[:])))
	case op == opLong1 && n > 8:
		return m.refuse("a whole number of more than 64 bits", "smaller ones")
	case op == opLong1:
		value, err := m.unsigned(int(n))
		if err != nil {
			return err
		}
		if n > 0 && n < 8 && value>>(8*n-1) != 0 {
			value |= math.MaxUint64 << (8 * n)
		}
		m.push(int64(value))
	default:
		m.push(int64(n))
	}
	return nil
}

// text reads bytes, which are text for the opcodes of unicode and for those of Python 2 if they are short and of ASCII.
func (m *machine) text(op byte) error {
	width := 4
	switch op {
	case opShortString, opShortUnicode, opShortBytes:
		width = 1
	case opUnicode8, opBytes8:
		width = 8
	}
	n, err := m.unsigned(width)
	if err != nil {
		return err
	}
	if n > uint64(m.size-m.at) {
		return m.corrupt("a value longer than the file")
	}
	var data bytes.Buffer // grows as bytes arrive
	got, err := io.CopyN(&data, m.r, int64(n))
	m.at += got
	if err != nil {
		return m.cut(err)
	}
	switch op {
	case opUnicode, opShortUnicode, opUnicode8:
		if !utf8.Valid(data.Bytes()) {
			return m.corrupt("text that is not UTF-8")
		}
		m.push(data.String())
	default:
		m.push(&blob{data: data.Bytes()})
	}
	return nil
}

func (m *machine) tuple(op byte) (err error) {
	var values []any
	switch op {
	case opEmptyTuple:
	case opTuple:
		values, err = m.marked()
	default:
		values, err = m.take(int(op) - opTuple1 + 1)
	}
	m.held += len(values)
	m.push(append(tuple{}, values...))
	return err
}

// fill puts values into the list or dictionary below them.
func (m *machine) fill(op byte) (err error) {
	var values []any
	switch op {
	case opAppend:
		values, err = m.take(1)
	case opSetItem:
		values, err = m.take(2)
	default:
		values, err = m.marked()
	}
	if err != nil {
		return err
	}
	if len(m.stack) == 0 {
		return m.corrupt("values without a container")
	}
	m.held += len(values)
	switch into := m.stack[len(m.stack)-1].(type) {
	case *list:
		if op == opAppend || op == opAppends {
			into.items = append(into.items, values...)
			return nil
		}
	case *dict:
		if (op == opSetItem || op == opSetItems) && len(values)%2 == 0 {
			for i := 0; i < len(values); i += 2 {
				into.items = append(into.items, item{textOf(values[i]), textOf(values[i+1])})
			}
			return nil
		}
	}
	return m.corrupt("values for another container")
}

// remember stores the value on top under a number, or brings one back.
func (m *machine) remember(op byte) error {
	n := uint64(len(m.memo))
	if op != opMemoize {
		width := 1
		if op == opLongPut || op == opLongGet {
			width = 4
		}
		var err error
		if n, err = m.unsigned(width); err != nil {
			return err
		}
	}
	if op == opGet || op == opLongGet {
		v, ok := m.memo[uint32(n)]
		if !ok {
			return m.corrupt("a reference to no value")
		}
		m.push(v)
		return nil
	}
	if len(m.stack) == 0 {
		return m.corrupt("no value to number")
	}
	m.memo[uint32(n)] = m.stack[len(m.stack)-1]
	return nil
}

// global reads the name of a function or class.
func (m *machine) global(op byte) error {
	const longest = 256
	var module, name string
	if op == opStackGlobal {
		args, err := m.take(2)
		if err != nil {
			return err
		}
		module, _ = args[0].(string)
		name, _ = args[1].(string)
	} else {
		for _, into := range []*string{&module, &name} {
			line, err := m.r.ReadSlice('\n')
			m.at += int64(len(line))
			if err != nil && err != bufio.ErrBufferFull {
				return m.cut(err)
			}
			*into = strings.TrimSuffix(string(line[:min(len(line), longest)]), "\n")
		}
	}
	g := global(module + " " + name)
	if !known[g] {
		return m.refuse("the name "+fault.Quote(module+"."+name), "arrays of NumPy and their types")
	}
	m.push(g)
	return nil
}

// textOf makes text of bytes that are ASCII, as Python 2 writes texts.
func textOf(v any) any {
	b, ok := v.(*blob)
	if !ok || b.used || len(b.data) > 1<<10 {
		return v
	}
	if b.text != "" {
		return b.text
	}
	for _, c := range b.data {
		if c >= utf8.RuneSelf {
			return v
		}
	}
	b.text = string(b.data)
	return b.text
}
