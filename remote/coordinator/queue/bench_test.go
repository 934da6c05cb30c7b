package queue_test

import (
	"fmt"
	"maps"
	"runtime"
	"testing"
	"time"

	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
)

var benchPolicy = queue.Policy{Passes: 1 << 20, RecordsPerTask: 100, Trainers: 8, MaxFailures: 3, MinTimeout: time.Second, MaxTimeout: time.Hour,
	Epoch: epoch}

// dispatcher is a queue with trainers that each hold a task.
type dispatcher struct {
	queue   *queue.Queue
	store   store
	held    []*rpc.Task
	request uint64
	now     time.Duration
	changes int
	bytes   int
	largest int
}

func newDispatcher(t testing.TB, tasks int64, trainers int) *dispatcher {
	q, effects, err := queue.New(benchPolicy, queue.Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "f", Records: tasks * benchPolicy.RecordsPerTask}}})
	if err != nil {
		t.Fatal(err)
	}
	d := &dispatcher{queue: q, store: store{}, held: make([]*rpc.Task, trainers)}
	d.store.commit(effects.Changes)
	for rank := range trainers {
		d.turn(t, rank)
	}
	return d
}

// turn is a trainer's request: the server's copy hears what is finished and what is wanted, and takes the place of the queue.
func (d *dispatcher) turn(t testing.TB, rank int) {
	d.now += time.Millisecond
	d.request++
	copied := d.queue.Clone()
	step := func(e queue.Event) queue.Effects {
		effects, err := copied.Step(d.now, e)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range effects.Changes {
			d.changes++
			d.bytes += len(c.Key) + len(c.Value)
			d.largest = max(d.largest, len(c.Value))
		}
		d.store.commit(effects.Changes)
		return effects
	}
	if d.held[rank] != nil {
		step(queue.TaskFinished{Rank: id.Rank(rank), Task: d.held[rank]})
	}
	d.held[rank] = step(queue.TaskWanted{Rank: id.Rank(rank), Request: d.request, Pass: copied.Pass()}).Grant.Task
	d.queue = copied
	d.queue.Next()
}

// A request is answered in the same time, with changes of the same size, however many tasks there are. With the number of trainers it grows as the
// depth of trees does.
func BenchmarkRequest(b *testing.B) {
	for _, tasks := range []int64{1e3, 1e5, 1e6} {
		for _, trainers := range []int{1, 10, 100, 1000} {
			b.Run(fmt.Sprintf("tasks=%d/trainers=%d", tasks, trainers), func(b *testing.B) {
				d := newDispatcher(b, tasks, trainers)
				d.changes, d.bytes = 0, 0
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					d.turn(b, i%trainers)
				}
				b.ReportMetric(float64(d.changes)/float64(b.N), "changes/op")
				b.ReportMetric(float64(d.bytes)/float64(b.N), "changed-B/op")
				b.ReportMetric(float64(d.largest), "largest-B")
				b.ReportMetric(float64(len(d.store)), "entries")
			})
		}
	}
}

// A new coordinator reads the entries in time that grows with the trainers, not with the tasks.
func BenchmarkRestore(b *testing.B) {
	for _, tasks := range []int64{1e3, 1e5, 1e6} {
		b.Run(fmt.Sprintf("tasks=%d/trainers=1000", tasks), func(b *testing.B) {
			d := newDispatcher(b, tasks, 1000)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := queue.Restore(benchPolicy, "d", d.store, d.now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLost is the loss of a trainer that holds a task, with a ledger of a thousand parts.
func BenchmarkLost(b *testing.B) {
	var committed ranges.Set
	for i := range int64(1000) {
		committed = append(committed, ranges.Range{From: 1000 * i, To: 1000*i + 500})
	}
	for _, tasks := range []int64{1e3, 1e5, 1e6} {
		b.Run(fmt.Sprintf("tasks=%d", tasks), func(b *testing.B) {
			d := newDispatcher(b, tasks, 100)
			for b.Loop() {
				if _, err := d.queue.Clone().Step(d.now, queue.TrainerLost{Rank: 7, Committed: committed}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

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
