package ops_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/ops"
)

// With rounds for days, hours follow from the number of the round alone, also where that is larger than any job is.
func TestHourOf(t *testing.T) {
	for _, c := range []struct {
		round uint64
		days  int64
		want  int64
	}{{0, 1, 0}, {1, 1, 24}, {23, 24, 23}, {24, 24, 24}, {5, 48, 2}, {999, 1000, 23}, {1000, 1000, 24}, {1<<40 - 1, 1 << 40, 23}} {
		if got := ops.HourOf(c.round, c.days); got != c.want {
			t.Errorf("round %d with %d rounds a day: hour %d, want %d", c.round, c.days, got, c.want)
		}
	}
	for _, days := range []int64{1, 3, math.MaxInt64} {
		if hour := ops.HourOf(math.MaxUint64, days); hour < 0 {
			t.Errorf("hour %d", hour)
		}
	}
}
