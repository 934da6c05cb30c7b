package waits

import (
	"testing"
	"time"
)

// The limit is over after the time in which the process has run, however long it was stopped, and a timer that is a little late counts.
func TestCountdown(t *testing.T) {
	begin := time.Now()
	for name, x := range map[string]struct {
		limit time.Duration
		late  []time.Duration // by which the first looks come
		want  time.Duration
	}{
		"runs":                  {time.Minute, nil, time.Minute},
		"short":                 {50 * time.Millisecond, nil, 50 * time.Millisecond},
		"none":                  {0, nil, 0},
		"sleeps an hour":        {time.Minute, []time.Duration{0, 0, time.Hour}, time.Minute + time.Hour + time.Minute/8},
		"sleeps again":          {time.Minute, []time.Duration{time.Hour, 0, 3 * time.Second}, time.Minute + time.Hour + 3*time.Second + 2*time.Minute/8},
		"a busy machine":        {time.Minute, []time.Duration{time.Second, time.Second}, time.Minute},
		"sleeps in the last of": {10 * time.Millisecond, []time.Duration{time.Minute}, time.Minute + 20*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			c, next := NewCountdown(x.limit, begin)
			now := begin
			for looks := 0; next > 0; looks++ {
				if looks > 100 {
					t.Fatal("it does not end")
				}
				now = now.Add(next)
				if looks < len(x.late) {
					now = now.Add(x.late[looks])
				}
				next, _ = c.Look(now)
			}
			if got := now.Sub(begin); got != x.want {
				t.Errorf("over after %v, want %v", got, x.want)
			}
		})
	}
}
