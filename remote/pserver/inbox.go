package pserver

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/tensor"
)

// inbox keeps the contributions that have arrived, and the buffers that they arrive in. Server.mu guards it.
type inbox struct {
	targets map[string]*tensor.Tensor         // the merged variable, by name
	arrived map[string]map[int]*tensor.Tensor // by name and rank
	free    map[string][]*tensor.Tensor       // at most spare of each name
	spare   int                               // members of the generation
}

// newInbox looks up the variables of every contribution.
func newInbox(l *comm.Service, blocks ops.BlockRunner) (inbox, error) {
	b := inbox{targets: map[string]*tensor.Tensor{}, arrived: map[string]map[int]*tensor.Tensor{}, free: map[string][]*tensor.Tensor{}}
	for _, name := range namesOf(l) {
		t, ok := blocks.Variable(name)
		if !ok {
			return inbox{}, fault.E(fault.InvalidProgram, fault.Op("listen_and_serv"), fault.Var(name),
				fault.Got("a contribution without a variable"), fault.Want("a persistable variable of block 0"))
		}
		b.targets[name] = t
		b.arrived[name] = map[int]*tensor.Tensor{}
	}
	return b, nil
}

// take returns a buffer for one contribution to name.
func (b *inbox) take(name string) (*tensor.Tensor, error) {
	if n := len(b.free[name]); n > 0 {
		t := b.free[name][n-1]
		b.free[name] = b.free[name][:n-1]
		return t, nil
	}
	target, ok := b.targets[name]
	if !ok {
		return nil, fault.E(fault.Foreign, fault.Var(name), fault.Got("a contribution that this server does not hold"))
	}
	return tensor.New(target.DType(), target.Dims()...)
}

// give takes a buffer back.
func (b *inbox) give(name string, t *tensor.Tensor) {
	if len(b.free[name]) < b.spare {
		b.free[name] = append(b.free[name], t)
	}
}

// keep sets for how many members buffers are kept.
func (b *inbox) keep(members int) {
	b.spare = members
	for name, free := range b.free {
		if len(free) > members {
			clear(free[members:])
			b.free[name] = free[:members]
		}
	}
}

// shares returns what the contributors sent for name, in their order.
func (b *inbox) shares(name string, from []Contributor) []merge.Share {
	out := make([]merge.Share, len(from))
	for i, c := range from {
		out[i] = merge.Share{Value: b.arrived[name][c.Rank], Rows: c.Rows}
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

// namesOf returns every variable that a contribution may hold.
func namesOf(l *comm.Service) []string {
	var names []string
	for _, c := range slices.Concat(l.Grads, l.States) {
		names = append(names, c.Name)
	}
	return names
}
