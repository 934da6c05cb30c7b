package trainer

import (
	"context"
	"slices"
	"sync"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// devices are the devices of a trainer in one generation. They share its rows of each batch: of N trainers with d devices, device k of trainer t has the rows
// that trainer t*d+k of N*d would have. The first device runs the whole program, the others only its first half; see transpiler.Config.Devices.
//
//	first device          begin: starts the others ---> first half ---> MergeDevices: waits for the others ---> clip, compress, send, receive
//	other devices                                  ---> first half of their parts --^
//
// All devices have the same parameters, in the same memory: nobody writes it before all have ended their first halves. Each has temporaries of its own, and
// its own copy of the state that the first half writes, such as moving statistics; each step begins with the state of the first device.
//
// It is the ops.Comm of the first device, and in otherComm of the others, which only fetch rows of tables and share totals by it.
type devices struct {
	*Comm
	program *program.Program
	first   *executor.Local
	others  []*device
	index   int64           // of the first device of the trainer among all of the generation
	of      int64           // devices of the generation
	loss    ops.Merge       // how gradients merge
	fetches *ops.Fetches    // how what devices fetch becomes one value
	keep    []string        // what each device computes that is merged: gradients, and sparse gradients as they travel
	places  map[string]int  // in keep, by name
	states  []string        // persistable variables that the first half writes
	later   map[string]bool // variables that the rest of the program writes

	stop    context.CancelFunc // of the devices of a step
	running sync.WaitGroup
	active  []*device // that have rows in the step, beyond the first
	rows    int64     // of the first device
	weight  int64     // likewise
	partial bool      // the trainer has a part of the batch of the step
	old     map[string]*tensor.Tensor
	totals  deviceTotals

	mu    sync.Mutex
	rooms map[string]*merge.RowsRoom // by sparse gradient
}

// A device is one beyond the first.
type device struct {
	local *executor.Local
	scope *executor.Scope

	rows    int64 // of the step
	weight  int64
	void    bool
	done    chan struct{} // closed when the first half has run; what follows is valid then
	fetched []*tensor.Tensor
	kept    []*tensor.Tensor
	err     error
}

// newDevices returns count devices of the trainer of c, nil if it has one or the program does not train. options make an executor of one device.
// kernels records those of the first; it may be nil. position is that of the trainer among all that share a batch.
func newDevices(c *Comm, p *program.Program, count, position, trainers int, options []executor.Option, kernels *executor.Profile) *devices {
	b := p.Global()
	at := slices.IndexFunc(b.Ops, func(op *program.Op) bool { return op.Type == "merge_devices" })
	if count < 2 || at < 0 {
		return nil
	}
	d := &devices{Comm: c, program: p, index: int64(position) * int64(count), of: int64(trainers) * int64(count), keep: slices.Clone(b.Ops[at].Inputs["X"]),
		places: map[string]int{}, later: map[string]bool{}, old: map[string]*tensor.Tensor{}, rooms: map[string]*merge.RowsRoom{}}
	loss, _ := b.Ops[at].Int("merge")
	d.loss = ops.Merge(loss)
	d.fetches = ops.NewFetches(p, d.loss)
	for _, op := range b.Ops[:at] {
		_, writes := b.Touches(op)
		for name := range writes {
			if v, ok := b.Find(name); ok && v.Persistable && !slices.Contains(d.states, name) {
				d.states = append(d.states, name)
			}
		}
	}
	for _, op := range b.Ops[at:] {
		for _, name := range op.OutputNames() {
			d.later[name] = true
		}
		if rows, _ := op.Bool("rows"); op.Type == "send" && rows {
			d.keep = append(d.keep, op.Inputs["X"]...)
		}
	}
	for i, name := range d.keep {
		d.places[name] = i
	}
	d.first = executor.New(append(slices.Clone(options), executor.WithComm(d), executor.WithProfile(kernels))...)
	d.totals.devices = d
	for i := range count - 1 {
		scope := d.first.Scope().NewChild()
		d.others = append(d.others, &device{scope: scope, local: executor.New(append(slices.Clone(options), executor.WithComm(otherComm{d, i + 1}), executor.WithScope(scope))...)})
	}
	return d
}

// begin divides the batch of a step, starts the other devices, and returns the part of the first. fetch names what the step reports. A batch without rows is not divided. Devices that have no
// rows stand aside: the first device always has some.
func (d *devices) begin(ctx context.Context, batch *executor.Batch, fetch []string) (*executor.Batch, error) {
	if d == nil {
		return batch, nil
	}
	d.end()
	if batch.Step.Rows == 0 {
		return batch, nil
	}
	d.partial = batch.Step.Part
	several := 0
	for k := range int64(len(d.others) + 1) {
		if from, to := d.bounds(batch, k); from < to {
			several++
		}
	}
	d.totals.begin(several)
	var first *executor.Batch
	last := batch.Step.RowOffset
	for k := range int64(len(d.others) + 1) {
		from, to := d.bounds(batch, k)
		if from != last || to > batch.Step.RowOffset+batch.Step.Rows {
			return nil, fault.E(fault.Internal, fault.Gotf("rows %d to %d of %d for device %d of %d", batch.Step.RowOffset, batch.Step.RowOffset+batch.Step.Rows,
				batch.GlobalRows, d.index+k, d.of), fault.Wantf("rows from %d on", from))
		}
		if last = to; from == to {
			continue
		}
		part, err := d.part(batch, from-batch.Step.RowOffset, to-batch.Step.RowOffset)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first, d.rows = part, to-from
			if err := d.keepStates(); err != nil {
				return nil, err
			}
			ctx, d.stop = context.WithCancel(ctx)
			continue
		}
		if err := d.start(ctx, part, fetch); err != nil {
			return nil, err
		}
	}
	return first, nil
}

