package pserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/id"
)

// Rounds is the machine of a sync job. A contribution counts in the generation in which it was sent. Frozen ends a generation; the next Resumed says
// what becomes of its open round: it is applied, or it is dropped and trained again.
type Rounds struct {
	generations
	members     members
	first       id.Round // of the generation
	round       id.Round // the open round, which is the version of the parameters: rounds before it are applied
	applying    bool     // the open round is being applied
	arriving    bool     // it is the round before a move, and what is applied are rows of the placement before, which arrive
	lastApplied []Declaration
	past
	takeover
	jury
	sharing
}

// NewRounds starts at a round, without a generation, in a job whose ranks are less than ranks. variables are those that a contribution holds.
func NewRounds(ranks int, variables []string, start id.Round) *Rounds {
	return &Rounds{generations: newGenerations(ranks, variables), round: start}
}

// Round is the open round, which is the version of the parameters.
func (r *Rounds) Round() id.Round { return r.round }

// Step takes one event.
func (r *Rounds) Step(_ time.Duration, e Event) (Effects, error) {
	switch e := e.(type) {
	case Applied:
		return r.applied(), nil
	case Frozen:
		if err := r.checkHistory(); err != nil && !e.Restores {
			return Effects{}, err
		}
		return Effects{}, r.freeze(e)
	case Resumed:
		if err := r.checkHistory(); err != nil {
			return Effects{}, err
		}
		return r.resume(e)
	case Restored:
		return restore(r, e)
	case Followed, Synced, Merged, TookOver:
		return follow(r, e)
	case Moved:
		return Effects{}, moved(r, e)
	}
	from := senderOf(e)
	if err := r.checkRank(from.Rank); err != nil {
		return Effects{}, err
	}
	if _, ok := e.(ReadAny); ok {
		return Effects{Hold: r.arriving}, nil
	}
	_, final := e.(ReadFinal)
	m, err := r.member(from, final)
	if m == nil {
		return Effects{Hold: err == nil}, err
	}
	switch e := e.(type) {
	case Asked:
		return asked(r, e)
	case Read:
		return r.read(e)
	case ReadFinal:
		return holdUnless(r.final(e.Rank)), nil
	case Completed:
		return r.complete(m), nil
	}
	if m.complete {
		return Effects{}, fault.E(fault.Stale, fault.Gotf("a message of trainer %d, which has completed", m.rank), fault.Want("nothing more"))
	}
	shared, shares := e.(Shared)
	if err := m.checkLeader(); err != nil && !shares {
		return Effects{}, err
	}
	if open, f, err := r.checkRound(m, from); !open {
		return f, err
	}
	if shares {
		return share(&r.sharing, shared)
	}
	switch e := e.(type) {
	case Offered:
		return r.contribution(m, e.Variable, false)
	case Received:
		return r.contribution(m, e.Variable, true)
	case Declared:
		f, err := r.declare(m, e)
		f.Shared = err == nil && r.know(e.Totals)
		return f, err
	}
	panic("pserver: an unknown type of event") // all types are in this package
}

// member returns the member that has sent a message, or nil without an error when the message has to wait for the Resumed that it has
// overtaken.
func (r *Rounds) member(from Sender, final bool) (*member, error) {
	switch {
	case from.Generation > max(r.begun, r.ended):
		return nil, nil
	case from.Generation == r.begun && r.begun > 0 && final && r.final(from.Rank):
		// The value is final, also when a new coordinator has ended the generation.
	case from.Generation <= r.ended:
		return nil, fault.E(fault.Superseded, fault.Gotf("a message of trainer %d in generation %d, which has ended", from.Rank, from.Generation),
			fault.Want("a member of the next generation"))
	}
	if m := r.members.find(from.Rank); m != nil {
		return m, nil
	}
	ranks := make([]id.Rank, len(r.members))
	for i, m := range r.members {
		ranks[i] = m.rank
	}
	return nil, fault.E(fault.Foreign, fault.Gotf("trainer %d, which is no member of generation %d", from.Rank, from.Generation),
		fault.Wantf("trainers %v", ranks))
}

// checkRound lets messages of the open round pass and sorts out the others. A member that reads nothing from this server, because the server holds no
// parameter, may begin the next round before others have declared this one.
func (r *Rounds) checkRound(m *member, from Sender) (open bool, f Effects, err error) {
	switch n := from.Round; {
	case n < r.first:
	case n == r.round && !r.applying:
		return true, Effects{}, nil
	case n == r.round, n < r.round && n+1 == r.round:
		return false, Effects{Ignore: true}, nil
	case n == r.round+1 && (r.applying || m.declared || r.backup > 0): // a late trainer may have heard of a decision before this server
		return false, Effects{Hold: true}, nil
	case n > r.round:
		return false, Effects{}, fault.E(fault.Foreign, fault.Gotf("round %d of trainer %d", n, m.rank), fault.Wantf("round %d", r.round))
	}
	return false, Effects{}, fault.E(fault.Stale, fault.Gotf("round %d of trainer %d", from.Round, m.rank),
		fault.Wantf("round %d", max(r.first, r.round)))
}

