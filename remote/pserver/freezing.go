package pserver

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edl-go/edl/internal/pages"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A freezer freezes the slices of a server at a cut, and has them kept before they change. All that changes slices passes it:
//
//	a block of the program runs         values.RunBlock: the slices that the block names, or of a slice that it changes by rows, these rows
//	an op changes a table that grows    changingRows: the rows that it tells, one by one
//	state of the forward pass merges    changing
//	another state takes their place     replaced: what is not kept of the cut is lost
//
// While no cut is being written, that costs a load of a pointer.
type freezer struct {
	values  *values
	slices  []comm.Slice
	by      map[string]string             // by slice: the variable with the rows that a round changes, and no others
	rowsIn  func(variable string) []int32 // of a merge that is there; nil: it does not say
	told    map[string]bool               // the slices whose rows are told before they change
	tells   map[string][]int              // by the names with which they are told
	named   map[program.BlockIndex][]int  // the other slices that blocks name; nil: any block may change any slice
	hasRoom func(slice comm.Slice) bool   // a slice most of which may never have been in use
	portion int                           // bytes of the portions of slices
	cut     atomic.Pointer[frozenCut]     // that is being written; nil: none
	ready   *readyAreas                   // for the next cut; nil: none. It belongs to the goroutine that applies rounds
}

// readyAreas have memory for what the next rounds will change, before the cut: to get it from the system takes longer than to copy.
type readyAreas struct {
	areas     []*pages.Area // by slice; nil: none
	populated chan struct{} // closed when they have it
}

// A frozenCut is the slices of one cut.
type frozenCut struct {
	all     []*frozen        // by slice
	tensors []*tensor.Tensor // the slices, whose types and dims count
	ready   *readyAreas      // that are in use; nil: there were none

	mu      sync.Mutex
	waiting int // updates that wait for what is being kept
	since   time.Time
	waited  time.Duration // that there were any
	longest time.Duration // of these times
}

// newFreezer looks up what the blocks of a program name.
func newFreezer(service *comm.Service, v *values, sums *blockSums) (*freezer, error) {
	f := &freezer{values: v, slices: service.Slices, by: sums.by, rowsIn: sums.rowsIn, hasRoom: service.HasRoom, portion: portionBytes}
	knows, ok := v.BlockRunner.(blockNames)
	if !ok {
		return f, nil
	}
	f.named, f.told, f.tells = map[program.BlockIndex][]int{}, map[string]bool{}, map[string][]int{}
	if tells, ok := v.BlockRunner.(rowTeller); ok {
		told := tells.ToldRows()
		for i, slice := range service.Slices {
			for _, name := range told[slice.Name] {
				f.told[slice.Name], f.tells[name] = true, append(f.tells[name], i)
			}
		}
		tells.WatchRows(f.changingRows)
	}
	for _, block := range slices.Concat(service.Prepare, service.Optimize, []program.BlockIndex{service.Global, service.LRDecay}) {
		if block == comm.NoBlock {
			continue
		}
		names, err := knows.Names(block)
		if err != nil {
			return nil, err
		}
		for i, slice := range service.Slices {
			if names[slice.Name] && !f.told[slice.Name] {
				f.named[block] = append(f.named[block], i)
			}
		}
	}
	return f, nil
}

// A rowTeller runs blocks that tell, of some variables, each row before it changes.
type rowTeller interface {
	ToldRows() map[string][]string
	WatchRows(watch func(variable string) (changing func(row int)))
}

// byRows reports whether it is known which rows of a slice change, before they do.
func (f *freezer) byRows(slice string) bool {
	return f.told[slice] || f.by[slice] != ""
}

// changesAll lists the slices that blocks may change from end to end, all of which is in use.
func (f *freezer) changesAll() []int {
	changes := make([]bool, len(f.slices))
	for _, named := range f.named {
		for _, i := range named {
			changes[i] = true
		}
	}
	var list []int
	for i, slice := range f.slices {
		if (changes[i] || f.named == nil) && !f.byRows(slice.Name) && !f.hasRoom(slice) {
			list = append(list, i)
		}
	}
	return list
}

// prepare makes memory ready for a cut that comes after the next round, on a goroutine of group. Without a cut, it gives it back.
func (f *freezer) prepare(group *sync.WaitGroup, comes bool) {
	switch {
	case !comes && f.ready != nil:
		unused := f.ready
		f.ready = nil
		group.Go(unused.close)
	case comes && f.ready == nil && f.cut.Load() == nil: // else there would be three copies
		f.ready = &readyAreas{make([]*pages.Area, len(f.slices)), make(chan struct{})}
		for _, i := range f.changesAll() {
			if t, ok := f.values.Variable(f.slices[i].Name); ok && t.Bytes() >= int64(f.portion) {
				f.ready.areas[i], _ = pages.New(int(t.Bytes()), true) // else when it is needed
			}
		}
		group.Go(f.ready.populate)
	}
}

func (r *readyAreas) populate() {
	defer close(r.populated)
	for _, area := range slices.Backward(r.areas) { // the last is kept first
		if area != nil {
			area.Populate()
		}
	}
}