// bounds returns the rows [from, to) of the batch of all that device k of the trainer has.
func (d *devices) bounds(batch *executor.Batch, k int64) (from, to int64) {
	return batch.GlobalRows * (d.index + k) / d.of, batch.GlobalRows * (d.index + k + 1) / d.of
}

// part returns rows [from, to) of a trainer's batch, with the place that they have in the batch of all.
func (d *devices) part(batch *executor.Batch, from, to int64) (*executor.Batch, error) {
	part := *batch
	part.Step.RowOffset, part.Step.Rows = batch.Step.RowOffset+from, to-from
	part.Step.Part = part.Step.Part || part.Step.Rows < batch.Step.Rows
	part.Tensors, part.Feed = nil, nil
	for _, t := range batch.Tensors {
		rows, err := tensor.PartOf(t, from, to)
		if err != nil {
			return nil, err
		}
		part.Tensors = append(part.Tensors, rows)
	}
	if batch.Feed == nil {
		return &part, nil
	}
	part.Feed = executor.Feed{}
	for name, t := range batch.Feed {
		part.Feed[name] = t
		if v, ok := d.program.Global().Find(name); ok && len(v.Dims) > 0 && v.Dims[0] == program.Unknown {
			rows, err := tensor.PartOf(t, from, to)
			if err != nil {
				return nil, err
			}
			part.Feed[name] = rows
		}
	}
	return &part, nil
}

// keepStates copies the state before the step, which a sum of changes and the other devices begin with.
func (d *devices) keepStates() error {
	for _, name := range d.states {
		now, ok := d.first.Scope().Find(name)
		if !ok {
			continue
		}
		if old := d.old[name]; old == nil {
			d.old[name] = now.Clone()
		} else if err := old.CopyFrom(now); err != nil {
			return err
		}
	}
	return nil
}

// start starts another device on a part of the batch.
func (d *devices) start(ctx context.Context, part *executor.Batch, fetch []string) error {
	v := d.others[len(d.active)]
	for name, old := range d.old {
		if !slices.Contains(v.scope.Names(), name) {
			old = old.Clone() // becomes the memory of the device
		}
		if err := v.scope.Set(name, old); err != nil {
			return err
		}
	}
	feed := part.Feed
	if feed == nil {
		variables, err := executor.ReadVariables(d.program)
		if err != nil {
			return err
		}
		if len(variables) != len(part.Tensors) {
			return fault.E(fault.Internal, fault.Gotf("a batch of %d tensors", len(part.Tensors)), fault.Wantf("%d", len(variables)))
		}
		feed = executor.Feed{}
		for i, name := range variables {
			feed[name] = part.Tensors[i]
		}
	}
	fetch = slices.DeleteFunc(slices.Clone(fetch), func(name string) bool { return !d.divides(name) })
	d.active = append(d.active, v)
	v.rows, v.done = part.Step.Rows, make(chan struct{})
	done := v.done
	d.running.Go(func() {
		defer close(done)
		v.fetched, v.kept, v.err = v.local.RunToUpdate(ctx, d.program, part.Step, feed, fetch, d.keep)
		v.weight, v.void = v.local.Step().Weight, v.local.Step().Void
		if v.err != nil {
			d.totals.fail(v.err)
		}
	})
	return nil
}

// divides reports whether each device has a value of its own of a variable that is fetched.
func (d *devices) divides(name string) bool {
	v, ok := d.program.Global().Find(name)
	return ok && !v.Persistable && !d.later[name]
}