func (r *Rounds) contribution(m *member, variable string, received bool) (Effects, error) {
	if err := r.checkVariable(variable); err != nil {
		return Effects{}, err
	}
	if m.declared || m.received[variable] {
		return Effects{Ignore: true}, nil
	}
	if received {
		m.received[variable] = true
	}
	return Effects{}, nil
}

func (r *Rounds) declare(m *member, e Declared) (Effects, error) {
	if m.declared {
		return Effects{Ignore: true}, nil
	}
	if r.decides && r.lacking(r.round) && e.Variables > len(m.received) {
		return Effects{}, fault.E(fault.Unavailable, fault.Gotf("round %d of trainer %d, which was sent to the server before its standby took over", r.round, m.rank),
			fault.Want("the contribution again"))
	}
	if err := r.checkDeclared(e, len(m.received)); err != nil {
		return Effects{}, err
	}
	if r.backup > 0 && !r.decides {
		return counted(r, m, e)
	}
	if len(e.Group) > 0 {
		return r.declareGroup(m, e)
	}
	if r.members.leads(m) {
		return Effects{}, checkGroup(e, r.members.ledBy(m))
	}
	m.declared, m.declaration = true, e.Declaration
	m.declaration.Rank = m.rank
	return r.advance(Effects{}), nil
}

// declareGroup notes the declarations of a whole group: all of them, or none.
func (r *Rounds) declareGroup(leader *member, e Declared) (Effects, error) {
	all := r.members.ledBy(leader)
	if err := checkGroup(e, all); err != nil {
		return Effects{}, err
	}
	for i, m := range all {
		m.declared, m.declaration = true, e.Group[i]
	}
	return r.advance(Effects{}), nil
}

func (r *Rounds) complete(m *member) Effects {
	if m.complete {
		return Effects{Ignore: true}
	}
	m.complete = true
	if !m.declared {
		clear(m.received)
	}
	return r.advance(Effects{})
}

// advance adds to f what follows from the state of all members: a round to apply, or the end.
func (r *Rounds) advance(f Effects) Effects {
	if r.applying || r.idle() || waitsFor(r) {
		return f
	}
	if declared := r.members.declarations(); len(declared) > 0 {
		return r.apply(f, r.members, declared)
	}
	f.Finished = true
	return f
}

// apply begins to apply the open round, which is made of declared, as members of its generation have sent it.
func (r *Rounds) apply(f Effects, by members, declared []Declaration) Effects {
	r.applying, r.lastApplied = true, declared
	noteDropped(&r.jury, by, declared)
	f.Apply, f.Contributors = true, by.contributors(declared)
	return f
}

// contributors returns whose contributions the declarations are of, but for those without rows.
func (ms members) contributors(list []Declaration) []Declaration {
	apart := func(d Declaration) bool {
		m := ms.find(d.Rank)
		return d.Rows > 0 && (m == nil || m.leader == m)
	}
	if !slices.ContainsFunc(list, func(d Declaration) bool { return !apart(d) }) {
		return list
	}
	sums := map[id.Rank]Declaration{}
	for _, d := range list {
		if m := ms.find(d.Rank); m != nil {
			d.Rank = m.leader.rank
		}
		of := sums[d.Rank]
		sums[d.Rank] = Declaration{Rank: d.Rank, Rows: of.Rows + d.Rows, Weight: of.Weight + d.Weight, Void: of.Void || d.Void, Hour: hourOf([]Declaration{of, d})}
	}
	var out []Declaration
	for _, rank := range slices.Sorted(maps.Keys(sums)) {
		if sums[rank].Rows > 0 {
			out = append(out, sums[rank])
		}
	}
	return out
}

// hourOf is the hour of a round that is made of these declarations: the earliest of those that have rows.
func hourOf(list []Declaration) (hour int64) {
	any := false
	for _, d := range list {
		if d.Rows > 0 && (!any || d.Hour < hour) {
			hour, any = d.Hour, true
		}
	}
	return hour
}

// applied opens the next round.
func (r *Rounds) applied() Effects {
	r.applying, r.arriving = false, false
	r.shared = nil
	r.round++
	for _, m := range r.members {
		m.declared = false
		clear(m.received)
	}
	return r.advance(Effects{Commit: r.lastApplied})
}

// read asks for a version. A trainer asks for the version that it begins with, and then for the one after each of its rounds.
func (r *Rounds) read(e Read) (Effects, error) {
	switch {
	case r.backup > 0 && e.Round <= r.round: // whoever copies the values looks again which version they are
		return Effects{Hold: r.applying}, nil
	case e.Round == r.round:
		return Effects{}, nil
	case e.Round > r.round && e.Round-r.round == 1:
		return Effects{Hold: true}, nil
	}
	kind := fault.Foreign
	if e.Round < r.round {
		kind = fault.Stale
	}
	return Effects{}, fault.E(kind, fault.Gotf("a request for version %d", e.Round), fault.Wantf("version %d", r.round))
}