// close gives what is not in use back. It may be called for nil.
func (r *readyAreas) close() {
	if r == nil {
		return
	}
	<-r.populated
	for _, area := range r.areas {
		if area != nil {
			area.Close()
		}
	}
}

// freeze freezes all slices, between two updates.
func (f *freezer) freeze() (*frozenCut, error) {
	f.values.Lock()
	defer f.values.Unlock()
	cut := &frozenCut{all: make([]*frozen, len(f.slices)), tensors: make([]*tensor.Tensor, len(f.slices)), ready: f.ready}
	f.ready = nil
	for i, slice := range f.slices {
		t, ok := f.values.Variable(slice.Name)
		if !ok {
			cut.ready.close()
			return nil, noTensor(slice.Name)
		}
		memory, err := wire.Memory(t)
		if err != nil {
			cut.ready.close()
			return nil, err
		}
		rows := int64(1)
		if dims := t.Dims(); len(dims) > 0 {
			rows = dims[0]
		}
		cut.tensors[i], cut.all[i] = t, freezeSlice(memory, rows, f.byRows(slice.Name), f.portion)
		cut.all[i].large = !f.hasRoom(slice)
		if cut.ready != nil {
			cut.all[i].area = cut.ready.areas[i]
		}
	}
	f.cut.Store(cut)
	return cut, nil
}

// thaw ends the use of a cut. An update finds no cut only when nobody reads the slices for it any more.
func (f *freezer) thaw(cut *frozenCut) {
	if cut.ready != nil {
		<-cut.ready.populated
	}
	for _, one := range cut.all {
		one.close()
	}
	f.cut.CompareAndSwap(cut, nil)
}

// beforeBlock has kept what a block may change.
func (f *freezer) beforeBlock(block program.BlockIndex) {
	cut := f.cut.Load()
	if cut == nil {
		return
	}
	if f.named == nil {
		for i := range cut.all {
			f.keep(cut, i)
		}
	}
	for _, i := range f.named[block] {
		f.keep(cut, i)
	}
}

// changing has kept a variable, if it is a slice, which something else than a block is about to change.
func (f *freezer) changing(variable string) {
	if f == nil || f.cut.Load() == nil {
		return
	}
	cut := f.cut.Load()
	if i := slices.IndexFunc(f.slices, func(s comm.Slice) bool { return s.Name == variable }); cut != nil && i >= 0 {
		defer cut.wait()()
		cut.all[i].keepAll()
	}
}

// keep has kept what a block may change of a slice that it names.
func (f *freezer) keep(cut *frozenCut, i int) {
	one := cut.all[i]
	if one.done.Load() {
		return
	}
	defer cut.wait()()
	if by := f.by[f.slices[i].Name]; by != "" {
		if rows := f.rowsIn(by); rows != nil && one.keepRows(rows) {
			return
		}
	}
	one.keepAll()
}

// changingRows returns what has kept the row of each slice whose rows are told by a name; nil where there is nothing to keep.
func (f *freezer) changingRows(name string) (changing func(row int)) {
	cut := f.cut.Load()
	if cut == nil || !slices.ContainsFunc(f.tells[name], func(i int) bool { return !cut.all[i].done.Load() }) {
		return nil
	}
	return func(row int) {
		for _, i := range f.tells[name] {
			cut.keepRow(cut.all[i], row)
		}
	}
}

// keepRow keeps a row of a slice. It notes that an update waits only where somebody else keeps or reads the slice at this moment: there are many rows.
func (c *frozenCut) keepRow(one *frozen, row int) {
	if !one.mu.TryLock() {
		end := c.wait()
		one.lockForUpdate()
		end()
	}
	defer one.mu.Unlock()
	one.keepRow(row)
}

// replaced says that the slices are about to have other values.
func (f *freezer) replaced() {
	if cut := f.cut.Load(); cut != nil {
		for _, one := range cut.all {
			one.replace()
		}
	}
}

// ahead keeps what the next updates will change from end to end, so that they need not wait: the last first, since a cut is written from the front.
func (f *freezer) ahead(ctx context.Context, cut *frozenCut) {
	for _, i := range slices.Backward(f.changesAll()) {
		one := cut.all[i]
		for ctx.Err() == nil && !one.done.Load() && one.keepOne() {
		}
	}
}

// wait notes that an update waits, until the function is called that it returns.
func (c *frozenCut) wait() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting++; c.waiting == 1 {
		c.since = time.Now()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.waiting--; c.waiting == 0 {
			took := time.Since(c.since)
			c.waited, c.longest = c.waited+took, max(c.longest, took)
		}
	}
}

// held is how long updates have waited, together and at most at a time.
func (c *frozenCut) held() (together, longest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited, c.longest
}

// RunBlock runs a block of the program. What it may change of a cut that is being written is kept before.
func (v *values) RunBlock(ctx context.Context, block program.BlockIndex, step ops.Step) error {
	if v.freezer != nil {
		v.freezer.beforeBlock(block)
	}
	return v.BlockRunner.RunBlock(ctx, block, step)
}
