package pserver

import (
	"testing"
	"time"
)

// A server that was told to end holds rounds behind a version that was frozen since, for a limited time. Another one holds none.
func TestLeavingHolds(t *testing.T) {
	epoch := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	told := leaving{since: at(10), limit: 20 * time.Second}
	for name, c := range map[string]struct {
		by         leaving
		frozen, at int
		want       time.Duration
	}{
		"not told":             {leaving{limit: 20 * time.Second}, 11, 12, 0},
		"told, cut before":     {told, 9, 12, 0},
		"cut when it is told":  {told, 10, 12, 18 * time.Second},
		"cut later":            {told, 15, 15, 20 * time.Second},
		"at the limit":         {told, 15, 35, 0},
		"beyond it":            {told, 15, 60, 0},
		"the next one holds":   {told, 60, 61, 19 * time.Second},
		"without round limits": {leaving{since: at(10)}, 15, 15, 0},
	} {
		if got := c.by.holds(at(c.at), at(c.frozen)); got != c.want {
			t.Errorf("%s: held for %v more, want %v", name, got, c.want)
		}
	}
}
