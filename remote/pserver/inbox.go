package pserver

import (
	"slices"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/tensor"
)

// An inbox has the contributions to the open round that have arrived, and the buffers that contributions arrive in. The lock of core guards it. While
// a round is being applied, the stepper reads without the lock what has arrived: nothing is added then.
type inbox struct {
	targets map[string]*tensor.Tensor             // what contributions to a name merge into
	forms   map[string]*tensor.Tensor             // a variable like contributions to a name: over the memory of the target, unless they are compressed
	direct  map[string]bool                       // targets that may refer to the only contribution to a round while it is applied; else to the form
	rows    map[string]bool                       // what travels as rows of a table, contributions and parameters
	merges  map[string]ops.Merge                  // how groups merge contributions to a name; MergeNone: they cannot
	arrived map[string]map[id.Rank]*tensor.Tensor // by name and rank
	free    map[string][]*tensor.Tensor           // at most spare of each name
	spare   int                                   // members of the generation
	lent    map[*tensor.Tensor]bool               // tensors whose memory belongs to a line
	// elements is held shared by those who read elements of what has arrived, and alone by those who replace these elements by others.
	elements *sync.RWMutex
}

// newInbox looks up the variables of every contribution.
func newInbox(l *comm.Service, blocks ops.BlockRunner) (inbox, error) {
	b := inbox{rows: rowsOf(l), targets: map[string]*tensor.Tensor{}, forms: map[string]*tensor.Tensor{}, arrived: map[string]map[id.Rank]*tensor.Tensor{},
		direct: map[string]bool{}, free: map[string][]*tensor.Tensor{}, merges: mergesOf(l), lent: map[*tensor.Tensor]bool{}, elements: &sync.RWMutex{}}
	for _, c := range slices.Concat(l.Grads, l.States) {
		form, ok := blocks.Variable(c.Name)
		target, found := blocks.Variable(c.Target())
		if !ok || !found {
			return inbox{}, fault.E(fault.InvalidProgram, fault.Op("listen_and_serv"), fault.Var(c.Name),
				fault.Got("a contribution without a variable"), fault.Want("a persistable variable of block 0"))
		}
		if !merge.Fits(target, form) || b.rows[c.Name] && !compress.IsForm(form) {
			return inbox{}, fault.E(fault.InvalidProgram, fault.Op("listen_and_serv"), fault.Var(c.Name),
				fault.Gotf("contributions %s that merge into %s", form, target), fault.Want("one type, or a type of 16 bits or entries into float32"))
		}
		b.forms[c.Name], b.targets[c.Name] = form, target
		b.arrived[c.Name] = map[id.Rank]*tensor.Tensor{}
	}
	return b, b.findDirect(l, blocks)
}

// An updateReader is a program that knows the gradients that one update op reads and nothing else names: they may refer to other memory in each round. The
// program of an executor is one.
type updateReader interface{ ReadByUpdate() map[string]bool }

// findDirect finds the gradients that only an update op reads. A program that exchanges something in the middle of a round has none, because contributions
// would be held where they are while other servers are waited for.
func (b *inbox) findDirect(l *comm.Service, blocks ops.BlockRunner) (err error) {
	program, ok := blocks.(updateReader)
	if !ok || !l.Sync || len(l.Prepare) > 0 || l.Global != comm.NoBlock {
		return nil
	}
	read := program.ReadByUpdate()
	for _, c := range l.Grads {
		target := b.targets[c.Name]
		if b.forms[c.Name] != target || !read[c.Target()] {
			continue
		}
		// The form is a tensor of its own: others read it while the target changes.
		if b.forms[c.Name], err = target.Reshape(target.Dims()...); err != nil {
			return err
		}
		b.direct[c.Name] = true
	}
	return nil
}

// merged makes the target of a gradient the merge of what the contributors have sent. The only contribution is not copied where it may be read in place:
// elements is held until restore.
func (b *inbox) merged(c comm.Contribution, from []Declaration) error {
	shares := b.shares(c.Name, from)
	if b.direct[c.Name] && len(shares) == 1 && shares[0].Value != nil {
		return tensor.Share(b.targets[c.Name], shares[0].Value)
	}
	return merge.Gradients(b.targets[c.Name], shares, c.Merge)
}

// restore makes all targets refer to their own memory again.
func (b *inbox) restore() {
	for name := range b.direct {
		_ = tensor.Share(b.targets[name], b.forms[name]) // of the same type and length: it never fails
	}
}

