package program

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/edl-go/edl/fault"
)

// isPickle recognises Python's pickle by its first opcode, PROTO, and the protocol number. No program begins with this tag.
func isPickle(data []byte) bool {
	return len(data) >= 2 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5
}

// decodePickled reads a model of Fluid before 2018-01-24: a pickled dictionary with the bytes of the program, and the names of what is fed and
// fetched. Such a program has no feed and fetch ops, and gets them here.
func decodePickled(data []byte, limits Limits) (*Program, error) {
	if int64(len(data)) > limits.Bytes {
		return nil, scanner{limits: limits}.tooLarge(0, "bytes", int64(len(data)), limits.Bytes)
	}
	r := pickleReader{data: data, at: 2, limits: limits}
	if err := r.dictionary(); err != nil {
		return nil, err
	}
	if isPickle(r.program) {
		return nil, r.refuse("a pickled program within another one")
	}
	p, err := Decode(r.program, limits)
	if err != nil {
		return nil, err
	}
	if len(p.Feeds()) > 0 || len(p.Targets()) > 0 {
		return p, nil
	}
	for _, name := range append(r.feeds, r.targets...) {
		if _, ok := p.Global().Var(name); !ok {
			return nil, fault.E(fault.InvalidProgram, fault.At("the names beside the pickled program"), fault.Var(name),
				fault.Got("no such variable in the program"), fault.Want("a variable of the global block"))
		}
	}
	return p, addFeedAndFetch(p, r.feeds, r.targets)
}

// Keys of the dictionary.
const (
	keyProgram = "program_desc_str"
	keyFeeds   = "feed_var_names"
	keyTargets = "fetch_var_names"
)

// A pickleReader reads one dictionary whose values are strings and lists of strings, in the opcodes with which Python 2 writes it (protocol 2). It
// is no pickle machine: it has no stack, builds no object, and refuses every other opcode. Strings that occur twice are written once and referred to by
// a number, so it keeps where numbered strings are.
type pickleReader struct {
	data   []byte
	at     int // the next byte
	limits Limits
	memo   map[uint32][]byte // numbered strings, which are parts of data

	program        []byte
	feeds, targets []string
}

// Opcodes of protocol 2.
const (
	opMark           = '('
	opStop           = '.'
	opEmptyDict      = '}'
	opEmptyList      = ']'
	opAppend         = 'a'
	opAppends        = 'e'
	opSetItem        = 's'
	opSetItems       = 'u'
	opShortBinString = 'U'
	opBinString      = 'T'
	opBinUnicode     = 'X'
	opBinPut         = 'q'
	opLongBinPut     = 'r'
	opBinGet         = 'h'
	opLongBinGet     = 'j'
)

// refuse says what was found at the last opcode.
func (r *pickleReader) refuse(got string) error {
	return fault.E(fault.Unsupported, fault.At(atByte(int64(r.at))), fault.Got(got),
		fault.Want("the pickled dictionary with "+keyProgram+", "+keyFeeds+" and "+keyTargets+" that Fluid wrote before 2018-01-24"),
		fault.Hint("load the model with the Fluid release that wrote it and save it with a later one"))
}

// dictionary reads the whole file: an empty dictionary, and items for it, each by itself or all behind a mark.
func (r *pickleReader) dictionary() error {
	if op, err := r.op(); err != nil || op != opEmptyDict {
		return r.orRefuse(err, op)
	}
	inMark := false
	for {
		op, err := r.op()
		switch {
		case err != nil:
			return err
		case op == opMark && !inMark:
			inMark = true
		case op == opSetItems && inMark:
			inMark = false
		case op == opSetItem && !inMark: // of the item before
		case op == opStop && !inMark:
			if r.program == nil {
				return r.refuse("no " + keyProgram)
			}
			return nil
		default:
			if err := r.item(op); err != nil {
				return err
			}
		}
	}
}

func (r *pickleReader) orRefuse(err error, op byte) error {
	if err != nil {
		return err
	}
	return r.refuse(fmt.Sprintf("opcode %q", op))
}

