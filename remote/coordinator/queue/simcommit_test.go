package queue_test

import "github.com/edl-go/edl/remote/coordinator/queue"

// odds say how often a commit goes wrong: once in so many.
type odds struct{ crash, fail int }

// commit makes changes durable, or a beginning of them, of which it tells durable. It reports whether the coordinator may answer, and whether it ends:
// it has crashed, or was deposed. When neither holds the store did not answer, and nothing has changed.
func (c *chaos) commit(to store, o odds, deposed bool, changes []queue.Change, durable func([]queue.Change)) (answers, ends bool) {
	switch {
	case len(changes) == 0:
		return true, false
	case c.chance(o.crash, "crash before commit"):
		return false, true
	case deposed:
		c.note("deposed commit refused")
		return false, true
	case c.chance(o.fail, "commit failed"):
		return false, false
	}
	part := c.prefix(changes)
	to.commit(part)
	durable(part)
	ends = len(part) < len(changes) || c.chance(o.crash, "crash after commit")
	return !ends, ends
}
