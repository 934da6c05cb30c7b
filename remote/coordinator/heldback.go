package coordinator

import (
	"slices"

	"github.com/edl-go/edl/remote/id"
)

// heldBack is one evaluation on held-back data, before a round: which batches are given to whom, and which have counted. It is pure.
//
//	never given ---give---> given ---take---> taken ---counted---> done
//	                         |  ^
//	            lose: its generation has ended; another give
//
// A batch is given again when its trainer has not answered in its generation. Only an answer from who has a part is taken, and a part is taken once. So no
// batch counts twice.
type heldBack struct {
	round   id.Round
	batches int64
	next    int64 // the first batch that was never given
	given   []givenPart
	lost    []span // that were given, and are to be given again
	done    int64  // batches that have counted
	over    bool   // the outcome is in the log
}

// A span is the batches from one number to another, without the last.
type span struct{ from, to int64 }

// A holder is a trainer in one generation.
type holder struct {
	rank       id.Rank
	generation id.Generation
}

type givenPart struct {
	span
	to holder
}

// partsEach is into how many parts the batches of a trainer are divided at least, so that all trainers end at about the same time. mostBatches bounds a part:
// what a lost trainer had of it is evaluated again.
const (
	partsEach   = 4
	mostBatches = 16
)

// give returns the part that a trainer is to evaluate: the one that it has, or one that nobody has. trainers divide the data.
func (h *heldBack) give(to holder, trainers int) (part span, ok bool) {
	for _, g := range h.given {
		if g.to == to {
			return g.span, true
		}
	}
	switch {
	case len(h.lost) > 0:
		part, h.lost = h.lost[0], h.lost[1:]
	case h.next < h.batches:
		size := min(max(h.batches/int64(partsEach*max(trainers, 1)), 1), mostBatches)
		part = span{h.next, min(h.next+size, h.batches)}
		h.next = part.to
	default:
		return span{}, false
	}
	h.given = append(h.given, givenPart{part, to})
	return part, true
}

// take takes a part from the trainer that has it, and reports whether it had it. The caller counts it.
func (h *heldBack) take(from holder, part span) bool {
	i := slices.Index(h.given, givenPart{part, from})
	if i < 0 {
		return false
	}
	h.given = slices.Delete(h.given, i, i+1)
	return true
}

// counted notes that a part that was taken has counted.
func (h *heldBack) counted(part span) { h.done += part.to - part.from }

// lose takes back what trainers of earlier generations have.
func (h *heldBack) lose(now id.Generation) {
	h.given = slices.DeleteFunc(h.given, func(g givenPart) bool {
		if g.to.generation >= now {
			return false
		}
		h.lost = append(h.lost, g.span)
		return true
	})
}

// complete reports whether all batches have counted.
func (h *heldBack) complete() bool { return h.done == h.batches }

// holders returns the trainers that have parts.
func (h *heldBack) holders() (ranks []id.Rank) {
	for _, g := range h.given {
		ranks = append(ranks, g.to.rank)
	}
	slices.Sort(ranks)
	return ranks
}
