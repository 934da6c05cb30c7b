package edlcmd

import (
	"testing"
	"time"
)

// The line of progress says what is left, and nothing that is not known yet.
func TestProgressOfTables(t *testing.T) {
	for want, c := range map[string]struct {
		p       tableProgress
		elapsed time.Duration
	}{
		"file 1 of 3  0 rows":                               {tableProgress{file: 1, files: 3, size: 100}, time.Second},
		"file 2 of 3  500 rows  250 rows/s  25 %  6s left":  {tableProgress{file: 2, files: 3, read: 25, size: 100, rows: 500}, 2 * time.Second},
		"file 3 of 3  900 rows  450 rows/s  100 %  0s left": {tableProgress{file: 3, files: 3, read: 120, size: 100, rows: 900}, 2 * time.Second},
	} {
		if got := c.p.line(c.elapsed); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
