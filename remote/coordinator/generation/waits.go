package generation

import (
	"fmt"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
)

// A Wait is what a job waits for.
type Wait struct {
	What      string
	By        []string // who is waited for
	Since     time.Time
	Until     time.Time // when the job fails
	LastError string    // of one of By
}

// Wait returns what the job waits for now, if anything.
func (m *Machine) Wait() (Wait, bool) {
	w := Wait{What: fmt.Sprintf("generation %d", m.current.Number+1), Since: m.began, Until: m.began.Add(m.policy.StartDeadline)}
	switch m.phase {
	case Freezing:
		w.What, w.By = "the state of the servers, for "+w.What, servers(m.absentServers())
	case Gathering:
		w.By, w.LastError = m.missing()
	case Persisting:
		w.What, w.By, w.Since = "a record of "+w.What, []string{"etcd"}, m.entered
	case Resuming:
		w.What, w.By, w.Since = fmt.Sprintf("generation %d", m.current.Number), servers(m.absentServers()), m.entered
	case Settling:
		w.What, w.By, w.Since = "the ledger", servers([]int{0}), m.entered
	case Running:
		w.What, w.Since = "more trainers", m.short
		w.By, w.LastError = m.missing()
	}
	w.Until = w.Since.Add(m.policy.StartDeadline)
	return w, m.phase != Ended && (m.phase != Running || !m.short.IsZero())
}

// Paused reports whether the job does not go on for want of trainers, rather than because a change takes its time.
func (m *Machine) Paused() bool {
	return m.phase == Gathering && m.current.Number > 0 && len(m.expected()) < max(1, m.policy.Min-len(m.left))
}

// Progressed reports whether a server that is lost now takes parameters along that nobody else has.
func (m *Machine) Progressed() bool { return m.progressed }

// Ending reports whether a trainer has left because there is nothing more to train.
func (m *Machine) Ending() bool { return len(m.left) > 0 }

// Deadline is when the next Tick is due; false: at no time.
func (m *Machine) Deadline() (time.Time, bool) {
	w, waits := m.Wait()
	if !waits {
		return time.Time{}, false
	}
	rejoin := m.entered.Add(m.policy.RejoinDeadline)
	if m.phase == Gathering && m.current.Number > 0 && rejoin.Before(w.Until) && !m.rejoinTold {
		return rejoin, true
	}
	return w.Until, true
}

// tick ends waits that have taken too long.
func (m *Machine) tick(now time.Time, out *Effects) {
	m.gather(now, out)
	m.rejoinTold = m.phase == Gathering && now.Sub(m.entered) >= m.policy.RejoinDeadline
	w, waits := m.Wait()
	if !waits || now.Before(w.Until) {
		return
	}
	got := fmt.Sprintf("no word of %s within %v", strings.Join(w.By, ", "), m.policy.StartDeadline)
	if w.LastError != "" {
		got += "; " + w.LastError
	}
	m.fail(fault.E(fault.DeadlineExceeded, fault.At("coordinator"), fault.Got(got), fault.Want(w.What),
		fault.Hint("look at their logs, or raise start_deadline")), out)
}

// missing names the trainers that are waited for, and the last error of one of them.
func (m *Machine) missing() (names []string, lastError string) {
	var ranks []uint32
	for rank := range uint32(max(m.policy.Max, m.policy.Min)) {
		_, member := m.current.Member(rank)
		lives := member && !m.gone[rank] && (m.phase == Running || !m.policy.Sync)
		asked := member || int(rank) < m.wanted && len(m.left) == 0
		if asked && m.away(rank) && !m.left[rank] && !lives {
			ranks = append(ranks, rank)
		}
	}
	for _, rank := range ranks {
		names = append(names, fmt.Sprintf("trainer %d", rank))
		if reason := m.errors[rank]; reason != "" && lastError == "" {
			lastError = fmt.Sprintf("trainer %d: %s", rank, reason)
		}
	}
	return names, lastError
}

func servers(indexes []int) []string {
	names := make([]string, len(indexes))
	for i, server := range indexes {
		names[i] = fmt.Sprintf("pserver %d", server)
	}
	return names
}
