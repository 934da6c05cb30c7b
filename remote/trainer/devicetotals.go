package trainer

import (
	"context"
	"slices"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
)

// Devices of a trainer add up the sums and means over their rows before the trainer shares them, in the order of devices. The one that comes last does it for all, and
// asks the others of the batch:
//
//	device 0    own totals ---+
//	device 1    own totals ---+---> the trainer's totals ---> server 0 ---> the totals of all trainers, for each device
//
// In async mode, and if no other trainer has rows of the batch, nobody else is asked.

// deviceTotals are the totals that the devices of a trainer share in a step.
type deviceTotals struct {
	devices *devices

	mu      sync.Mutex
	several int           // devices that have rows in the step
	failed  chan struct{} // closed when a device has failed; the others need not wait
	err     error         // why
	places  []*devicePlace
}

// A devicePlace has what devices have made of their rows at one place.
type devicePlace struct {
	own   []ops.Totals // by device; without rows: it has not come yet
	here  int          // devices that have come
	ready chan struct{}
	all   []ops.Totals // valid when ready is closed
}

// begin forgets the step before. No device runs.
func (t *deviceTotals) begin(several int) {
	t.several, t.failed, t.err, t.places = several, make(chan struct{}), nil, nil
}

// fail lets the devices go that wait for one that has failed.
func (t *deviceTotals) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
		close(t.failed)
	}
}

// share shares the totals of a device, as ops.TotalsSharer says. device counts those that have rows in the step.
func (t *deviceTotals) share(ctx context.Context, device, place int, own ops.Totals, join func([]ops.Totals) (ops.Totals, error)) ([]ops.Totals, error) {
	t.mu.Lock()
	if t.err != nil {
		defer t.mu.Unlock()
		return nil, t.err
	}
	if place > len(t.places) || device >= t.several {
		t.mu.Unlock()
		return nil, fault.E(fault.InvalidProgram, fault.Op("share_totals"), fault.Gotf("place %d of device %d", place, device), fault.Wantf("place %d of one of %d devices", len(t.places), t.several))
	}
	if place == len(t.places) {
		t.places = append(t.places, &devicePlace{own: make([]ops.Totals, t.several), ready: make(chan struct{})})
	}
	p := t.places[place]
	last := false
	if p.own[device].Rows == 0 {
		p.own[device] = ops.Totals{Rows: own.Rows, Over: slices.Clone(own.Over), Values: slices.Clone(own.Values)}
		p.here++
		last = p.here == t.several
	}
	failed := t.failed
	t.mu.Unlock()
	if last {
		all, err := t.join(ctx, place, p.own, join)
		if err != nil {
			t.fail(err)
			return nil, err
		}
		p.all = all
		close(p.ready)
	}
	select {
	case <-p.ready:
		return p.all, nil
	case <-failed:
		t.mu.Lock()
		defer t.mu.Unlock()
		return nil, t.err
	case <-ctx.Done():
		return nil, fault.E(fault.Canceled, fault.Cause(context.Cause(ctx)))
	}
}

// join returns the totals of all trainers that have rows of the batch.
func (t *deviceTotals) join(ctx context.Context, place int, own []ops.Totals, join func([]ops.Totals) (ops.Totals, error)) ([]ops.Totals, error) {
	one, err := join(own)
	if err != nil {
		return nil, err
	}
	if !t.devices.partial {
		return []ops.Totals{one}, nil
	}
	return t.devices.Comm.ShareTotals(ctx, place, one, nil)
}

// ShareTotals implements ops.TotalsSharer for the first device.
func (d *devices) ShareTotals(ctx context.Context, place int, own ops.Totals, join func([]ops.Totals) (ops.Totals, error)) ([]ops.Totals, error) {
	return d.totals.share(ctx, 0, place, own, join)
}

// otherComm is the ops.Comm of a device beyond the first.
type otherComm struct {
	*devices
	at int // among the devices that have rows in a step
}

// ShareTotals implements ops.TotalsSharer.
func (c otherComm) ShareTotals(ctx context.Context, place int, own ops.Totals, join func([]ops.Totals) (ops.Totals, error)) ([]ops.Totals, error) {
	return c.totals.share(ctx, c.at, place, own, join)
}
