package pserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
)

// Rounds is the machine of a sync job. Contributions count in the generation in which they were sent; a generation ends with Freeze, and what becomes
// of its open round is for the coordinator to say in the Resume of the next one.
type Rounds struct {
	term
	members  []*member       // of the generation, in rank order
	names    map[string]bool // variables that a contribution may hold
	first    uint64          // round of the generation
	round    uint64          // rounds applied
	applying bool
	made     []Declared // what the round that is being applied is made of, or else the last one that was
}

type member struct {
	rank      int
	delivered map[string]bool
	declared  *Declared // nil before its barrier
	complete  bool
}

// NewRounds starts at round 0 without a generation, in a job whose ranks are less than limit. names are those that a contribution may hold.
func NewRounds(limit int, names []string) *Rounds {
	r := &Rounds{term: term{limit: limit}, names: map[string]bool{}}
	for _, n := range names {
		r.names[n] = true
	}
	return r
}

// Round is the number of rounds applied so far.
func (r *Rounds) Round() uint64 { return r.round }

// Step takes one event.
func (r *Rounds) Step(e Event) Decision {
	switch e.Kind {
	case Applied:
		return r.applied()
	case Freeze:
		return r.freeze(e)
	case Resume:
		return r.resume(e)
	}
	r.hear(e.Fence)
	if err := r.known(e.Rank); err != nil {
		return Decision{Verdict: Refuse, Err: err}
	}
	if e.Kind == ReadAny {
		return Decision{Verdict: Take}
	}
	m, d := r.sender(e)
	switch {
	case m == nil:
		return d
	case e.Kind == Read:
		return r.read(e)
	case e.Kind == ReadFinal:
		return r.readFinal(e)
	case e.Kind == Complete:
		return r.complete(m)
	case m.complete:
		return refuse(fault.Stale, "a message of trainer %d, which has completed", "nothing more", e.Rank)
	}
	if d, current := r.current(m, e); !current {
		return d
	}
	if e.Kind == Barrier {
		return r.barrier(m, e)
	}
	return r.contribution(m, e)
}

// current sorts out messages of other rounds. A member that receives nothing from this server, because it holds no parameter, may begin the next
// round before others have declared this one.
func (r *Rounds) current(m *member, e Event) (Decision, bool) {
	switch {
	case e.Round < r.first:
	case e.Round == r.round && !r.applying:
		return Decision{}, true
	case e.Round == r.round, e.Round < r.round && e.Round+1 == r.round:
		return Decision{Verdict: Ignore}, false
	case e.Round == r.round+1 && (r.applying || m.declared != nil):
		return Decision{Verdict: Hold}, false
	case e.Round > r.round:
		return refuse(fault.Foreign, "round %d of trainer %d", fmt.Sprintf("round %d", r.round), e.Round, e.Rank), false
	}
	return refuse(fault.Stale, "round %d of trainer %d", fmt.Sprintf("round %d", max(r.first, r.round)), e.Round, e.Rank), false
}

func (r *Rounds) contribution(m *member, e Event) Decision {
	switch {
	case !r.names[e.Variable]:
		return unknownVariable(e.Variable)
	case m.delivered[e.Variable], m.declared != nil:
		return Decision{Verdict: Ignore}
	}
	if e.Kind == Deliver {
		m.delivered[e.Variable] = true
	}
	return Decision{Verdict: Take}
}

func (r *Rounds) barrier(m *member, e Event) Decision {
	if m.declared != nil {
		return Decision{Verdict: Ignore}
	}
	if err := checkBarrier(e, len(m.delivered), len(r.names)); err != nil {
		return Decision{Verdict: Refuse, Err: err}
	}
	share := e.Share
	share.Rank = e.Rank
	m.declared = &share
	return r.advance(Decision{Verdict: Take})
}

// checkBarrier checks that a barrier speaks of what has been delivered: all of the variables, or none for a contribution without rows.
func checkBarrier(e Event, delivered, names int) error {
	if rows := e.Share.Rows; rows < 0 || e.Variables != delivered || rows > 0 && delivered != names || rows == 0 && delivered != 0 {
		return fault.E(fault.InvalidArgument,
			fault.Gotf("a barrier of trainer %d over %d rows and %d variables with %d received", e.Rank, rows, e.Variables, delivered),
			fault.Wantf("all %d variables, or none for 0 rows", names))
	}
	return nil
}

