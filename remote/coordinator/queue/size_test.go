package queue_test

import (
	"maps"
	"runtime"
	"testing"

	"github.com/edl-go/edl/remote/coordinator/queue"
)

// The memory of a queue, its entries, and what is changed by an event do not grow with the number of tasks, neither of those that there are nor of
// those that were trained.
func TestSizeDoesNotGrowWithTasks(t *testing.T) {
	const warm = 100 // turns of each trainer, more than its last tasks that are remembered
	type size struct{ entries, grown, changes, largest, memory int }
	measure := func(tasks int64, trainers int) size {
		d := newDispatcher(t, tasks, trainers)
		var before, after runtime.MemStats
		for i := range warm * trainers {
			d.turn(t, i%trainers)
		}
		warmed := len(d.store)
		d.changes, d.largest = 0, 0
		for i := range 3 * trainers {
			d.turn(t, i%trainers)
		}
		effects := size{entries: len(d.store), grown: len(d.store) - warmed, changes: d.changes, largest: d.largest}
		entries := maps.Clone(d.store)
		runtime.GC()
		runtime.ReadMemStats(&before)
		var queues []*queue.Queue
		for range 10 {
			q, _, err := queue.Restore(benchPolicy, "d", entries, d.now)
			if err != nil {
				t.Fatal(err)
			}
			queues = append(queues, q)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		effects.memory = int(after.HeapAlloc-before.HeapAlloc) / len(queues)
		runtime.KeepAlive(queues)
		return effects
	}
	for _, trainers := range []int{1, 100} {
		few, many := measure(2e4, trainers), measure(1e6, trainers)
		t.Logf("%d trainers: %+v at 2e4 tasks, %+v at 1e6", trainers, few, many)
		if few.entries != many.entries || few.grown+many.grown != 0 || few.changes != many.changes || many.largest > few.largest+100 ||
			many.largest > 600 || many.memory > 2*few.memory+1<<14 {
			t.Errorf("with %d trainers: %+v at 2e4 tasks, %+v at 1e6", trainers, few, many)
		}
		if perTrainer := many.memory / trainers; perTrainer > 8<<10 {
			t.Errorf("%d bytes for each of %d trainers", perTrainer, trainers)
		}
	}
}
