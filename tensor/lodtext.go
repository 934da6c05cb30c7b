package tensor

import (
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
)

// ParseLoD reads the offsets of sequences as people write them: the levels between slashes, the outermost first, and the offsets of a level between commas, such
// as "0,2,3/0,4,4,9".
func ParseLoD(text string) ([][]int64, error) {
	levels := strings.Split(text, "/")
	if len(levels) > MaxLoDLevel {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("%d LoD levels", len(levels)), fault.Wantf("at most %d", MaxLoDLevel))
	}
	lod := make([][]int64, len(levels))
	for i, level := range levels {
		for number := range strings.SplitSeq(level, ",") {
			offset, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
			if err != nil {
				return nil, fault.E(fault.InvalidArgument, fault.Got(fault.Quote(number)), fault.Want("offsets such as 0,2,5, or 0,1,3/0,2,2,5 for two levels"))
			}
			lod[i] = append(lod[i], offset)
		}
	}
	return lod, nil
}

// FormatLoD is the inverse of ParseLoD.
func FormatLoD(lod [][]int64) string {
	var b []byte
	for i, level := range lod {
		if i > 0 {
			b = append(b, '/')
		}
		for j, offset := range level {
			if j > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, offset, 10)
		}
	}
	return string(b)
}
