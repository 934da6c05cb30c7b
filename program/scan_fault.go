package program

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edl-go/edl/fault"
)

func (scanner) tooLarge(at int64, what string, got, limit int64) error {
	return fault.E(fault.TooLarge, fault.At(atByte(at)), fault.Gotf("%s: %d or more", what, got), fault.Wantf("at most %d", limit))
}

func malformed(at int64, code int) error {
	err := protowire.ParseError(code)
	got := plainError(err).Error()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		got = "a field that goes on behind the end"
	}
	return fault.E(fault.Corrupt, fault.At(atByte(at)), fault.Got(got), fault.Want("a whole program file"))
}

// plainError takes the mark of the protobuf library off its errors, the form of which varies from build to build.
func plainError(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
}

// atByte is the Where of a fault in a file: an offset from its first byte.
func atByte(offset int64) string { return fmt.Sprintf("byte %d", offset) }
