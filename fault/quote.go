package fault

import "strconv"

// maxQuoted is the number of bytes of a hostile or careless name that a message shows.
const maxQuoted = 128

// Quote shows a string that came from outside: escaped to printable ASCII, and cut to 128 bytes, so that no name can
// break a terminal or flood a log.
func Quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.QuoteToASCII(s[:maxQuoted]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