// received returns the variables that trainers may receive as they are. A target that may refer to lent memory is none.
func (b *inbox) received(from *values) func(name string) (*tensor.Tensor, bool) {
	return func(name string) (*tensor.Tensor, bool) {
		if b.direct[name] {
			return nil, false
		}
		return from.Variable(name)
	}
}

// rowsOf is the set of what travels as rows.
func rowsOf(l *comm.Service) map[string]bool {
	rows := map[string]bool{}
	for _, name := range l.Rows {
		rows[name] = true
	}
	return rows
}

// mergesOf says how groups merge each contribution. State whose changes are added is not for groups, because they do not know its value before the
// round. Neither are rows of a table.
func mergesOf(l *comm.Service) map[string]ops.Merge {
	merges := map[string]ops.Merge{}
	for _, c := range l.Grads {
		merges[c.Name] = c.Merge
	}
	for _, name := range l.Rows {
		merges[name] = ops.MergeNone
	}
	for _, c := range l.States {
		if merges[c.Name] = c.Merge; c.Merge == ops.MergeSum {
			merges[c.Name] = ops.MergeNone
		}
	}
	return merges
}

// mergeInfos describes contributions.
func (b *inbox) mergeInfos(t dataplane.Table) []*rpc.SliceInfo {
	list := infos(t)
	for i, s := range t {
		list[i].Merge = int32(b.merges[s.Name])
	}
	return list
}

// namesOf returns every variable that a contribution may hold.
func namesOf(l *comm.Service) []string {
	var names []string
	for _, c := range slices.Concat(l.Grads, l.States) {
		names = append(names, c.Name)
	}
	return names
}

// form returns a variable like contributions to a name.
func (b *inbox) form(name string) (*tensor.Tensor, bool) {
	t, ok := b.forms[name]
	return t, ok
}

// check refuses a contribution to name whose entries are of elements that are not there. A merge checks them again, because a trainer that shares its
// memory may change them. value may be nil. It takes no lock.
func (b *inbox) check(name string, value *tensor.Tensor) error {
	form, ok := b.forms[name]
	if !ok || value == nil || form.DType() != tensor.Int32 { // a target of any other form may change meanwhile
		return nil
	}
	err := merge.Check(b.targets[name], value)
	if b.rows[name] {
		err = compress.CheckForm(value)
	}
	if err != nil {
		return fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
	}
	return nil
}

// bytes is how many bytes the contribution of one trainer has.
func (b *inbox) bytes() (n int64) {
	for _, t := range b.forms {
		n += t.Bytes()
	}
	return n
}

// take returns a buffer for one contribution to name.
func (b *inbox) take(name string) (*tensor.Tensor, error) {
	if n := len(b.free[name]); n > 0 {
		t := b.free[name][n-1]
		b.free[name] = b.free[name][:n-1]
		return t, nil
	}
	form, ok := b.forms[name]
	if !ok {
		return nil, fault.E(fault.Foreign, fault.Var(name), fault.Got("a contribution that this server does not hold"))
	}
	return tensor.New(form.DType(), form.Dims()...)
}

// give takes a buffer back. Lent memory stays with its line.
func (b *inbox) give(name string, t *tensor.Tensor) {
	if !b.lent[t] && len(b.free[name]) < b.spare {
		b.free[name] = append(b.free[name], t)
	}
}

// keepFor sets for how many members free buffers are kept.
func (b *inbox) keepFor(members int) {
	b.spare = members
	for name, free := range b.free {
		if len(free) > members {
			clear(free[members:])
			b.free[name] = free[:members]
		}
	}
}

// shares returns what the contributors sent for name, in their order.
func (b *inbox) shares(name string, from []Declaration) []merge.Share {
	out := make([]merge.Share, len(from))
	for i, d := range from {
		out[i] = merge.Share{Value: b.arrived[name][d.Rank], Rows: d.Rows, Weight: d.Weight}
	}
	return out
}

// recycle frees all that has arrived.
func (b *inbox) recycle() {
	for name, byRank := range b.arrived {
		for _, t := range byRank {
			b.give(name, t)
		}
		clear(byRank)
	}
}

// keep enters a contribution to a sync round that has arrived. It takes the lock.
func (c *core) keep(e Received, value *tensor.Tensor) (taken bool, err error) {
	c.Lock()
	defer c.Unlock()
	f, err := c.step(e)
	if err != nil || f.Ignore || f.Hold {
		return false, err
	}
	c.inbox.arrived[e.Variable][e.Rank] = value
	c.watch() // the round may have begun with it
	return true, nil
}