func (r *Rounds) complete(m *member) Decision {
	if m.complete {
		return Decision{Verdict: Ignore}
	}
	m.complete = true
	if m.declared == nil {
		clear(m.delivered)
	}
	return r.advance(Decision{Verdict: Take})
}

// advance adds to d what follows from everyone's state: a round to apply, or the end.
func (r *Rounds) advance(d Decision) Decision {
	if r.applying || r.idle() {
		return d
	}
	waiting := slices.ContainsFunc(r.members, func(m *member) bool { return m.declared == nil && !m.complete })
	declared := slices.ContainsFunc(r.members, func(m *member) bool { return m.declared != nil })
	switch {
	case waiting:
	case declared:
		return r.apply(d, r.barriers())
	default:
		d.Finished = true
	}
	return d
}

// apply begins the application of a round that is made of shares.
func (r *Rounds) apply(d Decision, shares []Declared) Decision {
	r.applying, r.made, d.Apply = true, shares, true
	for _, s := range shares {
		if s.Rows > 0 {
			d.Shares = append(d.Shares, Contributor{Rank: s.Rank, Rows: s.Rows})
		}
	}
	return d
}

func (r *Rounds) applied() Decision {
	r.applying = false
	r.round++
	for _, m := range r.members {
		m.declared = nil
		clear(m.delivered)
	}
	return r.advance(Decision{Verdict: Take})
}

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

// after is the number of rounds applied when the one that is being applied has been.
func (r *Rounds) after() uint64 {
	if r.applying {
		return r.round + 1
	}
	return r.round
}

// barriers returns what the members have declared for the open round.
func (r *Rounds) barriers() []Declared {
	var list []Declared
	for _, m := range r.members {
		if m.declared != nil {
			list = append(list, *m.declared)
		}
	}
	return list
}

// State answers Freeze. Barriers of a generation before the one that has ended stay untold: it was ended before, and the decision on its open round
// is either to be seen at another server, which has applied it, or has never come into force.
func (r *Rounds) State() State {
	s := State{Generation: r.generation, Round: r.after(), Applied: r.made}
	if !r.applying && r.generation >= r.ended {
		s.Declared = r.barriers()
	}
	for _, m := range r.members {
		if m.complete {
			s.Completed = append(s.Completed, m.rank)
		}
	}
	return s
}

// Made returns what the last round that was applied was made of.
func (r *Rounds) Made() []Declared { return r.made }

// Missing returns the ranks that the open round waits for; none while no generation is under way.
func (r *Rounds) Missing() []int {
	var ranks []int
	for _, m := range r.members {
		if m.declared == nil && !m.complete && !r.applying && !r.idle() {
			ranks = append(ranks, m.rank)
		}
	}
	return ranks
}

// Begun reports whether a member has sent or declared something for the round that is open.
func (r *Rounds) Begun() bool {
	return !r.applying && !r.idle() && slices.ContainsFunc(r.members, func(m *member) bool { return m.declared != nil || len(m.delivered) > 0 })
}

// othersComplete reports whether every member but rank has completed.
func (r *Rounds) othersComplete(rank int) bool {
	return !r.applying && !slices.ContainsFunc(r.members, func(m *member) bool { return m.rank != rank && !m.complete })
}

// String shows the state on one line, for logs and scripts.
func (r *Rounds) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d", r.generation)
	if r.idle() {
		fmt.Fprintf(&b, " frozen up to %d", r.ended)
	}
	fmt.Fprintf(&b, "; round %d", r.round)
	if r.applying {
		b.WriteString(" applying")
	}
	for _, m := range r.members {
		fmt.Fprintf(&b, "; trainer %d", m.rank)
		switch {
		case m.declared != nil:
			fmt.Fprintf(&b, " declared %d rows", m.declared.Rows)
		case m.complete:
			b.WriteString(" complete")
		default:
			fmt.Fprintf(&b, " sent %v", sorted(m.delivered))
		}
	}
	return b.String()
}

func sorted(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }
