package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/edl-go/edl/fault"
)

// This file keeps a membership while its lease ends although its process lives. An etcd that was paused for longer than a lease ends all leases when it
// is back; one that was away gives them their whole duration again; and a member may be cut off from an etcd that is there for all others.
//
//	holds its key --the lease has ended--> without its key --its record says joined--> holds its key again, as the same incarnation
//	                                             |
//	                                             +--its record says lost, or another has joined--> lost: Done is closed
//
// The loss record of the member decides. Whoever wants its place changes the record in the transaction that declares it lost (RevokeLease, WatchLost) or
// takes the key (acquire). The member takes its key anew in a transaction on the condition that the record has not changed. So one of them wins, and
// between two keys of one incarnation nobody else had the place.

// place is how a member stands in the store.
type place int

const (
	placeHeld       place = iota
	placeWithoutKey       // its lease has ended, and nobody has its place
	placeLost             // it was declared lost, another one has followed, or the attempt of the job was forgotten
)

// place returns how the member stands, where v has its key and its loss record, and held is what it holds by its own account.
func (m *membership) place(v view, held int64) place {
	switch {
	case !m.knows(v):
		return placeWithoutKey
	case !m.owns(v[m.record]):
		return placeLost
	case v[m.keys[0]].created != held:
		return placeWithoutKey
	}
	return placeHeld
}

// owns reports whether a loss record says that this member has its place.
func (m *membership) owns(record entry) bool {
	return parseLossRecord(record.value).joined() && incarnationOf(record) == m.created
}

// holds returns the create revision of the keys that the member took last, and the era in which it took them.
func (m *membership) holds() (held, era int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held, m.era
}

func (m *membership) hasLeft() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left
}

// keep takes the keys anew whenever their lease has ended, until the member has left or is lost.
func (m *membership) keep() {
	ctx := m.registry.ctx
	for {
		m.mu.Lock()
		l := m.lease
		m.mu.Unlock()
		select {
		case <-m.gone:
			return
		case <-l.lost():
		case <-ctx.Done():
		}
		if !m.takeAnew(ctx) {
			if !m.hasLeft() {
				close(m.done)
			}
			return
		}
		if m.state != nil {
			m.registry.running.Go(func() { m.state.restore(ctx) })
		}
	}
}

// takeAnew tries until the member holds its keys again, which it reports, or has lost its place, or ctx ends.
func (m *membership) takeAnew(ctx context.Context) bool {
	var waits time.Time // for the listener, since
	for ctx.Err() == nil {
		held, err := m.tryAnew(ctx)
		if err == nil {
			return held
		}
		switch {
		case !errors.Is(err, errDataLost):
			waits = time.Time{}
		case waits.IsZero():
			waits = time.Now()
		case time.Since(waits) > m.registry.patience:
			return false
		}
		timer := time.NewTimer(renewPause)
		select {
		case <-timer.C:
		case <-m.gone:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return false
}

var errChanged = fault.E(fault.Unavailable, fault.At("cluster"), fault.Got("keys that have changed meanwhile"))

func (m *membership) tryAnew(ctx context.Context) (held bool, err error) {
	read := []string{m.keys[0]}
	for _, key := range []string{m.record, m.eraKey} {
		if key != "" {
			read = append(read, key)
		}
	}
	v, err := m.registry.store.get(ctx, read...)
	if err != nil {
		return false, err
	}
	if may, err := m.mayReturn(v); err != nil || !may {
		return false, err
	}
	// The key exists if an earlier try was made and its answer was lost, or somebody else has it who was lost in an earlier era.
	_, held, err = m.take(ctx, v, lossRecord{how: recordJoined, losses: m.losses, as: m.created})
	if other := v[m.keys[0]].lease; held && other != 0 {
		_ = m.registry.store.revoke(ctx, other) // else it ends because nobody renews it, or holds no key
	}
	switch {
	case errors.Is(err, errClosed):
		return false, nil
	case err == nil && !held:
		return false, errChanged
	}
	return held, err
}
