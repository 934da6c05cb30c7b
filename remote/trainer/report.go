package trainer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Bounds of the steps that a trainer may be ahead of its reports, and of one message. One step may have more bytes.
const (
	maxReports     = 256
	maxReportBytes = 1 << 20
)

// Bounds of the reports that a trainer keeps after the coordinator has taken them: by their age when the last one was taken, their number, and their
// bytes. The last one is kept in any case. A coordinator tells the listener of a step within Deadlines.Tell, so the reports that die with it are younger. One
// that hangs tells nobody: however long it takes no report, they become no older than by keepAtMost.
const (
	keepReports  = 2 * time.Second
	keepAtMost   = keepReports / 4
	maxKept      = 1024
	maxKeptBytes = 1 << 20
)

// reporter sends what was fetched to the coordinator, in order, while the training goes on, through all generations. Steps that are reported within
// Deadlines.Report of each other go in one message:
//
//	report ---> queue ---> message, when the one before is answered and
//	                         - Deadlines.Report has passed since that was begun, or
//	                         - the queue is full, or
//	                         - somebody waits: flush
//
// A message has steps of one generation. A message without an answer is sent again, with the same steps. A coordinator that dies may take reports with it
// that it has answered: repeat sends the last ones again, to whichever coordinator there is. It counts each step once.
type reporter struct {
	keep   bool          // for repeat; only where a coordinator knows a step by its number
	every  time.Duration // between the beginnings of two messages; 0: a message is sent when the one before is answered
	after  time.Duration // how long it goes on when the lease of the trainer is lost: what it has may be the only report of rounds that count
	send   func(ctx context.Context, in *generation, steps []*rpc.TrainerStep) error
	begin  func() (end func()) // enters and ends a wait for room in the list of waits
	cancel context.CancelFunc
	done   chan struct{} // closed when the reporter has ended
	wake   chan struct{} // holds a value when the sender has to look again

	mu      sync.Mutex
	changed *sync.Cond    // steps were taken out of the queue or sent, or the reporter has ended
	queue   []reported    // not sent
	bytes   int           // of queue
	sent    []reported    // what repeat sends again
	weight  int           // bytes of sent
	last    time.Time     // when the coordinator has taken the last message
	age     time.Duration // of the time until last, as much as makes reports older
	flushes int           // calls of flush that wait
	sending bool          // a message is under way
	closed  bool
	ended   bool
	err     error // why it has ended
}

// reported is a step, and the generation that trained it.
type reported struct {
	in    *generation
	step  *rpc.TrainerStep
	taken time.Duration // the reporter's age when the coordinator had it
}

func newReporter(ctx context.Context, t *Trainer) *reporter {
	r := &reporter{keep: t.cfg.Sync && !t.cfg.Spec.GetFed(), every: t.cfg.Deadlines.Report, after: t.cfg.Deadlines.LostLease / 2, send: t.sendSteps,
		begin: func() func() {
			return t.caller.begin(callTarget{"coordinator", "room for another report of a step"}, 0).end
		}}
	r.start(ctx)
	return r
}

// start begins to send.
func (r *reporter) start(ctx context.Context) {
	ctx, r.cancel = outlasting(ctx, r.after)
	r.done, r.wake, r.changed = make(chan struct{}), make(chan struct{}, 1), sync.NewCond(&r.mu)
	go func() {
		defer close(r.done)
		err := r.run(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended, r.err = true, err
		r.changed.Broadcast()
	}()
}

// outlasting returns a context that ends with ctx, or a time later where ctx ends because a lease is lost.
func outlasting(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if !errors.Is(cause, fault.Fenced) {
			cancel(cause)
			return
		}
		late := time.AfterFunc(after, func() { cancel(cause) })
		context.AfterFunc(out, func() { late.Stop() })
	})
	return out, func() { stop(); cancel(nil) }
}

// run sends messages until the reporter is closed, or sending fails.
func (r *reporter) run(ctx context.Context) error {
	var last time.Time // when the last message was begun
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		r.mu.Lock()
		var in *generation
		var steps []*rpc.TrainerStep
		closed, wait := r.closed, time.Until(last.Add(r.every))
		if r.full() || r.flushes > 0 || wait <= 0 {
			in, steps = r.take()
		}
		empty := len(r.queue) == 0
		r.sending = len(steps) > 0
		r.mu.Unlock()
		switch {
		case closed:
			return nil
		case len(steps) > 0:
			last = time.Now()
			if err := r.send(ctx, in, steps); err != nil {
				return err // whoever waits for the message is told with the end
			}
			r.mu.Lock()
			r.sending = false
			r.keepTaken(in, steps)
			r.changed.Broadcast()
			r.mu.Unlock()
			continue
		}
		timer.Stop()
		if !empty {
			timer.Reset(wait)
		}
		select {
		case <-r.wake:
		case <-timer.C:
		}
	}
}

