package sparse

import "github.com/edl-go/edl/ops"

// A table with evict_unseen_days = n counts hours: those of its rounds, which are the same wherever its regions are (ops.HourOf). Its time spans have n hours, a
// 24th of n days. Hours has the latest hour of a round, and the number of the time span that this round belongs to.
//
// When a round begins another time span, it looks through all regions for keys that go, once in n hours. So the ages of all keys are below daySpans when the
// next span begins. A span that begins after a long pause is therefore numbered at most daySpans later than the one before it: all other keys go in either case,
// and no age grows to where names of time spans come again. Hours that go back begin nothing.

// daySpans is the age in time spans of keys that go. A key that was seen in the last minute of its span was unseen for 24 spans then.
const daySpans = 25

var hoursSlot = ops.Slot{Name: "Hours", Doc: "int64 [2]: the latest hour of a round, since 1970, and the number of its time span; with evict_unseen_days", Dispensable: true}

// at returns what Hours is from a round of an hour on. It may be given what no round has made.
func (r rule) at(hours []int64, hour int64) (latest, span int64) {
	latest, span = max(hours[0], 0), hours[1]
	if hour <= latest {
		return latest, span
	}
	return hour, span + min(hour/r.days-latest/r.days, daySpans)
}
