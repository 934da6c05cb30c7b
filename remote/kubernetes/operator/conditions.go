package operator

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of conditions, as Kubeflow has them.
const (
	Created   = "Created"   // the listener has taken the job
	Running   = "Running"   // its trainers train
	Suspended = "Suspended" // it waits, for who has suspended it or for a queue, and has no pods
	Complete  = "Complete"  // it has ended well
	Failed    = "Failed"    // it has ended before its time
)

// condition returns a condition of a status; nil: there is none of the type.
func (s *Status) condition(of string) *metav1.Condition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == of {
			return &s.Conditions[i]
		}
	}
	return nil
}

// is reports whether a condition holds.
func (s *Status) is(of string) bool {
	c := s.condition(of)
	return c != nil && c.Status == metav1.ConditionTrue
}

// finished reports whether a job has ended: its status stays as it is.
func (s *Status) finished() bool { return s.is(Complete) || s.is(Failed) }

// set says that a condition holds.
func (s *Status) set(of, reason, message string, generation int64, now metav1.Time) {
	s.put(metav1.Condition{Type: of, Status: metav1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: generation}, now)
}

// unset says that a condition does not hold any more. One that never held is not told.
func (s *Status) unset(of, reason string, generation int64, now metav1.Time) {
	if c := s.condition(of); c != nil {
		s.put(metav1.Condition{Type: of, Status: metav1.ConditionFalse, Reason: reason, ObservedGeneration: generation}, now)
	}
}

func (s *Status) put(c metav1.Condition, now metav1.Time) {
	if c.Message != "" {
		c.Message = shortened(c.Message)
	}
	c.LastTransitionTime = now
	have := s.condition(c.Type)
	if have == nil {
		s.Conditions = append(slices.Clip(s.Conditions), c)
		return
	}
	if have.Status == c.Status {
		c.LastTransitionTime = have.LastTransitionTime
	}
	*have = c
}

// maxMessage bounds the text of a condition, which the API server takes up to 32 KiB.
const maxMessage = 1024

func shortened(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	cut := maxMessage
	for cut > 0 && text[cut]&0xc0 == 0x80 { // not within a letter
		cut--
	}
	return text[:cut] + "…"
}
