package queue

import (
	"fmt"
	"strings"
)

// Fingerprint tells two queues apart by all that decides what they do.
func (q *Queue) Fingerprint() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v %v %v", q.counters, q.layout.groups, q.segments)
	for k, p := range q.pending.byTask.from(key{}) {
		fmt.Fprintf(&b, "\npending %v %+v", k, *p)
	}
	for k := range q.pending.byRank.from(key{}) {
		fmt.Fprintf(&b, "\nrank %v", k)
	}
	for k := range q.pending.byDeadline.from(key{}) {
		fmt.Fprintf(&b, "\ndeadline %v", k)
	}
	for name, t := range []tree[*task]{q.returned, q.discarded, q.failed} {
		for k, w := range t.from(key{}) {
			fmt.Fprintf(&b, "\n%d %v %+v", name, k, *w)
		}
	}
	for k, r := range q.trainers.from(key{}) {
		fmt.Fprintf(&b, "\n%v %+v", k, *r)
	}
	return b.String()
}
