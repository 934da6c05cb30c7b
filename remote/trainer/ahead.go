package trainer

import (
	"context"
	"slices"
	"sync"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote/id"
)

// ahead asks servers for the rows of distributed tables that the next round looks up. A request leaves as soon as the round before is declared, and a server
// answers when it has applied that round. So the rows come together with the parameters, and the next step need not wait for a way there and back.
//
//	reader         note: batch of round r+1 is decoded -> which rows it names (the part of the program up to prefetch)
//	step of r      SendBarrier: round r is declared ----> ask: requests for version r+1 ----> servers
//	step of r+1    prefetch: FetchRows <--------------------------------- take: rows of version r+1
//	               SendBarrier: settle: nothing of r+1 is asked for any more; then the round is declared
//
// The bits are those of requests that are made when a step begins: the version is the same. What was asked for is used only if FetchRows wants exactly that; a
// request that fails is made again by FetchRows. Requests belong to a generation and end with it.
//
// Only sync trainers with one device ask ahead, and only where the program reads batches ahead (double buffer) and ids depend on nothing but what is read.
type ahead struct {
	ops.Comm                  // nil: ids neither sends nor receives
	ids      *program.Program // up to the prefetch ops
	read     []string         // variables of a batch
	rows     []string         // what the prefetch ops of ids give
	local    *executor.Local  // runs ids, on the goroutine of the reader, with ahead as its Comm

	mu    sync.Mutex
	noted []*askedRows // of rounds that are not declared yet, in order
	spare []*askedRows
	now   *askedRows // that note fills

	slots chan struct{}
	calls callGroup
	asked *askedRows // under way or answered. The goroutine of the steps uses it
}

// askedRows are rows that a round looks up: what is asked for, with memory for the answers.
type askedRows struct {
	round    id.Round
	messages []ops.RowsMessage
	rows     []int32
	keys     []int64
	values   []float32
}

// newAhead returns nil where nothing can be asked ahead. options are those of executors that run p, without a Comm.
func newAhead(p *program.Program, options []executor.Option) *ahead {
	a := &ahead{slots: make(chan struct{}, maxCalls)}
	for _, op := range p.Global().Ops {
		if op.Type != "prefetch" {
			continue
		}
		if part, err := p.Prune(op.Outputs["Out"]...); err == nil && onlyReads(part) {
			a.rows = append(a.rows, op.Outputs["Out"]...)
		}
	}
	read, err := executor.ReadVariables(p)
	if err != nil || len(a.rows) == 0 {
		return nil
	}
	if a.ids, err = p.Prune(a.rows...); err != nil {
		return nil
	}
	a.read, a.local = read, executor.New(append(slices.Clone(options), executor.WithComm(a))...)
	return a
}

// onlyReads reports whether a part of a program depends on nothing but what it reads.
func onlyReads(p *program.Program) bool {
	for _, op := range p.Global().Ops {
		if def, ok := ops.Lookup(op.Type); !ok || op.Type != "prefetch" && def.Class != ops.Compute && def.Class != ops.Read {
			return false
		}
	}
	return !slices.ContainsFunc(p.Global().Vars(), func(v *program.Var) bool { return v.Persistable && v.Kind == program.LoDTensor })
}

// note finds out which rows the batch of a round looks up. The reader calls it before the batch is delivered. Errors are left to the step.
func (a *ahead) note(ctx context.Context, round id.Round, batch *dataset.Batch) {
	if batch.Rows == 0 || len(batch.Tensors) != len(a.read) {
		return
	}
	feed := executor.Feed{}
	for i, name := range a.read {
		feed[name] = batch.Tensors[i]
	}
	a.now = a.room(round)
	step := ops.Step{Round: uint64(round), RowOffset: int64(batch.RowOffset), Rows: int64(batch.Rows)}
	_, _, err := a.local.RunToUpdate(ctx, a.ids, step, feed, nil, a.rows)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.spare = append(a.spare, a.now)
		return
	}
	a.noted = append(a.noted, a.now)
}

