package comm

import (
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
)

// scheme begins every logical address.
const scheme = "pserver:"

// Address returns the logical address of the pserver of an index, such as "pserver:0".
func Address(server int) string { return scheme + strconv.Itoa(server) }

// ParseAddress is the inverse of Address. It takes the one spelling that Address yields, so that equal servers have equal
// addresses.
func ParseAddress(address string) (int, error) {
	number, ok := strings.CutPrefix(address, scheme)
	server, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil || server < 0 || Address(int(server)) != address {
		return 0, fault.E(fault.InvalidProgram, fault.Got("the address "+fault.Quote(address)),
			fault.Want("the logical address of a pserver, such as "+Address(0)))
	}
	return int(server), nil
}
