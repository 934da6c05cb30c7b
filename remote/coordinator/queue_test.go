package coordinator_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/script"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
)

func number(t *testing.T, c script.Command, key, otherwise string) int {
	n, err := strconv.Atoi(c.Arg(key, otherwise))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// tasksOf makes n tasks of ten records each.
func tasksOf(n int) []*rpc.Task {
	var tasks []*rpc.Task
	for i := range int64(n) {
		tasks = append(tasks, &rpc.Task{Dataset: "d", Records: &rpc.RecordRange{From: 10 * i, To: 10*i + 10}})
	}
	return tasks
}

func showGrant(g coordinator.Grant) string {
	switch {
	case g.Task != nil && g.Timeout > 0:
		return fmt.Sprintf("task %d, dispatch %d, pass %d, within %v", g.Task.Id, g.Task.Epoch, g.Task.Pass, g.Timeout)
	case g.Task != nil:
		return fmt.Sprintf("task %d, dispatch %d, pass %d", g.Task.Id, g.Task.Epoch, g.Task.Pass)
	case g.EndOfData:
		return "end of data"
	case g.EndOfPass:
		return "end of pass"
	case g.Wait:
		return "wait"
	}
	return "nothing"
}

func showError(err error) string { return fmt.Sprintf("%v: %v", fault.KindOf(err), err) }

func TestQueueScripts(t *testing.T) {
	script.RunDir(t, "testdata/queue", func(t *testing.T) func(script.Command) string {
		var q *coordinator.Queue
		return func(c script.Command) string {
			arg := func(key string) int { return number(t, c, key, "0") }
			now := time.Duration(arg("now")) * time.Second
			m := &rpc.Task{Id: int64(arg("task")), Epoch: uint32(number(t, c, "dispatch", "1")), Pass: int32(arg("pass"))}
			switch c.Name {
			case "new":
				q = coordinator.NewQueue(coordinator.Policy{Broadcast: c.Arg("mode", "async") == "sync", Trainers: number(t, c, "trainers", "2"), Passes: number(t, c, "passes", "1"),
					MaxFailures: arg("failures"), MinTimeout: 10 * time.Second, MaxTimeout: 100 * time.Second}, tasksOf(arg("tasks")))
				return ""
			case "get":
				g, err := q.Get(arg("rank"), m.Pass, now)
				if err != nil {
					return showError(err)
				}
				return showGrant(g)
			case "finish":
				if err := q.Finish(arg("rank"), m, now); err != nil {
					return showError(err)
				}
				return "done"
			case "failed":
				discarded, err := q.Failed(arg("rank"), m)
				if err != nil {
					return showError(err)
				}
				return fmt.Sprintf("discarded: %v", discarded)
			case "timeout":
				late, discarded := q.Timeout(m.Id, m.Epoch)
				return fmt.Sprintf("late: %v, discarded: %v", late, discarded)
			case "counts":
				n := q.Counts()
				return fmt.Sprintf("pass %d: todo %d, pending %d, done %d, discarded %d; exhausted: %v", n.Pass, n.Todo, n.Pending, n.Done, n.Discarded, q.Exhausted())
			}
			t.Fatalf("unknown command %s", c.Name)
			return ""
		}
	})
}