// room returns memory that nobody uses.
func (a *ahead) room(round id.Round) *askedRows {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &askedRows{}
	if n := len(a.spare); n > 0 {
		r, a.spare = a.spare[n-1], a.spare[:n-1]
	}
	r.round, r.messages, r.rows, r.keys, r.values = round, r.messages[:0], r.rows[:0], r.keys[:0], r.values[:0]
	return r
}

// FetchRows implements ops.RowFetcher for the executor of note: it notes what a prefetch op asks for, and brings nothing.
func (a *ahead) FetchRows(_ context.Context, from []ops.RowsMessage) error {
	r := a.now
	for _, m := range from {
		r.messages = append(r.messages, m)
		r.rows, r.keys = append(r.rows, m.Rows...), append(r.keys, m.Keys...)
		r.values = slices.Grow(r.values, len(m.Into))[:len(r.values)+len(m.Into)]
	}
	return nil
}

// settleMemory points the messages at the memory of r, which grows no more.
func (r *askedRows) settleMemory() {
	rows, keys, values := r.rows, r.keys, r.values
	for i := range r.messages {
		m := &r.messages[i]
		m.Rows, rows = rows[:len(m.Rows)], rows[len(m.Rows):]
		if m.Keys != nil {
			m.Keys, keys = keys[:len(m.Keys)], keys[len(m.Keys):]
		}
		m.Into, values = values[:len(m.Into)], values[len(m.Into):]
	}
}

// ask asks for the rows of a round, whose predecessor this trainer has declared. settle or take must have returned for that.
func (a *ahead) ask(ctx context.Context, c *Comm, round id.Round) {
	if a == nil {
		return
	}
	a.mu.Lock()
	for len(a.noted) > 0 && a.noted[0].round < round {
		a.spare = append(a.spare, a.noted[0])
		a.noted = slices.Delete(a.noted, 0, 1)
	}
	if len(a.noted) > 0 && a.noted[0].round == round {
		a.asked = a.noted[0]
		a.noted = slices.Delete(a.noted, 0, 1)
	}
	a.mu.Unlock()
	if a.asked == nil {
		return
	}
	a.asked.settleMemory()
	asks, err := requestsOf(a.asked.messages, len(c.Servers))
	if err != nil {
		a.forget()
		return
	}
	for _, ask := range asks {
		a.calls.start(ctx, a.slots, func(ctx context.Context) error { return fetchRows(ctx, c, round, ask) })
	}
}

// take gives messages the rows that were asked for, and returns those that were not. Nothing is under way afterwards.
func (a *ahead) take(round id.Round, from []ops.RowsMessage) (left []ops.RowsMessage) {
	if a == nil || a.asked == nil {
		return from
	}
	if err := a.calls.end(); err != nil || a.asked.round != round {
		a.forget()
		return from
	}
	all := a.asked.messages
	for next, m := range from {
		same := func(have ops.RowsMessage) bool {
			return have.Name == m.Name && have.Server == m.Server && len(have.Into) == len(m.Into) && slices.Equal(have.Rows, m.Rows) && slices.Equal(have.Keys, m.Keys)
		}
		have := next // where it is if one op asks for all
		if have >= len(all) || !same(all[have]) {
			have = slices.IndexFunc(all, same)
		}
		if have < 0 {
			left = append(left, m)
			continue
		}
		copy(m.Into, all[have].Into)
	}
	return left
}

// settle waits until nothing is under way: a server may change its tables when this trainer has declared a round.
func (a *ahead) settle() {
	if a != nil && a.asked != nil {
		_ = a.calls.end() // who wanted the rows has asked again
		a.forget()
	}
}

// forget gives up what was asked for. Nothing is under way.
func (a *ahead) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spare, a.asked = append(a.spare, a.asked), nil
}

// close ends the requests that are under way. The reader has ended.
func (a *ahead) close() error {
	if a == nil {
		return nil
	}
	a.calls.abort()
	return a.local.Close()
}
