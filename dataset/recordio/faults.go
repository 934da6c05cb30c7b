package recordio

import (
	"fmt"
	"io"

	"github.com/edl-go/edl/fault"
)

func cut(name string, offset, got, want int64, what string) error {
	return fault.E(fault.Corrupt, fault.At(place(name, offset)), fault.Cause(errCut), fault.Gotf("%d bytes of the %s", got, what),
		fault.Want(fmt.Sprint(want)))
}

var errCut = fmt.Errorf("cut short: %w", io.ErrUnexpectedEOF)

// place names a byte of a file, as the Where of a fault.
func place(name string, offset int64) string { return fmt.Sprintf("%s: byte %d", name, offset) }

func corrupt(name string, offset int64, got, want string) error {
	return fault.E(fault.Corrupt, fault.At(place(name, offset)), fault.Got(got), fault.Want(want))
}

func tooLarge(name string, offset int64, got, want string) error {
	return fault.E(fault.TooLarge, fault.At(place(name, offset)), fault.Got(got), fault.Want(want))
}

func wrongMagic(name string, offset int64, got, want uint32) error {
	return corrupt(name, offset, fmt.Sprintf("magic number 0x%08x", got), fmt.Sprintf("0x%08x", want))
}
