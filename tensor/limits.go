package tensor

import (
	"fmt"

	"github.com/edl-go/edl/fault"
)

// Limits bounds what a decoder accepts. They are checked before anything of that size is allocated. A zero field means its
// default.
type Limits struct {
	Bytes     int64 // elements and LoD offsets of one stream together; default 4 GiB
	Rank      int   // dims; default and upper bound MaxRank
	LoDLevels int   // LoD levels; default 8
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 4 << 30
	}
	if l.Rank <= 0 || l.Rank > MaxRank {
		l.Rank = MaxRank
	}
	if l.LoDLevels <= 0 {
		l.LoDLevels = 8
	}
	return l
}

// atByte is the Where of a fault in a stream: an offset from the stream's first byte.
func atByte(offset int64) string { return fmt.Sprintf("byte %d", offset) }

func corrupt(offset int64, got, want string) error {
	return fault.E(fault.Corrupt, fault.At(atByte(offset)), fault.Got(got), fault.Want(want))
}

func tooLarge(offset int64, got, want string) error {
	return fault.E(fault.TooLarge, fault.At(atByte(offset)), fault.Got(got), fault.Want(want))
}
