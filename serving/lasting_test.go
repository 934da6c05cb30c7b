package serving

import (
	"errors"
	"testing"
)

// An error that stays is told once, after some tries, and its end once. One that is over before is not told.
func TestLastingErrorsAreToldOnce(t *testing.T) {
	l, full := lasting{after: 2}, errors.New("no room")
	for i, c := range []struct {
		err          error
		begins, ends bool
	}{{full, false, false}, {nil, false, false}, {full, false, false}, {full, true, false}, {full, false, false}, {nil, false, true}, {nil, false, false}} {
		if begins, ends := l.saw(c.err); begins != c.begins || ends != c.ends {
			t.Errorf("try %d: begins %v, ends %v, want %v, %v", i, begins, ends, c.begins, c.ends)
		}
	}
}
