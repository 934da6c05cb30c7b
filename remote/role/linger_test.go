package role

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A coordinator whose job has ended is there until that has been heard or it is told to go, but not for ever.
func TestLinger(t *testing.T) {
	const late = lingerTime / 2
	for name, c := range map[string]struct {
		heard, told bool // late
		takes       time.Duration
	}{"heard": {true, false, late}, "told to go": {false, true, late}, "nobody": {false, false, lingerTime}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			heard := make(chan struct{})
			time.AfterFunc(late, func() {
				if c.heard {
					close(heard)
				}
				if c.told {
					cancel()
				}
			})
			began := time.Now()
			(&runner{log: slog.New(slog.DiscardHandler)}).linger(ctx, heard)
			if took := time.Since(began); took != c.takes {
				t.Errorf("%s: gone after %v, want %v", name, took, c.takes)
			}
		})
	}
}
