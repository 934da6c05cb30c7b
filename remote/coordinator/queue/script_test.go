package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/script"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// The scripts tell stories of one dataset. Its tasks have ten records unless a script says otherwise, and its trainers number their requests by
// themselves. What happens is made durable each time, unless a command says commit=fails, and each time it is checked that a coordinator that
// starts then has the same queue.
func TestScripts(t *testing.T) {
	script.RunDir(t, "testdata", func(t *testing.T) func(script.Command) string {
		s := &stage{T: t, store: store{}, requests: map[int]int{}}
		return s.run
	})
}

// stage carries out the commands of a script.
type stage struct {
	*testing.T
	policy   queue.Policy
	queue    *queue.Queue
	store    store
	requests map[int]int // the next one of each rank
	last     queue.Effects
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *stage) run(c script.Command) string {
	now := time.Duration(s.number(c, "now", "0")) * time.Second
	switch c.Name {
	case "new":
		s.policy = queue.Policy{Sync: c.Arg("mode", "async") == "sync", Passes: s.number(c, "passes", "1"),
			RecordsPerTask: int64(s.number(c, "size", "10")), Trainers: s.number(c, "trainers", "2"),
			MaxFailures: s.number(c, "failures", "0"), MinTimeout: 10 * time.Second, MaxTimeout: 100 * time.Second, Epoch: epoch}
		q, effects, err := queue.New(s.policy, queue.Dataset{Name: "d", Files: filesOf(c.Arg("files", ""), true),
			Following: c.Arg("follow", "no") == "yes"})
		if err != nil {
			return showError(err)
		}
		s.queue, s.store, s.last = q, store{}, effects
		s.store.commit(effects.Changes)
		return ""
	case "status":
		return showStatus(s.queue)
	case "changes":
		return s.showChanges()
	case "segment":
		return showSegment(s.queue.Segment(uint64(s.number(c, "round", "0"))))
	case "next":
		at, e, ok := s.queue.Next()
		if !ok {
			return "no deadline"
		}
		return fmt.Sprintf("at %v: task %d, dispatch %d, pass %d", at, e.Task, e.Epoch, e.Pass)
	case "damage":
		s.store[c.Args[0]] = []byte(strings.Join(c.Args[1:], " "))
		_, _, err := queue.Restore(s.policy, "d", s.store, now)
		return showError(err)
	case "restore":
		q, effects, err := queue.Restore(s.policy, "d", s.store, now)
		if err != nil {
			return showError(err)
		}
		s.queue, s.last = q, effects
		s.store.commit(effects.Changes)
		return fmt.Sprintf("restored, %d changes", len(effects.Changes))
	}
	return s.happen(c, s.event(c), now)
}

// happen does what a server does: a copy takes the step, and takes the place of the queue when its changes are durable.
func (s *stage) happen(c script.Command, e queue.Event, now time.Duration) string {
	copied := s.queue.Clone()
	effects, err := copied.Step(now, e)
	if err != nil {
		return showError(err)
	}
	if c.Arg("commit", "yes") == "fails" {
		return "not durable"
	}
	s.store.commit(effects.Changes)
	s.queue, s.last = copied, effects
	s.same(now)
	return showEffects(effects)
}

// same checks that a coordinator that starts now has the same queue. Deadlines that have passed are another story.
func (s *stage) same(now time.Duration) {
	if at, _, ok := s.queue.Next(); ok && at <= now {
		return
	}
	again, effects, err := queue.Restore(s.policy, "d", s.store, now)
	if err != nil || len(effects.Changes) > 0 {
		s.Fatalf("restored with %v, %v", effects, err)
	}
	if !proto.Equal(again.Status(), s.queue.Status()) || again.Fingerprint() != s.queue.Fingerprint() {
		s.Fatalf("restored as\n%v\n%s\nthe queue is\n%v\n%s", again.Status(), again.Fingerprint(), s.queue.Status(), s.queue.Fingerprint())
	}
}

// showChanges lists the changes of the last event.
func (s *stage) showChanges() string {
	var out []string
	for _, c := range s.last.Changes {
		if c.Value == nil {
			out = append(out, "delete "+c.Key)
			continue
		}
		text, err := queue.Describe(c.Key, c.Value)
		if err != nil {
			s.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s: %s", c.Key, strings.Join(strings.Fields(text), " ")))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func showError(err error) string {
	if err == nil {
		return "no error"
	}
	return fmt.Sprintf("%v: %v", fault.KindOf(err), err)
}
