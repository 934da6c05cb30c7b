package cluster

import "testing"

// Pages grow where entries are small, because each costs as much as all that is left, and shrink where they are large.
func TestPages(t *testing.T) {
	for _, c := range []struct{ limit, bytes, next int }{
		{pageEntries, 0, 4 * pageEntries},
		{pageEntries, pageEntries * 100, 4 * pageEntries},
		{1000, 1000 * 1000, 2097},
		{1000, pageBytes, 1000},
		{1000, 4 * pageBytes, 250},
		{2, 8 * pageBytes, 1},
		{maxPageEntries, 1, maxPageEntries},
	} {
		if next := nextLimit(c.limit, c.bytes); next != c.next {
			t.Errorf("%d after %d entries of %d bytes, want %d", next, c.limit, c.bytes, c.next)
		}
	}
}
