package trainer

import (
	"slices"
	"sync"

	"github.com/edl-go/edl/proto/rpc"
)

// progress keeps how far the tasks that a trainer was given are trained. A task is finished when the round of its last record has been committed, not
// when it has been read. The stream of records is read ahead of the steps, by another goroutine where the program has a double buffer: progress is
// safe for concurrent use.
type progress struct {
	mu      sync.Mutex
	open    []span
	given   int64 // position in the stream behind the last task
	trained int64 // position behind the last record whose step has ended
	delay   int64 // how many records late a record may be delivered
}

// span is a task that was given and not yet reported, with the position of its end in the stream.
type span struct {
	task *rpc.Task
	end  int64
}

// begin starts a stream at a position.
func (p *progress) begin(at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open, p.given, p.trained = nil, at, at
}

// give notes a task, of which so many records are in the stream.
func (p *progress) give(task *rpc.Task, records int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given += records
	p.open = append(p.open, span{task, p.given})
}

// back takes a task out that is not to be reported as finished.
func (p *progress) back(task *rpc.Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = slices.DeleteFunc(p.open, func(s span) bool { return s.task == task })
}

// train notes that the step of the next records has ended well.
func (p *progress) train(records int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trained += records
}

// finished takes out the tasks that are finished: all of them when whole says that every record of the stream has been trained.
func (p *progress) finished(whole bool) []*rpc.Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	var tasks []*rpc.Task
	for len(p.open) > 0 && (whole || p.open[0].end+p.delay <= p.trained) {
		tasks = append(tasks, p.open[0].task)
		p.open = p.open[1:]
	}
	return tasks
}
