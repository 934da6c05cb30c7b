package bench

import (
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
)

// extents returns the numbers in the arguments of a model, at least a number of them, each at least 1.
func extents(text, separator string, least int) ([]int64, error) {
	parts := strings.Split(text, separator)
	all := make([]int64, len(parts))
	for i, part := range parts {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil || n < 1 || len(parts) < least {
			return nil, fault.E(fault.InvalidArgument, fault.Got("arguments "+strconv.Quote(text)),
				fault.Want("at least "+strconv.Itoa(least)+" numbers with "+separator+" between them"))
		}
		all[i] = n
	}
	return all, nil
}
