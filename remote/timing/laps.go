package timing

import "time"

// Laps notes how long the parts of a rare event take, such as a change of members, for one line of a log. Calls of a nil Laps do nothing. It is not for concurrent use.
type Laps struct {
	began, last time.Time
	parts       []any
}

// BeginLaps begins the first part now.
func BeginLaps() *Laps {
	now := time.Now()
	return &Laps{began: now, last: now}
}

// Lap ends a part, and begins the next one.
func (l *Laps) Lap(part string) {
	if l == nil {
		return
	}
	now := time.Now()
	l.parts = append(l.parts, part, now.Sub(l.last).Round(time.Microsecond))
	l.last = now
}

// Attrs returns attributes for a log: "took" with the time from the beginning to the end of the last part, and each part under its name.
func (l *Laps) Attrs() []any {
	if l == nil {
		return nil
	}
	return append([]any{"took", l.last.Sub(l.began).Round(time.Microsecond)}, l.parts...)
}
