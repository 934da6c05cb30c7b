package kserve

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/edl-go/edl/fault"
)

// deepest is how many arrays and objects of a request may lie in each other.
const deepest = 32

// A scanner reads JSON from bytes, without a copy of numbers. Its methods move it behind what they read. The first mistake ends the reading: done is its error.
type scanner struct {
	b    []byte
	at   int
	deep int
}

func (s *scanner) wrong(want string) error {
	got := "the end"
	if s.at < len(s.b) {
		end := min(s.at+16, len(s.b))
		got = fault.Quote(string(bytes.ToValidUTF8(s.b[s.at:end], []byte("\ufffd"))))
	}
	return fault.E(fault.Corrupt, fault.Atf("byte %d of the request", s.at), fault.Got(got), fault.Want(want))
}

// peek returns the next byte that is no white space, 0 at the end.
func (s *scanner) peek() byte {
	for s.at < len(s.b) {
		switch c := s.b[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// members calls each for every member of an array or object, which it must read. For an object, key is its name.
func (s *scanner) members(open, end byte, each func(key string) error) error {
	if s.peek() != open {
		return s.wrong(string(open))
	}
	if s.deep++; s.deep > deepest {
		return s.wrong("fewer arrays and objects in each other")
	}
	s.at++
	if s.peek() == end {
		s.at++
		s.deep--
		return nil
	}
	for {
		key := ""
		if open == '{' {
			var err error
			if key, err = s.text(); err != nil {
				return err
			}
			if s.peek() != ':' {
				return s.wrong(":")
			}
			s.at++
		}
		if err := each(key); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.at++
		case end:
			s.at++
			s.deep--
			return nil
		default:
			return s.wrong(", or " + string(end))
		}
	}
}

func (s *scanner) array(each func() error) error {
	return s.members('[', ']', func(string) error { return each() })
}

func (s *scanner) object(each func(key string) error) error { return s.members('{', '}', each) }

// text reads a string.
func (s *scanner) text() (string, error) {
	if s.peek() != '"' {
		return "", s.wrong("a string")
	}
	from := s.at
	plain := true
	for s.at++; s.at < len(s.b); s.at++ {
		switch c := s.b[s.at]; {
		case c == '"':
			s.at++
			raw := s.b[from:s.at]
			if plain && utf8.Valid(raw) {
				return string(raw[1 : len(raw)-1]), nil
			}
			var text string
			if err := json.Unmarshal(raw, &text); err != nil {
				s.at = from
				return "", s.wrong("a string of JSON")
			}
			return text, nil
		case c == '\\':
			plain = false
			s.at++
		case c < ' ':
			return "", s.wrong("a string without control characters")
		}
	}
	s.at = len(s.b)
	return "", s.wrong("the end of a string")
}

// number reads the text of a number, or of true, false and null, which is not checked.
func (s *scanner) number() []byte {
	s.peek()
	from := s.at
	for s.at < len(s.b) {
		switch s.b[s.at] {
		case ',', ']', '}', ' ', '\t', '\n', '\r', ':', '[', '{', '"':
			return s.b[from:s.at]
		}
		s.at++
	}
	return s.b[from:]
}

// skip reads any value, and returns its bytes.
func (s *scanner) skip() ([]byte, error) {
	c := s.peek()
	from := s.at
	var err error
	switch c {
	case '{':
		err = s.object(func(string) error { _, err := s.skip(); return err })
	case '[':
		err = s.skipArray()
	case '"':
		_, err = s.text()
	default:
		if word := s.number(); !json.Valid(word) {
			s.at = from
			err = s.wrong("a value of JSON")
		}
	}
	return s.b[from:s.at], err
}

// skipArray moves behind an array, whose numbers are read, and checked, later. It looks for the bytes that matter, of which an array of numbers has few.
func (s *scanner) skipArray() error {
	depth, end := 0, -1 // of the next ], which may be part of a text, or of all
	for {
		if end < s.at {
			if end = len(s.b); s.at < end {
				if n := bytes.IndexByte(s.b[s.at:], ']'); n >= 0 {
					end = s.at + n
				}
			}
		}
		next := end
		if n := bytes.IndexByte(s.b[s.at:end], '"'); n >= 0 {
			next = s.at + n
		}
		for opened := bytes.Count(s.b[s.at:next], []byte{'['}); opened > 0; opened-- {
			if depth++; depth > deepest {
				return s.wrong("fewer arrays in each other")
			}
		}
		s.at = next
		if next < end {
			if _, err := s.text(); err != nil {
				return err
			}
			continue
		}
		if end == len(s.b) {
			return s.wrong("]")
		}
		s.at++
		if depth--; depth == 0 {
			return nil
		}
	}
}

// integer reads a whole number.
func (s *scanner) integer() (int64, error) {
	word := s.number()
	v, err := strconv.ParseInt(string(word), 10, 64)
	if err != nil {
		s.at -= len(word)
		return 0, s.wrong("a whole number")
	}
	return v, nil
}
