package queue_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

// Where only the first changes of an event are durable, the next coordinator draws the same conclusion from them: here that no task is left.
func TestRestoreWithoutTheLastHead(t *testing.T) {
	p := queue.Policy{Passes: 2, RecordsPerTask: 10}
	q, effects, err := queue.New(p, queue.Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "f", Records: 10}}})
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string][]byte{}
	commit := func(changes []queue.Change) {
		for _, c := range changes {
			entries[c.Key] = c.Value
		}
	}
	commit(effects.Changes)
	got, err := q.Step(0, queue.TaskWanted{Incarnation: 1})
	if err != nil {
		t.Fatal(err)
	}
	commit(got.Changes)
	failed, err := q.Step(0, queue.TaskFailed{Incarnation: 1, Task: got.Grant.Task, Reason: "damaged"})
	if last := len(failed.Changes) - 1; err != nil || !failed.Exhausted || last < 1 || !strings.HasPrefix(failed.Changes[last].Key, "head") {
		t.Fatal(failed, err)
	}
	commit(failed.Changes[:len(failed.Changes)-1])
	again, rest, err := queue.Restore(p, "d", entries, 0)
	if err != nil || !again.Ended() || len(rest.Changes) != 1 || rest.Changes[0].Key != "head" {
		t.Errorf("ended %v, with changes %v, %v; want the head that was missing", again.Ended(), rest.Changes, err)
	}
}
