// Package bytemark leaves out the byte order mark that some programs write before text in UTF-8.
package bytemark

import (
	"bufio"
	"io"
)

// UTF8 is the mark, as text.
const UTF8 = "\ufeff"

// Skip reads what r has behind a byte order mark, or all of it where there is none.
func Skip(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	if head, err := b.Peek(len(UTF8)); err == nil && string(head) == UTF8 {
		_, _ = b.Discard(len(UTF8)) // of what is buffered
	}
	return b
}
