package waits

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// Bounds of what one process lists: waits, names in By of each wait, and bytes of each text.
const (
	MaxListed = 32
	MaxNames  = 64
	MaxText   = 300
)

// A Wait is something that is waited for.
type Wait struct {
	Who   string        // waits, such as "pserver 0"
	What  string        // is waited for, such as "round 41"
	By    []string      // those who can end the wait, such as "trainer 1"
	Heard []string      // when each of By was last heard, as Heard says it; nil where nobody keeps count
	Since time.Time     // zero: the Monitor or Board sets when the wait began
	Until time.Time     // when the wait is given up; zero: see Limit
	Limit time.Duration // the same counted from Since; 0: the wait has no limit of its own

	// Tell completes What, By and Heard when somebody asks; nil: they are complete. It is for waits of a Monitor that begin far more often than anybody
	// asks. It is called with the lock held.
	Tell func(*Wait)

	LastError string // of the last try to end the wait; empty: none has failed
	Dataset   string // whose new files are waited for; empty: something else is
	Unlisted  bool   // another wait tells more: this one is named in errors only

	order uint64 // of those that began at the same time
}

// told is the wait with all that there is to tell.
func (w Wait) told() Wait {
	if tell := w.Tell; tell != nil {
		w.Tell = nil
		tell(&w)
	}
	return w
}

// String says what is waited for and by whom: "round 7: trainer 1 (last heard 3s ago)".
func (w Wait) String() string {
	if len(w.By) == 0 {
		return w.What
	}
	names := make([]string, len(w.By))
	for i, name := range w.By {
		if names[i] = name; i < len(w.Heard) {
			names[i] += " (" + w.Heard[i] + ")"
		}
	}
	return w.What + ": " + strings.Join(names, ", ")
}

// Heard says when somebody was last heard; the zero time is never.
func Heard(at time.Time) string {
	if at.IsZero() {
		return "never heard"
	}
	return fmt.Sprintf("last heard %v ago", time.Since(at).Round(time.Millisecond))
}

// TimedOut is the error of a wait that lasted longer than it may.
func TimedOut(where string, w Wait) *fault.Fault {
	text := "timed out waiting for " + w.String()
	if limit := w.end().Sub(w.Since); !w.end().IsZero() && !w.Since.IsZero() {
		text = fmt.Sprintf("timed out after %v waiting for %v", limit.Round(time.Millisecond), w)
	}
	return fault.E(fault.DeadlineExceeded, fault.At(where), fault.Cause(errors.New(text)))
}

// end is when the wait is given up; zero: it has no limit.
func (w Wait) end() time.Time {
	if w.Until.IsZero() && w.Limit > 0 {
		return w.Since.Add(w.Limit)
	}
	return w.Until
}

// Message returns w for the wire, its texts and names cut to their bounds.
func (w Wait) Message() *job.Wait {
	m := &job.Wait{Who: cut(w.Who), What: cut(w.What), LastError: cutMiddle(w.lastError()), Dataset: cut(w.Dataset)}
	for _, name := range w.By[:min(len(w.By), MaxNames)] {
		m.By = append(m.By, cut(name))
	}
	if !w.Since.IsZero() {
		m.Since = timestamppb.New(w.Since)
	}
	if end := w.end(); !end.IsZero() {
		m.Until = timestamppb.New(end)
	}
	return m
}

// lastError is LastError, or else when those who are waited for were last heard.
func (w Wait) lastError() string {
	switch {
	case w.LastError != "" || len(w.Heard) == 0:
		return w.LastError
	case len(w.By) == 1:
		return w.Heard[0]
	}
	var list []string
	for i, heard := range w.Heard[:min(len(w.Heard), len(w.By))] {
		list = append(list, w.By[i]+" "+heard)
	}
	return strings.Join(list, ", ")
}

// cut makes a text valid UTF-8 of at most MaxText bytes.
func cut(text string) string {
	if len(text) <= MaxText {
		return strings.ToValidUTF8(text, "?")
	}
	const more = " ..."
	return strings.ToValidUTF8(text[:MaxText-len(more)], "") + more
}

// cutMiddle is cut that keeps the end of a text, too: there errors have their reason.
func cutMiddle(text string) string {
	if len(text) <= MaxText {
		return strings.ToValidUTF8(text, "?")
	}
	const more = " ... "
	half := (MaxText - len(more)) / 2
	return strings.ToValidUTF8(text[:half], "") + more + strings.ToValidUTF8(text[len(text)-half:], "")
}

// Check refuses waits from outside that no process of EDL lists: it returns fault.Corrupt when they break a bound.
func Check(list []*job.Wait) error {
	corrupt := func(got string) error { return fault.E(fault.Corrupt, fault.At("list of waits"), fault.Got(got)) }
	if len(list) > MaxListed {
		return corrupt(fmt.Sprintf("%d waits", len(list)))
	}
	for _, w := range list {
		long := max(len(w.GetWho()), len(w.GetWhat()), len(w.GetLastError()), len(w.GetDataset()))
		for _, name := range w.GetBy() {
			long = max(long, len(name))
		}
		switch {
		case w == nil:
			return corrupt("an absent wait")
		case w.Since != nil && !w.Since.IsValid() || w.Until != nil && !w.Until.IsValid():
			return corrupt("a time that does not exist")
		case len(w.By) > MaxNames || long > MaxText:
			return corrupt(fmt.Sprintf("%d names and a text of %d bytes", len(w.By), long))
		}
	}
	return nil
}

// messages lists waits, the oldest first. If several waits have the same Who, What and By, it lists the oldest only.
func messages(list []Wait) (out []*job.Wait) {
	slices.SortStableFunc(list, func(a, b Wait) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Who, b.Who), cmp.Compare(a.What, b.What), cmp.Compare(a.order, b.order))
	})
	type key struct{ who, what, by string }
	have := map[key]bool{}
	for _, w := range list {
		if k := (key{w.Who, w.What, strings.Join(w.By, " ")}); !have[k] && len(out) < MaxListed {
			have[k] = true
			out = append(out, w.Message())
		}
	}
	return out
}
