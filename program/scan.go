package program

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edl-go/edl/fault"
)

// scan walks the raw bytes of a program file without allocating and refuses what is not well formed, not UTF-8 or over a limit.
// Decoding protobuf allocates up to a hundred times the bytes that it reads, so the limits must hold before.
func scan(data []byte, limits Limits) error {
	s := scanner{limits: limits}
	if int64(len(data)) > limits.Bytes {
		return s.tooLarge(0, "bytes", int64(len(data)), limits.Bytes)
	}
	return s.message(data, 0, &programLayout, 1)
}

type scanner struct {
	limits    Limits
	used      [counters]int64
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

// group scans an unknown group up to its end. Every level is counted, as decoders recurse.
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
