package trainer

import (
	"context"
	"slices"
	"sync"

	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A rhythm says which steps of an async job push and which pull, and keeps what is not pushed yet. The zero value pushes and pulls in each step.
//
//	step            1     2     3     4     5     6     7, the last of the data
//	push every 3                push              push  push: what is left
//	pull every 2          pull        pull        pull
//
// What a push is:
//
//   - A gradient is the sum of those of all steps since the push before, added up in the order of the steps. For the servers the push is one step: one
//     update, and one run of the learning-rate block.
//   - Rows of tables are added up by row: a push has each row once that one of its steps has looked up.
//   - Forward state is not added up: a push has it as the last step has left it. It is not pulled while steps are not pushed, because a pull would undo
//     what they have done to it.
//   - The ledger gets the records of all its steps, together. So until then, none of them count: whoever gets the task of a lost trainer trains them.
//
// A pull that does not come leaves parameters as they are. The program keeps what it has received; see transpiler.Config.KeepReceived.
//
// The ops of a step may call add, note and confirms at the same time. The other methods follow each other.
type rhythm struct {
	pushEvery, pullEvery int             // steps; 0: 1
	states               map[string]bool // forward state, by name at its server
	confirming           bool            // pushes are confirmed before the pull; see pace

	pushes, pulls bool // what the last step does
	unpushed      int  // steps since the push before, with the last one
	unpulled      int  // steps since the pull before, with the last one
	rows          int64
	pass          int32
	records       []ranges.Range // of the unpushed steps

	mu    sync.Mutex
	sums  map[place]*tensor.Tensor
	rooms map[place]*[2]merge.RowsRoom // of sums of rows: the last sum is in one of them, and the next becomes the other
	order []ops.Message                // of the sums, as they were first sent
	asks  map[int]ops.Message          // by server without a connection: how to ask it whether a push is applied
	asked map[int]bool                 // servers that are asked in this step
}

// A place is a variable at a server.
type place struct {
	server int
	name   string
}

// set makes the rhythm that of a job. p is its trainer program. A fed job pushes and pulls in each step, because its user looks at the state in between.
func (r *rhythm) set(spec *job.JobSpec, p *program.Program, servers int) error {
	if spec.Fed || spec.Mode != job.Mode_ASYNC || spec.PushEvery <= 1 && spec.PullEvery <= 1 {
		return nil
	}
	traffic, err := comm.TrafficOf(p, servers)
	if err != nil {
		return err
	}
	r.pushEvery, r.pullEvery, r.states = int(spec.PushEvery), int(spec.PullEvery), map[string]bool{}
	for _, t := range traffic {
		for _, name := range t.Receive {
			if slices.Contains(t.Send, name) {
				r.states[name] = true
			}
		}
	}
	return nil
}

// restart begins a generation: what is not pushed is given up, and the parameters are new.
func (r *rhythm) restart() {
	r.unpushed, r.unpulled, r.pushes, r.pulls, r.records = 0, 0, false, false, nil
	r.sums, r.order, r.asks, r.asked = map[place]*tensor.Tensor{}, nil, map[int]ops.Message{}, map[int]bool{}
	r.rooms = map[place]*[2]merge.RowsRoom{}
}

// begin begins a step. The one before has ended well.
func (r *rhythm) begin(rows int64, pass int32, records []ranges.Range) {
	if r.pushes {
		r.unpushed = 0
	}
	if r.pulls {
		r.unpulled = 0
	}
	if r.unpushed == 0 {
		r.rows, r.records = 0, r.records[:0]
	}
	r.unpushed++
	r.unpulled++
	r.pushes, r.pulls = r.unpushed >= r.pushEvery, r.unpulled >= r.pullEvery
	r.rows, r.pass, r.records = r.rows+rows, pass, append(r.records, records...)
	clear(r.asked)
}

// open reports whether steps have ended that are not pushed.
func (r *rhythm) open() bool { return r.unpushed > 0 && !r.pushes }

// add takes what a step sends. It returns what is to be sent in its place, if that is now.
func (r *rhythm) add(m ops.Message) (sum ops.Message, now bool, err error) {
	if r.pushEvery <= 1 {
		return m, true, nil
	}
	if m.Rows {
		sum, err = r.addRows(m)
		return sum, r.pushes, err
	}
	if sum, err = r.sumOf(m); err != nil {
		return m, false, err
	}
	if r.unpushed == 1 || r.states[m.Name] {
		err = sum.Value.CopyFrom(m.Value)
	} else {
		err = merge.Accumulate(sum.Value, m.Value)
	}
	return sum, r.pushes, err
}

// sumOf returns a message with the sum in place of the value of a step.
func (r *rhythm) sumOf(m ops.Message) (sum ops.Message, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := place{m.Server, m.Name}
	known := r.sums[to]
	if known == nil {
		if known, err = tensor.New(m.Value.DType(), m.Value.Dims()...); err != nil {
			return m, err
		}
		r.sums[to] = known
		r.order = append(r.order, ops.Message{Name: m.Name, Server: m.Server, Merge: m.Merge, Value: known})
	}
	m.Value = known
	return m, nil
}

// addRows is add for rows of a table. The sum has other rows in each step, so it is another tensor in each.
func (r *rhythm) addRows(m ops.Message) (sum ops.Message, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := place{m.Server, m.Name}
	rooms := r.rooms[to]
	if rooms == nil {
		rooms = &[2]merge.RowsRoom{}
		r.rooms[to] = rooms
		r.order = append(r.order, m)
	}
	shares := []merge.Share{{Value: m.Value, Rows: 1}}
	if r.unpushed > 1 {
		shares = append([]merge.Share{{Value: r.sums[to], Rows: 1}}, shares...)
	}
	if m.Value, err = rooms[r.unpushed%2].Merge(shares, ops.MergeSum); err == nil {
		r.sums[to] = m.Value
	}
	return m, err
}

// receives reports whether the step receives a variable.
func (r *rhythm) receives(name string) bool { return r.pulls && (r.pushes || !r.states[name]) }

// note notes a variable that can be received by a call. One of each server is enough to ask whether a push is applied there.
func (r *rhythm) note(m ops.Message) (err error) {
	if r.pullEvery <= 1 && r.pushEvery <= 1 && !r.confirming {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.asks[m.Server]; ok {
		return nil
	}
	if m.Value, err = tensor.New(m.Value.DType(), m.Value.Dims()...); err == nil { // which nobody reads
		r.asks[m.Server] = m
	}
	return err
}

// confirms returns, once in a step that pushes and does not pull, what to receive from a server, only because the answer says that the push is applied.
func (r *rhythm) confirms(server int) (m ops.Message, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.pushes || r.pulls || r.asked[server] {
		return m, false
	}
	r.asked[server] = true
	m, ok = r.asks[server]
	return m, ok
}

// declaration is what the ledger gets of a push.
func (r *rhythm) declaration(variables int32) *rpc.BarrierRequest {
	list := r.records
	if whole := ranges.Of(list...); whole.Count() == ranges.Count(list) { // none of them twice
		list = whole
	}
	return &rpc.BarrierRequest{Rows: r.rows, Variables: variables, Pass: r.pass, Records: wire.Ranges(list), Steps: uint32(r.unpushed)}
}

// settle pushes what the last steps have not pushed, and returns when every push is in the ledger. No step is under way.
func (r *rhythm) settle(ctx context.Context, c *Comm) error {
	if r.open() {
		if err := r.push(ctx, c); err != nil {
			return err
		}
		r.unpushed = 0
	}
	return c.ledger.await()
}

// push pushes outside of a step, under the number of the last one, which has pushed nothing.
func (r *rhythm) push(ctx context.Context, c *Comm) error {
	if err := c.ledger.await(); err != nil {
		return err
	}
	for _, l := range c.links {
		if l != nil {
			l.begin()
		}
	}
	for _, m := range r.order {
		m.Value = r.sums[place{m.Server, m.Name}]
		if err := c.post(ctx, m); err != nil {
			return err
		}
	}
	if err := c.sends.end(); err != nil {
		return err
	}
	for _, m := range r.asks {
		startReceiving(ctx, c, m, c.round()+1, false, false)
	}
	if err := moreTelling(c.recvs.end(), c.links.update(ctx, false)); err != nil {
		return err
	}
	c.ledger.declare(ctx, c)
	return nil
}
