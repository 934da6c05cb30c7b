package cluster

import (
	"context"
	"strconv"
	"time"

	"github.com/edl-go/edl/fault"
)

// This file is for an etcd that has lost all its data while a job ran: a server was replaced, or its folder was removed. Those who live know what was there.
// They write it again, and nobody is lost:
//
//	listener      its key, the numbers of members, and the next era, in one transaction. It says that the state is lost
//	members       wait for that. Then each takes its key anew, as the same incarnation
//	coordinator   when it holds the lock again, all entries of its State, as it has committed them
//
// An era begins with an empty store. The first is that in which the job began. Revisions begin anew with it, so incarnations and fences of the era e are
// counted from (e-1) * eraSpan: later holders of a key still have greater ones.
//
// Who has joined in an earlier era has its place unless the record of another one says otherwise. If a process that was declared lost in the last era is faster
// than the one that has its place, the greater incarnation takes it back. If no coordinator lives that knows the state, the next one is told that it is lost:
// State fails with fault.LostState.

// eraSpan is more revisions than an etcd has in its life.
const eraSpan = 1 << 40

// maxOver bounds what incarnations count from.
const maxOver = 1 << 62

// stateLost is the value of commitKey while the state of the job is not in the store, because etcd has lost its data, or is there only in part.
const stateLost = "lost with the data of etcd"

// rebuildPatience is how long a member waits for the listener of its job when etcd has lost its data, where Config says nothing else.
const rebuildPatience = 2 * time.Minute

var errDataLost = fault.E(fault.Unavailable, fault.At("etcd"), fault.Got("a store that has lost its data"),
	fault.Want("the listener of the job to write its keys again"))

// eraOf reads the entry of eraKey. It is 0 where no listener has claimed the job.
func eraOf(e entry) int64 {
	n, err := strconv.ParseInt(e.value, 10, 64)
	if err != nil || n < 0 || n > maxOver/eraSpan {
		return 0
	}
	return n
}

// overOf is what the incarnations of an era count from.
func overOf(era int64) int64 { return max(0, era-1) * eraSpan }

// knows reports whether the store is the one in which the member took its keys last.
func (m *membership) knows(v view) bool {
	return m.eraKey == "" || eraOf(v[m.eraKey]) == m.inEra()
}

// inEra returns the era in which the member took its keys last.
func (m *membership) inEra() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.era
}

// mayReturn decides whether a member may take its keys anew, of which v has the first, with its record and the era.
func (m *membership) mayReturn(v view) (bool, error) {
	key, record := v[m.keys[0]], v[m.record]
	switch lost := !m.knows(v); {
	case m.record == "": // a listener or a node
		return key.created == 0, nil
	case lost && eraOf(v[m.eraKey]) < m.inEra():
		return false, errDataLost
	case lost && (record.created == 0 || parseLossRecord(record.value).joined() && incarnationOf(record) < m.created):
		return true, nil
	}
	return m.owns(record), nil
}

// lasting returns what a listener writes together with its key: the era of a job that begins, and all that outlives its members where the store has lost it.
func (m *membership) lasting(era entry) (puts []put, next int64) {
	r := m.registry
	if m.record != "" || m.eraKey == "" {
		return nil, eraOf(era)
	}
	next = eraOf(era)
	if next > 0 {
		return nil, next
	}
	next = m.inEra() + 1
	puts = []put{{key: m.eraKey, value: strconv.FormatInt(next, 10)}}
	if next == 1 {
		return puts, next
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, value := range r.counts {
		puts = append(puts, put{key: key, value: value})
	}
	return append(puts, put{key: r.prefix + commitKey, value: stateLost}), next
}

// rebuild writes all entries of the state again if etcd has lost them. It has the turn of a call.
func (s *state) rebuild(ctx context.Context) error {
	era := s.leader.inEra()
	if era == s.era {
		return nil
	}
	if s.entries == nil { // it has loaded nothing yet
		s.era, s.last = era, unknownRevision
		return nil
	}
	place, commit, err := s.look(ctx)
	switch {
	case err != nil:
		return err
	case place == placeLost:
		return s.fenced()
	case place == placeWithoutKey:
		return errWithoutLock
	}
	var t txn
	parts := []txn{}
	size := 0
	for key, value := range s.entries {
		if n := len(key) + len(value); len(t.puts) == MaxChanges || size+n > MaxBytes {
			parts, t, size = append(parts, t), txn{}, 0
		}
		t.puts, size = append(t.puts, put{key: key, value: value}), size+len(key)+len(value)
	}
	parts = append(parts, t)
	last := commit.modified
	for i, part := range parts {
		token := stateLost // until all are there
		if i == len(parts)-1 {
			token = s.newToken()
		}
		revision, ok, err := s.write(ctx, era, part, last, token)
		if err == nil && !ok {
			err = errUnsettled
		}
		if err != nil {
			return err
		}
		last = revision
	}
	s.era, s.last = era, last
	if s.open != nil {
		s.open.unanswered = "" // whether it was applied plays no part any more: the rest is committed after what is known to be durable
	}
	return nil
}

// restore writes the state again after its coordinator has taken the lock in another era.
func (s *state) restore(ctx context.Context) {
	ctx, release, err := s.begin(ctx)
	if err != nil {
		return
	}
	defer release()
	_ = s.retry(ctx, func(context.Context) error { return nil }) // which rebuilds; the next Commit reports what fails
}

// durable notes that a transaction is durable.
func (s *state) durable(t txn) {
	if s.entries == nil {
		return
	}
	for _, key := range t.deletes {
		delete(s.entries, key)
	}
	for _, p := range t.puts {
		s.entries[p.key] = p.value
	}
}