// item reads a key, whose first opcode is op, and its value.
func (r *pickleReader) item(op byte) error {
	name, err := r.text(op)
	if err != nil {
		return err
	}
	if op, err = r.op(); err != nil {
		return err
	}
	switch string(name) {
	case keyProgram:
		r.program, err = r.text(op)
	case keyFeeds:
		r.feeds, err = r.list(op)
	case keyTargets:
		r.targets, err = r.list(op)
	default:
		return r.refuse("key " + fault.Quote(string(name[:min(len(name), 100)])))
	}
	return err
}

// list reads a list of strings whose first opcode is op: one element before each append, or several behind a mark.
func (r *pickleReader) list(op byte) (names []string, err error) {
	if op != opEmptyList {
		return nil, r.orRefuse(nil, op)
	}
	for {
		if r.skip(opMark) {
			for !r.skip(opAppends) {
				if names, err = r.element(names); err != nil {
					return nil, err
				}
			}
			continue
		}
		before := r.at
		with, err := r.element(names)
		if err != nil || !r.skip(opAppend) {
			r.at = before // what follows the list
			return names, nil
		}
		names = with
	}
}

// element reads a name and appends it.
func (r *pickleReader) element(names []string) ([]string, error) {
	op, err := r.op()
	if err != nil {
		return nil, err
	}
	name, err := r.text(op)
	if err != nil {
		return nil, err
	}
	if len(name) == 0 || int64(len(name)) > r.limits.String || int64(len(names)) >= r.limits.Arguments || !utf8.Valid(name) {
		return nil, r.refuse(fmt.Sprintf("a name of %d bytes, the %dth", len(name), len(names)+1))
	}
	return append(names, string(name)), nil
}

// text reads a string whose opcode is op, with the number that it gets.
func (r *pickleReader) text(op byte) ([]byte, error) {
	var length uint64
	switch op {
	case opShortBinString, opBinGet:
		b, err := r.take(1)
		if err != nil {
			return nil, err
		}
		length = uint64(b[0])
	case opBinString, opBinUnicode, opLongBinGet:
		b, err := r.take(4)
		if err != nil {
			return nil, err
		}
		length = uint64(binary.LittleEndian.Uint32(b))
	default:
		return nil, r.orRefuse(nil, op)
	}
	if op == opBinGet || op == opLongBinGet {
		text, ok := r.memo[uint32(length)]
		if !ok {
			return nil, r.refuse(fmt.Sprintf("string %d, which is not there", length))
		}
		return text, nil
	}
	text, err := r.take(length)
	if err != nil {
		return nil, err
	}
	return text, r.number(text)
}

// number reads the number that a string gets, if it gets one.
func (r *pickleReader) number(text []byte) error {
	if r.at >= len(r.data) || r.data[r.at] != opBinPut && r.data[r.at] != opLongBinPut {
		return nil
	}
	wide := r.data[r.at] == opLongBinPut
	r.at++
	var number uint32
	if wide {
		b, err := r.take(4)
		if err != nil {
			return err
		}
		number = binary.LittleEndian.Uint32(b)
	} else {
		b, err := r.take(1)
		if err != nil {
			return err
		}
		number = uint32(b[0])
	}
	if text != nil {
		if r.memo == nil {
			r.memo = map[uint32][]byte{}
		}
		if int64(len(r.memo)) >= r.limits.Arguments {
			return r.refuse("too many numbered strings")
		}
		r.memo[number] = text
	}
	return nil
}

// op reads an opcode, and the number that a dictionary or list gets.
func (r *pickleReader) op() (byte, error) {
	b, err := r.take(1)
	if err != nil {
		return 0, err
	}
	if b[0] == opEmptyDict || b[0] == opEmptyList {
		return b[0], r.number(nil)
	}
	return b[0], nil
}

// skip reads the opcode if it is next.
func (r *pickleReader) skip(op byte) bool {
	if r.at < len(r.data) && r.data[r.at] == op {
		r.at++
		return true
	}
	return false
}

func (r *pickleReader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.data)-r.at) {
		return nil, fault.E(fault.Corrupt, fault.At(atByte(int64(r.at))), fault.Gotf("a pickled dictionary that ends where %d more bytes belong", n),
			fault.Want("the whole file"))
	}
	b := r.data[r.at : r.at+int(n)]
	r.at += int(n)
	return b, nil
}
