package waits

import "time"

// Parts of a Countdown.
const (
	countParts   = 8           // looks at the clock in a limit
	shortestPart = time.Second // between two looks
	stoppedFor   = 2 * time.Second
)

// A Countdown counts the time of a limit while this process runs. A machine that sleeps, a virtual machine that is moved, or a process group that is stopped may stop all processes of a job: who was
// waited for could not come, either. So the part of a limit in which the clock went on and a timer did not does not count. The zero Countdown is over. A Countdown is not safe for concurrent use.
type Countdown struct {
	left  time.Duration // without the part that was begun last
	part  time.Duration
	asked time.Duration // length of the part
	from  time.Time     // of the part
}

// NewCountdown begins to count at a time. Its user calls Look after the time that it returns.
func NewCountdown(limit time.Duration, now time.Time) (c Countdown, next time.Duration) {
	c = Countdown{left: limit, part: partOf(limit)}
	return c, c.begin(now)
}

func (c *Countdown) begin(now time.Time) time.Duration {
	c.asked, c.from = min(c.part, max(c.left, 0)), now
	return c.asked
}

// Look returns after which time to look again, or 0 when the limit is over. stopped is how long the process did not run since the last look, as far as it can tell: it is 0, or more than 2 s.
func (c *Countdown) Look(now time.Time) (next, stopped time.Duration) {
	passed := now.Sub(c.from)
	if stopped = stoppedIn(passed, c.asked); stopped > 0 {
		return c.begin(now), stopped
	}
	c.left -= passed
	return c.begin(now), 0
}

// partOf is the part of a limit after which to look at the clock.
func partOf(limit time.Duration) time.Duration { return max(limit/countParts, shortestPart) }

// stoppedIn is how long the process did not run in a time that should have been no longer than asked.
func stoppedIn(passed, asked time.Duration) time.Duration {
	if passed > asked+stoppedFor {
		return passed
	}
	return 0
}
