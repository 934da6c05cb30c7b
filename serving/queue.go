package serving

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// ErrBusy is the cause of the error of a request that was refused because too many wait. Another try may help.
var ErrBusy = errors.New("too many requests wait")

// A request is one call of Predict. Its pieces run one after another.
type request struct {
	version *version
	inputs  map[string]*tensor.Tensor
	records int64
	parts   [][]*tensor.Tensor // of each output, in the order of the pieces; they belong to the caller
}

// output returns an output as one tensor.
func (r *request) output(i int) (*tensor.Tensor, error) {
	return joined(&r.version.schema.Outputs[i], r.parts[i])
}

// joined puts the rows of several tensors, and their sequences, one after another.
func joined(f *Field, parts []*tensor.Tensor) (*tensor.Tensor, error) {
	if len(parts) == 1 {
		return parts[0], nil
	}
	all := make([]executor.Part, len(parts))
	for i, t := range parts {
		all[i] = executor.Part{Value: t, Rows: 1}
	}
	return executor.MergeFetch(&program.Var{Name: f.Name, Dims: f.Dims}, ops.MergeMean, ops.Along{}, 0, all)
}

// A piece is records [from, to) of a request, which run together.
type piece struct {
	request  *request
	from, to int64
	rows     int64         // the most rows that an input has; more than records where they are sequences
	lead     chan struct{} // gets a value when the piece is to lead
	done     chan struct{} // is closed when the piece has run
	err      error         // then
}

func (p *piece) records() int64 { return p.to - p.from }

// A queue has the pieces that wait for a worker of one version. The first of them leads: its goroutine waits for a worker, and for others to share the run
// with, if it may; then it takes as many of those that wait as fit, runs them, and lets the next one lead meanwhile. So a batch needs no goroutine of its own, and a
// request that meets an idle worker runs at once on the goroutine of its caller.
type queue struct {
	idle chan *worker

	mu      sync.Mutex
	pieces  []*piece      // that nobody has taken, in the order in which they came
	held    int64         // records of them
	leader  *piece        // one of them; nil if there is none
	arrived chan struct{} // gets a value when a batch may be full
}

func newQueue(workers int) *queue {
	return &queue{idle: make(chan *worker, workers), arrived: make(chan struct{}, 1)}
}

func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pieces)
}

// run returns when the piece has run, or when ctx has ended before it was taken.
func (q *queue) run(ctx context.Context, p *piece, s *settings) error {
	if err := q.enter(p, s); err != nil {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-p.lead:
	case <-ctx.Done():
		if q.leave(p) {
			return canceled(ctx)
		}
		<-p.done
		return p.err
	}
	w, err := q.gather(ctx, p, s)
	if err != nil {
		q.leave(p)
		return err
	}
	defer func() { q.idle <- w }()
	w.serve(ctx, q.take(p, s), s)
	return p.err
}

func canceled(ctx context.Context) error {
	kind := fault.Canceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = fault.DeadlineExceeded
	}
	return fault.E(kind, fault.At("waiting for a worker"), fault.Cause(context.Cause(ctx)))
}

// enter puts a piece into the queue. It leads if no other does.
func (q *queue) enter(p *piece, s *settings) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pieces) >= s.maxQueue {
		return fault.E(fault.Unavailable, fault.Gotf("%d requests that wait", len(q.pieces)), fault.Wantf("fewer than %d", s.maxQueue), fault.Cause(ErrBusy))
	}
	q.pieces = append(q.pieces, p)
	q.held += p.records()
	if q.leader == nil {
		q.promote()
	} else if q.held >= int64(s.maxBatch) {
		select {
		case q.arrived <- struct{}{}:
		default:
		}
	}
	return nil
}

// promote lets the first piece lead. The caller has the lock.
func (q *queue) promote() {
	if q.leader = nil; len(q.pieces) > 0 {
		q.leader = q.pieces[0]
		q.leader.lead <- struct{}{} // which has room for one
	}
}

// leave takes out a piece that has not been taken. It reports false for one that has.
func (q *queue) leave(p *piece) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.pieces, p)
	if at < 0 {
		return false
	}
	q.pieces = slices.Delete(q.pieces, at, at+1)
	q.held -= p.records()
	if q.leader == p {
		q.promote()
	}
	return true
}

// gather returns a worker, after it has waited for a full batch as long as the settings allow.
func (q *queue) gather(ctx context.Context, p *piece, s *settings) (*worker, error) {
	if s.maxWait > 0 && p.request.version.schema.Rowwise {
		limit := time.NewTimer(s.maxWait)
		defer limit.Stop()
		for waits := true; waits && !q.full(s); {
			select {
			case <-q.arrived:
			case <-limit.C:
				waits = false
			case <-ctx.Done():
				return nil, canceled(ctx)
			}
		}
	}
	select {
	case w := <-q.idle:
		return w, nil
	case <-ctx.Done():
		return nil, canceled(ctx)
	}
}

func (q *queue) full(s *settings) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held >= int64(s.maxBatch)
}

// take takes out the piece that leads, and those that may run with it. The next one leads then.
func (q *queue) take(p *piece, s *settings) (batch []*piece) {
	q.mu.Lock()
	defer q.mu.Unlock()
	records, rows := p.records(), p.rows
	batch = append(batch, p)
	rest := q.pieces[:0]
	for _, o := range q.pieces {
		switch {
		case o == p:
		case p.request.version.schema.Rowwise && records+o.records() <= int64(s.maxBatch) && rows+o.rows <= mostRows(s) && sameRows(p, o):
			batch = append(batch, o)
			records, rows = records+o.records(), rows+o.rows
		default:
			rest = append(rest, o)
		}
	}
	clear(q.pieces[len(rest):])
	q.pieces = rest
	q.held = 0
	for _, o := range rest {
		q.held += o.records()
	}
	q.promote()
	return batch
}

// sameRows reports whether rows of the inputs of two requests can lie in one tensor.
func sameRows(p, o *piece) bool {
	v := p.request.version
	if v.schema.fixed {
		return true
	}
	for i := range v.schema.Inputs {
		name := v.schema.Inputs[i].Name
		if !slices.Equal(p.request.inputs[name].Dims()[1:], o.request.inputs[name].Dims()[1:]) {
			return false
		}
	}
	return true
}

// rowsOfRecord is how many rows the records of a run may have on average: sequences may be longer, but not all of them.
const rowsOfRecord = 64

// mostRows bounds the rows of a run of several records.
func mostRows(s *settings) int64 { return int64(s.maxBatch) * rowsOfRecord }

// pieceOf returns the piece of a request that begins at a record: as many records as may run together, and at least one.
func pieceOf(r *request, from int64, s *settings) *piece {
	p := &piece{request: r, from: from, to: r.records, lead: make(chan struct{}, 1), done: make(chan struct{})}
	schema := &r.version.schema
	if schema.Rowwise {
		p.to = min(r.records, from+int64(s.maxBatch))
	}
	p.rows = p.records()
	for i := range schema.Inputs {
		if f := &schema.Inputs[i]; f.LoDLevel > 0 {
			lod := r.inputs[f.Name].LoD()
			if schema.Rowwise {
				for p.records() > 1 && rowsOf(lod, from, p.to) > mostRows(s) {
					p.to--
				}
			}
			p.rows = max(p.records(), p.rows, rowsOf(lod, from, p.to))
		}
	}
	return p
}

// rowsOf is how many rows sequences [from, to) of the outermost level have.
func rowsOf(lod [][]int64, from, to int64) int64 {
	for _, level := range lod {
		from, to = level[from], level[to]
	}
	return to - from
}
