package generation

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/remote/id"
)

// waiter is a trainer that waits for a generation.
type waiter struct {
	incarnation id.Incarnation
	last        id.Generation // that it was a member of
	at          Place
}

// roster is who is a member, who waits to be one, and who is gone.
type roster struct {
	policy  Policy
	wanted  int           // trainers
	current Generation    // the last durable one
	next    Generation    // the one that a change makes durable
	settled id.Generation // the last one whose members were answered
	left    map[id.Rank]bool
	waiting map[id.Rank]waiter
	gone    map[id.Rank]bool // members of current that are lost or drained
	errors  map[id.Rank]string
	dead    map[id.Rank]id.Incarnation // the last process of a rank that is known to be gone, though a message of it may still come
}

// ended reports whether every member has left in order.
func (r *roster) ended() bool {
	for _, member := range r.current.Members {
		if !r.left[member.Rank] {
			return false
		}
	}
	return len(r.current.Members) > 0
}

// lacksOld reports whether the process of a member is gone.
func (r *roster) lacksOld() bool {
	return slices.ContainsFunc(r.current.Members, func(old Member) bool {
		w, waits := r.waiting[old.Rank]
		return !r.left[old.Rank] && (r.gone[old.Rank] || waits && w.incarnation != old.Incarnation)
	})
}

// expected lists the members that live: in sync mode they have to join the next generation.
func (r *roster) expected() (ranks []id.Rank) {
	for _, member := range r.current.Members {
		if !r.left[member.Rank] && !r.gone[member.Rank] {
			ranks = append(ranks, member.Rank)
		}
	}
	return ranks
}

// candidates are the members of a generation that would begin now, in rank order: the old ones that are there, and as many others as are wanted.
func (r *roster) candidates() (members []Member) {
	number := r.current.Number + 1
	for _, old := range r.current.Members {
		w, waits := r.waiting[old.Rank]
		switch {
		case r.left[old.Rank]:
		case waits && (w.incarnation != old.Incarnation || !r.policy.Sync && w.last >= old.Since):
			members = append(members, Member{old.Rank, number, w.incarnation, w.at})
		case waits:
			old.At = w.at
			members = append(members, old)
		case !r.policy.Sync && !r.gone[old.Rank]:
			members = append(members, old)
		}
	}
	for _, rank := range r.newcomers(r.current, len(members)) {
		members = append(members, Member{rank, number, r.waiting[rank].incarnation, r.waiting[rank].at})
	}
	slices.SortFunc(members, func(a, b Member) int { return int(a.Rank) - int(b.Rank) })
	return members
}

// newcomers lists those who wait, are no members of g, and are wanted in addition to so many others, in rank order. When trainers have left because all
// data is trained, nobody else is wanted, unless no other member lives.
func (r *roster) newcomers(g Generation, others int) (ranks []id.Rank) {
	if len(r.left) > 0 && (others > 0 || len(r.expected()) > 0) {
		return nil
	}
	for rank := range r.waiting {
		if _, ok := g.Member(rank); !ok && !r.left[rank] {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks[:min(len(ranks), max(0, r.wanted-others))]
}

// away reports whether a rank does not wait for the next generation.
func (r *roster) away(rank id.Rank) bool {
	_, waits := r.waiting[rank]
	return !waits
}

// lacking is how many trainers a running job has too few. Only an async one runs then; when all data is trained none is missed.
func (r *roster) lacking() int {
	if len(r.left) > 0 {
		return 0
	}
	return r.policy.Min - len(r.expected())
}

// goneOf lists the members of a generation that were lost while it was made durable.
func (r *roster) goneOf(g Generation) map[id.Rank]bool {
	gone := map[id.Rank]bool{}
	for _, member := range g.Members {
		if r.policy.Sync || member.Since == g.Number {
			gone[member.Rank] = r.waiting[member.Rank].incarnation != member.Incarnation
		} else {
			gone[member.Rank] = r.gone[member.Rank]
		}
		if !gone[member.Rank] {
			delete(gone, member.Rank)
		}
	}
	return gone
}

// Left reports whether a trainer has left with nothing more to train. Another process of its rank has nothing to do either.
func (r *roster) Left(rank id.Rank) bool { return r.left[rank] }

// Others returns the members other than one that have not left.
func (r *roster) Others(rank id.Rank) (others []id.Rank) {
	for _, member := range r.current.Members {
		if member.Rank != rank && !r.left[member.Rank] {
			others = append(others, member.Rank)
		}
	}
	return others
}

// Saves reports whether a trainer that was elected to save the model has done so, or may be trusted to: it is a member.
func (r *roster) Saves(rank id.Rank) bool {
	_, ok := r.current.Member(rank)
	return ok || r.left[rank]
}

// Generation is the last durable generation.
func (r *roster) Generation() Generation { return r.current }

// State is what has to be durable now, except for a generation that is being made durable.
func (r *roster) State() State {
	s := State{Generation: r.current, Settled: r.settled}
	for rank := range id.Rank(r.policy.ranks()) {
		if r.left[rank] {
			s.Left = append(s.Left, rank)
		}
	}
	return s
}

// Incarnations returns the processes of a rank that are members or wait to be.
func (r *roster) Incarnations(rank id.Rank) (known []id.Incarnation) {
	if w, ok := r.waiting[rank]; ok {
		known = append(known, w.incarnation)
	}
	for _, g := range []Generation{r.current, r.next} {
		if member, ok := g.Member(rank); ok && !slices.Contains(known, member.Incarnation) {
			known = append(known, member.Incarnation)
		}
	}
	return known
}

// missing names the trainers that are waited for, and the last error of one of them. running says that a generation trains.
func (r *roster) missing(running bool) (names []string, lastError string) {
	for rank := range id.Rank(r.policy.ranks()) {
		_, member := r.current.Member(rank)
		lives := member && !r.gone[rank] && (running || !r.policy.Sync)
		asked := member || int(rank) < r.wanted && len(r.left) == 0
		if !asked || !r.away(rank) || r.left[rank] || lives {
			continue
		}
		names = append(names, fmt.Sprintf("trainer %d", rank))
		if reason := r.errors[rank]; reason != "" && lastError == "" {
			lastError = fmt.Sprintf("trainer %d: %s", rank, reason)
		}
	}
	return names, lastError
}

// Ending reports whether a trainer has left because there is nothing more to train.
func (r *roster) Ending() bool { return len(r.left) > 0 }
