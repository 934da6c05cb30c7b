package convert

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
)

// parseFloat reads a finite number of the given width in bits.
func parseFloat(text string, bits int) (float64, *fault.Fault) {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), bits)
	switch {
	case err != nil:
		return 0, fault.E(fault.Corrupt, fault.Got(fault.Quote(text)), fault.Want("a number that fits into float"+strconv.Itoa(bits)))
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fault.E(fault.NotFinite, fault.Got(fault.Quote(text)), fault.Want("a finite number"))
	}
	return v, nil
}

// parseInt reads a decimal integer.
func parseInt(text string) (int64, *fault.Fault) {
	v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fault.E(fault.Corrupt, fault.Got(fault.Quote(text)), fault.Want("an integer"))
	}
	return v, nil
}

// atLine is the Where of a fault in a text.
func atLine(line int) string { return fmt.Sprintf("line %d", line) }