// MergeDevices implements ops.DeviceMerger. The step of the first device has the weight of all devices afterwards.
func (d *devices) MergeDevices(ctx context.Context, step *ops.Step, all []ops.DeviceMessage) error {
	now := d.first.Step()
	d.weight = now.Weight
	void := now.Void
	for _, v := range d.active {
		select {
		case <-v.done:
		case <-ctx.Done():
			return fault.E(fault.Canceled, fault.Cause(context.Cause(ctx)))
		}
		if v.err != nil {
			return v.err
		}
		now.Weight += v.weight
		void = void && v.void
	}
	if void && !d.partial {
		return ops.NoMean(now.Round)
	}
	now.Void = void && d.partial
	step.Weight, step.Void = now.Weight, now.Void
	for _, m := range all {
		if err := d.merge(m); err != nil {
			return fault.E(fault.KindOf(err), fault.Var(m.Name), fault.Cause(err))
		}
	}
	return nil
}

func (d *devices) merge(m ops.DeviceMessage) error {
	if len(d.active) == 0 {
		return m.Into.CopyFrom(m.Value)
	}
	shares, err := d.shares(m.Value, func(v *device) *tensor.Tensor {
		if m.State {
			state, _ := v.scope.Find(m.Name)
			return state
		}
		return v.kept[d.places[m.Name]]
	})
	if err != nil {
		return err
	}
	if m.State {
		return merge.State(m.Into, d.old[m.Name], shares, m.Merge)
	}
	return merge.Gradients(m.Into, shares, m.Merge)
}

// shares are what the devices with rows have computed of a variable, in their order.
func (d *devices) shares(first *tensor.Tensor, other func(*device) *tensor.Tensor) ([]merge.Share, error) {
	shares := []merge.Share{{Value: first, Rows: d.rows, Weight: d.weight}}
	for _, v := range d.active {
		value := other(v)
		if value == nil {
			return nil, fault.New(fault.Internal, "a device without the variable")
		}
		shares = append(shares, merge.Share{Value: value, Rows: v.rows, Weight: v.weight})
	}
	return shares, nil
}

// Send is that of Comm, of what is merged. MergeDevices has returned: ops that reach out keep their order. Rows of tables are merged here, because only now
// it is known how many there are.
func (d *devices) Send(ctx context.Context, m ops.Message) error {
	if m.Rows && len(d.active) > 0 {
		merged, err := d.mergeRows(m)
		if err != nil {
			return fault.E(fault.KindOf(err), fault.Var(m.Name), fault.Cause(err))
		}
		m.Value = merged
	}
	return d.Comm.Send(ctx, m)
}

func (d *devices) mergeRows(m ops.Message) (*tensor.Tensor, error) {
	at, ok := d.places[m.Name]
	if !ok {
		return nil, fault.New(fault.Internal, "rows that no device has")
	}
	shares, err := d.shares(m.Value, func(v *device) *tensor.Tensor { return v.kept[at] })
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	room := d.rooms[m.Name]
	if room == nil {
		room = &merge.RowsRoom{}
		d.rooms[m.Name] = room
	}
	d.mu.Unlock()
	return room.Merge(shares, m.Merge)
}

// fetched merges what all devices have fetched in a step into values, those of the first device.
func (d *devices) fetched(names []string, values []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if d == nil || len(d.active) == 0 || len(values) != len(names) {
		return values, nil
	}
	merged, at := slices.Clone(values), 0
	for i, name := range names {
		if !d.divides(name) {
			continue
		}
		declared, _ := d.program.Global().Find(name)
		parts := []executor.Part{{Value: values[i], Rows: d.rows, Weight: d.weight}}
		rows := d.rows
		for _, v := range d.active {
			parts = append(parts, executor.Part{Value: v.fetched[at], Rows: v.rows, Weight: v.weight})
			rows += v.rows
		}
		at++
		var err error
		if merged[i], err = executor.MergeFetch(declared, d.fetches.Of(name), d.fetches.Along(name), rows, parts); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

// end ends what a step has left behind that has failed.
func (d *devices) end() {
	if d.stop != nil {
		d.stop()
		d.stop = nil
	}
	d.running.Wait()
	d.active, d.rows, d.weight = d.active[:0], 0, 0
}

// close ends the devices beyond the first.
func (d *devices) close() (err error) {
	if d == nil {
		return nil
	}
	d.end()
	for _, v := range d.others {
		if closed := v.local.Close(); err == nil {
			err = closed
		}
	}
	return err
}
