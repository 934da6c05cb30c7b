package convert

import (
	"io"

	"github.com/edl-go/edl/fault"
)

// A lineGuard fails when one row of text takes more than maxLine bytes, before the reader above it has to hold them. That
// reader sets read to 0 at each row.
type lineGuard struct {
	r    io.Reader
	read int
}

func (g *lineGuard) Read(b []byte) (int, error) {
	if g.read > maxLine {
		return 0, fault.E(fault.TooLarge, fault.Got("a row of more bytes"), fault.Wantf("at most %d", maxLine))
	}
	n, err := g.r.Read(b)
	g.read += n
	return n, err
}