// final reports whether a value is final for rank: every other member has completed, and no round is being applied.
func (r *Rounds) final(rank id.Rank) bool { return !r.applying && r.members.othersComplete(rank) }

// idle reports whether no generation is under way.
func (r *Rounds) idle() bool { return r.ended >= r.begun }

// resume begins a generation. First it applies the open round or drops it, as the coordinator has decided. A round that is being applied goes on:
// everyone has declared it to this server, so all servers have its contributions and apply it, and Freeze has told the coordinator so.
func (r *Rounds) resume(e Resumed) (Effects, error) {
	again, err := r.checkResume(e)
	switch {
	case err != nil:
		return Effects{}, err
	case again:
		return Effects{Ignore: true}, nil
	case !r.idle() && r.tookOver:
		return Effects{}, fault.E(fault.Unavailable, fault.Gotf("the start of generation %d at a standby that has taken over", e.Generation),
			fault.Wantf("the end of generation %d before it", r.begun))
	case !r.idle():
		return Effects{}, fault.E(fault.Internal, fault.Gotf("the start of generation %d", e.Generation),
			fault.Wantf("the end of generation %d before it", r.begun))
	}
	have := r.committed()
	if len(e.Members) == 0 {
		e.Round = have // nobody trains, so the coordinator need not know the round
	}
	commit := e.Round == have+1 && len(e.Commit) > 0
	switch {
	case commit && r.applying && len(r.variables) == 0:
		// The members read nothing from this server, so they were a round ahead of it. The round that is being applied ends by itself: another server has
		// finished it, so every server has what it needs for it.
		return Effects{Hold: true}, nil
	case commit && !r.applying:
		if err := r.members.checkCommit(e.Commit, r.round, r.variables); err != nil {
			return Effects{}, err
		}
	case e.Round != have: // contributions to a round after the one that is being applied are not here
		return Effects{}, fault.E(fault.Internal, fault.Gotf("generation %d to start with round %d", e.Generation, e.Round),
			fault.Wantf("round %d, or the next one with what to commit", have))
	}
	before := r.members
	r.begun, r.ended, r.first, r.members, r.shared = e.Generation, e.Generation-1, e.Round, nil, nil
	for _, m := range e.Members {
		next := &member{rank: m.Rank, received: map[string]bool{}}
		r.members = append(r.members, next)
		next.leader = r.members.find(m.Leader)
	}
	if commit {
		return r.apply(Effects{}, before, slices.Clone(e.Commit)), nil
	}
	return r.advance(Effects{Drop: !r.applying}), nil
}

// committed is the version of the parameters, where a round that is being applied counts as applied.
func (r *Rounds) committed() id.Round {
	if r.applying {
		return r.round + 1
	}
	return r.round
}

// State answers Freeze. It leaves out declarations of a generation that was ended earlier than the last one. The decision on the round of that
// generation has come into force, and then another server has applied the round, or it never will.
func (r *Rounds) State() State {
	s := State{Generation: r.begun, Round: r.committed(), Applied: r.lastApplied, History: r.history, Lacks: r.lacking(r.committed())}
	if !r.applying && r.begun >= r.ended {
		s.Declared = r.members.declarations()
	}
	for _, m := range r.members {
		if m.complete {
			s.Completed = append(s.Completed, m.rank)
		}
	}
	return s
}

// Missing returns the ranks that the open round waits for: of a group its leader, where that is one. Where members wait for totals, it returns the others. There are none
// while no generation is under way.
func (r *Rounds) Missing() []id.Rank {
	var ranks []id.Rank
	totals := slices.ContainsFunc(r.members, func(m *member) bool { return r.waits(m.rank) })
	for _, m := range r.members {
		if m.missing() && !r.applying && !r.idle() && !r.waits(m.rank) && (totals || m.leader == m || !m.leader.missing()) {
			ranks = append(ranks, m.rank)
		}
	}
	return ranks
}

// started reports whether a member has sent or declared something for the open round.
func (r *Rounds) started() bool {
	return !r.applying && !r.idle() && (len(r.shared) > 0 || slices.ContainsFunc(r.members, func(m *member) bool { return m.declared || len(m.received) > 0 }))
}

// String shows the state on one line, for logs and tests.
func (r *Rounds) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d", r.begun)
	if r.idle() {
		fmt.Fprintf(&b, " frozen up to %d", r.ended)
	}
	fmt.Fprintf(&b, "; round %d", r.round)
	if r.applying {
		b.WriteString(" applying")
	}
	for i, p := range r.shared {
		fmt.Fprintf(&b, "; place %d", i)
		for _, t := range p.parts {
			fmt.Fprintf(&b, ", %d rows of trainer %d", t.Rows, t.Rank)
		}
	}
	for _, m := range r.members {
		fmt.Fprintf(&b, "; trainer %d", m.rank)
		switch {
		case m.declared:
			fmt.Fprintf(&b, " declared %d rows", m.declaration.Rows)
		case m.complete:
			b.WriteString(" complete")
		default:
			fmt.Fprintf(&b, " sent %v", sorted(m.received))
		}
	}
	return b.String()
}