// full reports whether the queue has enough for a message. r.mu is held.
func (r *reporter) full() bool { return len(r.queue) >= maxReports || r.bytes >= maxReportBytes }

// take takes the steps of the next message out of the queue, and tells their generation. r.mu is held.
func (r *reporter) take() (in *generation, steps []*rpc.TrainerStep) {
	bytes := 0
	for _, next := range r.queue {
		size := bytesOf(next.step)
		if len(steps) > 0 && (next.in != in || bytes+size > maxReportBytes) {
			break
		}
		in, steps, bytes = next.in, append(steps, next.step), bytes+size
	}
	r.queue, r.bytes = slices.Delete(r.queue, 0, len(steps)), r.bytes-bytes
	r.changed.Broadcast()
	return in, steps
}

// keepTaken keeps the steps of a message that the coordinator has taken, and forgets those that are beyond the bounds. r.mu is held.
func (r *reporter) keepTaken(in *generation, steps []*rpc.TrainerStep) {
	if !r.keep {
		return
	}
	now := time.Now()
	r.age += min(now.Sub(r.last), keepAtMost)
	r.last = now
	for _, step := range steps {
		r.sent = append(r.sent, reported{in, step, r.age})
		r.weight += bytesOf(step)
	}
	old := 0
	for old < len(r.sent)-1 && (r.age-r.sent[old].taken > keepReports || len(r.sent)-old > maxKept || r.weight > maxKeptBytes) {
		r.weight -= bytesOf(r.sent[old].step)
		old++
	}
	r.sent = slices.Delete(r.sent, 0, old)
}

// repeat is flush, and sends before that again what was kept.
func (r *reporter) repeat() error {
	r.mu.Lock()
	r.queue, r.bytes = append(r.sent, r.queue...), r.bytes+r.weight
	r.sent, r.weight = nil, 0
	r.mu.Unlock()
	return r.flush()
}

// bytesOf is what the values of a step weigh.
func bytesOf(m *rpc.TrainerStep) (n int) {
	for _, v := range m.Fetched {
		n += len(v.Stream)
	}
	return n
}

// report queues one step of a generation; it waits while the queue is full.
func (r *reporter) report(in *generation, m *rpc.TrainerStep) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full() && !r.ended {
		defer r.begin()()
		for r.full() && !r.ended {
			r.changed.Wait()
		}
	}
	if r.ended {
		return r.err
	}
	r.queue = append(r.queue, reported{in: in, step: m})
	r.bytes += bytesOf(m)
	if len(r.queue) == 1 || r.full() {
		r.look()
	}
	return nil
}

// look lets the sender look again.
func (r *reporter) look() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// flush has everything sent at once that is queued, and returns when it is.
func (r *reporter) flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushes++
	r.look()
	for (len(r.queue) > 0 || r.sending) && !r.ended {
		r.changed.Wait()
	}
	r.flushes--
	return r.err
}

// close ends the reporter; what has not been flushed may be lost.
func (r *reporter) close() {
	r.cancel()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.look()
	<-r.done
}

// sendSteps sends one message until the coordinator has taken it.
func (t *Trainer) sendSteps(ctx context.Context, in *generation, steps []*rpc.TrainerStep) error {
	m := &rpc.TrainerSteps{Steps: steps}
	return t.caller.call(ctx, callTarget{"coordinator", "taking the reports of steps"}, func(ctx context.Context, retry id.Retry) error {
		m.Id = in.message(id.Round(steps[0].Id.Round), retry)
		return wire.ReportSteps(ctx, t.cfg.Coordinator, m, grpc.WaitForReady(false))
	})
}

// roundOf is the identity of a step in a message of several.
func roundOf(round id.Round) *rpc.Identity { return &rpc.Identity{Round: uint64(round)} }

// encode copies fetched tensors into messages. A step without rows has fetched nothing.
func encode(names []string, values []*tensor.Tensor) []*job.Value {
	out := make([]*job.Value, len(values))
	for i, t := range values {
		out[i] = &job.Value{Name: names[i], Stream: tensor.AppendStream(nil, t)}
	}
	return out
}

// beforeDeclaration leaves out what a trainer program receives after it has declared its contribution.
func beforeDeclaration(p *program.Program, fetched []*job.Value) []*job.Value {
	declared, received := false, map[string]bool{}
	for _, op := range p.Global().Ops {
		declared = declared || op.Type == "send_barrier"
		for _, name := range op.OutputNames() {
			received[name] = declared
		}
	}
	return slices.DeleteFunc(fetched, func(v *job.Value) bool { return received[v.Name] })
}
