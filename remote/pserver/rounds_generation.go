package pserver

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
)

// sender returns the member that a message comes from, or the decision on a message that comes from no member of the generation.
func (r *Rounds) sender(e Event) (*member, Decision) {
	switch {
	case e.Generation > max(r.generation, r.ended):
		return nil, Decision{Verdict: Hold} // it has overtaken the Resume
	case e.Generation == r.generation && r.generation > 0 && e.Kind == ReadFinal && r.othersComplete(e.Rank):
		// Nothing that is still to come changes the value, also when a new coordinator has ended the generation.
	case e.Generation <= r.ended:
		return nil, refuse(fault.Superseded, "a message of trainer %d in generation %d, which has ended", "a member of the next generation", e.Rank,
			e.Generation)
	}
	i := slices.IndexFunc(r.members, func(m *member) bool { return m.rank == e.Rank })
	if i < 0 {
		return nil, refuse(fault.Foreign, "trainer %d, which is no member of generation %d", fmt.Sprintf("trainers %v", r.ranks()), e.Rank, e.Generation)
	}
	return r.members[i], Decision{}
}

// idle reports whether no generation is under way.
func (r *Rounds) idle() bool { return r.ended >= r.generation }

func (r *Rounds) ranks() []int {
	ranks := make([]int, len(r.members))
	for i, m := range r.members {
		ranks[i] = m.rank
	}
	return ranks
}

// read asks for the version after e.Round rounds. A trainer asks for no other but the one that it begins with, and then the next.
func (r *Rounds) read(e Event) Decision {
	switch {
	case e.Round == r.round:
		return Decision{Verdict: Take}
	case e.Round > r.round && e.Round-r.round == 1:
		return Decision{Verdict: Hold}
	case e.Round < r.round:
		return refuse(fault.Stale, "a request for version %d", fmt.Sprintf("version %d", r.round), e.Round)
	}
	return refuse(fault.Foreign, "a request for version %d", fmt.Sprintf("version %d", r.round), e.Round)
}

func (r *Rounds) readFinal(e Event) Decision {
	if r.othersComplete(e.Rank) {
		return Decision{Verdict: Take}
	}
	return Decision{Verdict: Hold}
}

// freeze ends the generation. Its contributions stay until Resume says whether they count. A round that is being applied goes on: everyone has
// declared it to this server, so all servers will apply it, and those that have not heard everyone do so when they are told to commit it. Freeze does
// not wait for that, because the exchange of partial sums may in turn wait for such a server.
func (r *Rounds) freeze(e Event) Decision {
	if err := r.obey(e); err != nil {
		return Decision{Verdict: Refuse, Err: err}
	}
	if e.Generation < r.generation {
		return refuse(fault.Stale, "the end of generation %d", fmt.Sprintf("generation %d", r.generation), e.Generation)
	}
	r.ended = max(r.ended, e.Generation)
	return Decision{Verdict: Take}
}

// resume begins a generation, after it has applied the open round or dropped it, as the coordinator has decided.
func (r *Rounds) resume(e Event) Decision {
	err := r.obey(e)
	if err == nil {
		err = r.checkResume(e)
	}
	switch {
	case err != nil:
		return Decision{Verdict: Refuse, Err: err}
	case e.Generation == r.generation && e.Generation > 0:
		return Decision{Verdict: Ignore}
	case e.Generation <= r.ended:
		return refuse(fault.Stale, "the begin of generation %d", fmt.Sprintf("one after generation %d", r.ended), e.Generation)
	case !r.idle():
		return refuse(fault.Internal, "the begin of generation %d", fmt.Sprintf("the end of generation %d before it", r.generation), e.Generation)
	}
	have := r.after()
	if len(e.Members) == 0 {
		e.Round = have // nobody trains, whatever follows
	}
	switch {
	case e.Round == have:
	case e.Round == have+1 && !r.applying && len(e.Commit) > 0:
		if err := r.lacks(e.Commit); err != nil {
			return Decision{Verdict: Refuse, Err: err}
		}
	default:
		return refuse(fault.Internal, "generation %d to begin with round %d", fmt.Sprintf("round %d, or the next one with what to commit", have),
			e.Generation, e.Round)
	}
	r.generation, r.ended, r.first, r.members = e.Generation, e.Generation-1, e.Round, nil
	for _, m := range e.Members {
		r.members = append(r.members, &member{rank: m.Rank, delivered: map[string]bool{}})
	}
	if e.Round == have+1 {
		return r.apply(Decision{Verdict: Take}, slices.Clone(e.Commit))
	}
	return r.advance(Decision{Verdict: Take, Drop: !r.applying})
}

// lacks names the contributions that are to be committed and are not here.
func (r *Rounds) lacks(commit []Declared) error {
	missing := ""
	for _, c := range commit {
		i := slices.IndexFunc(r.members, func(m *member) bool { return m.rank == c.Rank })
		for _, name := range sorted(r.names) {
			if c.Rows > 0 && (i < 0 || !r.members[i].delivered[name]) {
				missing += fmt.Sprintf(" %s of trainer %d,", fault.Quote(name), c.Rank)
			}
		}
	}
	if missing == "" {
		return nil
	}
	return fault.E(fault.Internal, fault.Gotf("round %d to commit without%s", r.round, missing[:len(missing)-1]),
		fault.Want("a decision that rests on what the servers have"))
}
