package coordinator

import (
	"context"
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/id"
)

// feeds is the source of a fed job: the items that its user gives, one after the other. An item is a batch to train or a list of variables to read.
//
//	feed --> accept --> handed out to members --> next: their shares --> reports --> steps --> trained --> the answer of feed
//	                          ^                                                        |
//	                          `--- begun: a new generation, what is not committed -----'
//
// Number n of the session is the training step that its user calls with n. In sync mode round first+n trains it, whoever takes part; so the round of a
// generation tells which steps are committed. The others are handed out again, divided among the members of that generation. The member at position 0
// does an item that reads. In async mode one member trains the whole batch. A batch whose trainer is lost is trained again by another one, although some
// servers may have applied a part of it.
//
// A coordinator knows the items that it was given itself. After a restart the user's call comes again, with the same number, and the trainers report
// their last step again. So a step that is committed is answered by their reports; when all members have asked for an item of the new generation
// nothing more comes, and what was not reported is unknown.
type feeds struct {
	*core
	members *members
	steps   *steps

	first      uint64                // round of the session's first step
	resumes    bool                  // an earlier coordinator has begun a generation
	generation generation.Generation // the last that this coordinator has begun; Number 0: none
	accepted   uint64                // training steps that the session has had
	given      bool                  // this coordinator was given an item
	givenUp    uint64                // the call that was given up last: it is refused
	items      []*item               // accepted and not done, in order
	last       *item                 // the last training step that was done
	lists      map[id.Rank]*list     // by member of the generation
	finished   bool                  // no more items come; durable
}

// An item is what a user's call gives.
type item struct {
	number uint64    // of the training step; of an item that reads, of the next one
	reads  bool      // variables, and trains nothing
	batch  *batch    // nil for a step that an earlier coordinator was given
	call   uint64    // that gave it; unknown when batch is nil
	owner  id.Rank   // of an item that one member does
	done   *job.Step // what it fetched; nil: it is under way
	// unreported says that the step is committed, and nobody who lives has reported it.
	unreported bool
}

// list is what a member is handed in a generation. The member numbers it from 0.
type list struct {
	since id.Generation
	first uint64  // number of items[0]; the member has done those before
	items []*item // that it has not asked beyond
	asked bool    // for an item of this generation, so it has reported all that it did before
}

func newFeeds(c *core) *feeds {
	return &feeds{core: c, first: c.cfg.Begin.GetSteps(), lists: map[id.Rank]*list{}}
}

// checkFed refuses what only the user of a fed job may ask.
func (c *core) checkFed() error {
	if !c.cfg.Fed {
		return fault.E(fault.InvalidArgument, fault.At("coordinator"), fault.Got("a feed for a job that reads its own data"),
			fault.Want("a fed job"))
	}
	return nil
}

// feed does one item and returns what it fetched. A training step that is repeated is not trained again: its caller is given what it fetched, as long as
// no later step is done.
func (f *feeds) feed(ctx context.Context, run *rpc.StepRun) (*job.Step, error) {
	b, err := newBatch(f.cfg.Program, run, f.cfg.dividesBatches())
	if err != nil {
		return nil, err
	}
	var it *item
	err = f.await(ctx, waitFor("the user", "the first generation"), func() (ok bool, err error) {
		if f.generation.Number > 0 {
			it, err = f.accept(run.Step, run.Call, b)
		}
		return it != nil, err
	})
	if err == nil {
		err = f.await(ctx, waitFor("the user", fmt.Sprintf("step %d", run.Step)), func() (bool, error) { return it.done != nil, nil })
	}
	if err != nil {
		return nil, err
	}
	return f.answer(ctx, run, it)
}

// giveUp decides what becomes of a call whose caller does not wait any more, and returns how many training steps the session has had then. A call that
// was accepted is trained: giveUp waits for its step, so that no later coordinator can forget it. Another call is refused if it comes later.
func (f *feeds) giveUp(ctx context.Context, run *rpc.StepRun) (steps uint64, err error) {
	err = f.await(ctx, waitFor("the user", "the first generation"), func() (bool, error) { return f.generation.Number > 0, nil })
	if err != nil {
		return 0, err
	}
	f.locked(func() { f.givenUp = run.Call; f.hears(run.Step) })
	pending := func(it *item) bool { return !it.reads && it.number <= run.Step }
	err = f.await(ctx, waitFor("the user", fmt.Sprintf("step %d", run.Step)), func() (bool, error) { return !slices.ContainsFunc(f.items, pending), nil })
	f.locked(func() { steps = f.accepted })
	return steps, err
}

// hears takes the user's word for the number of steps before the next one, where nobody else knows it: a coordinator of an async job that follows
// another one. The monitor is held.
func (f *feeds) hears(number uint64) {
	if !f.given && f.resumes && !f.cfg.Sync && number > f.accepted {
		f.accepted = number
		f.steps.goOn(id.Round(f.first + number))
	}
}

// accept enters an item, or finds the one that the same call has entered before. The monitor is held.
func (f *feeds) accept(number, call uint64, b *batch) (*item, error) {
	f.hears(number)
	switch {
	case call != 0 && call == f.givenUp:
		return nil, fault.E(fault.Canceled, fault.At("coordinator"), fault.Gotf("step %d of a call that was given up", number))
	case number > f.accepted && !f.given:
		return nil, fault.E(fault.LostMember, fault.At("coordinator"), fault.Gotf("step %d of a session of which %d are trained", number, f.accepted),
			fault.Wantf("the %d steps whose updates were lost with their parameters", number-f.accepted), fault.Hint("begin the session again"))
	case number > f.accepted:
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("step %d", number), fault.Wantf("step %d", f.accepted))
	case number < f.accepted:
		return f.repeated(number, call, b)
	case f.finished:
		return nil, fault.New(fault.InvalidArgument, "the session has been closed")
	}
	it := &item{number: number, reads: b.reads(), batch: b, call: call}
	f.given = true
	if !b.reads() {
		f.accepted++
	}
	f.items = append(f.items, it)
	f.handOut(it)
	f.monitor.Broadcast()
	return it, nil
}

// repeated finds a training step that the same call has given before. A call never has the step of another one as its answer. The monitor is held.
func (f *feeds) repeated(number, call uint64, b *batch) (*item, error) {
	trains := func(it *item) bool { return it.number == number && !it.reads }
	same := func(it *item) bool { return trains(it) && !b.reads() && (it.call == call || it.batch == nil) }
	if i := slices.IndexFunc(f.items, same); i >= 0 {
		return f.items[i], nil
	}
	switch {
	case b.reads():
	case f.last != nil && same(f.last):
		return f.last, nil
	case f.last == nil && number+1 == f.accepted && f.cfg.Sync && !slices.ContainsFunc(f.items, trains): // an earlier coordinator was given it, and it is committed
		it := &item{number: number, batch: b, call: call}
		f.items = slices.Insert(f.items, 0, it)
		return it, nil
	}
	return nil, fault.E(fault.Stale, fault.Gotf("step %d again, or of another call", number), fault.Wantf("step %d", f.accepted))
}

// answer is what the user is told of an item that is done.
func (f *feeds) answer(ctx context.Context, run *rpc.StepRun, it *item) (*job.Step, error) {
	step := it.done
	unknown := func(got string) error {
		return fault.E(fault.Duplicate, fault.At("coordinator"), fault.Got(got), fault.Wantf("what step %d fetched", step.Step),
			fault.Hint("the step is trained: go on with the next one"))
	}
	switch {
	case len(run.Fetch) == 0 || it.reads:
		return step, nil
	case it.unreported:
		return nil, unknown("a step that is trained, and no trainer that lived to report it")
	case step.Unreported > 0:
		return nil, unknown(fmt.Sprintf("a step that is trained, and reports of %d of its %d rows", step.Rows-step.Unreported, step.Rows))
	}
	missing := without(run.Fetch, step.Fetched)
	var g generation.Generation
	f.locked(func() { g = f.generation })
	if len(missing) == 0 || !f.cfg.Sync || uint64(g.Round) != step.Step+1 {
		return step, nil
	}
	// The generation ended when the trainers had computed the step and not received its results. Nobody trains before this call is answered.
	values := append(slices.Clip(step.Fetched), f.steps.fetchFromServers(ctx, g, missing)...)
	persistable := func(name string) bool {
		v, ok := f.cfg.Program.Global().Var(name)
		return ok && v.Persistable
	}
	if missing = without(run.Fetch, values); len(missing) > 0 && !slices.ContainsFunc(missing, func(name string) bool { return !persistable(name) }) {
		// No server has them as a whole. A trainer has, because it receives all slices when it joins.
		read, err := f.feed(ctx, &rpc.StepRun{Step: run.Step + 1, Fetch: missing})
		if err != nil {
			return nil, err
		}
		values = append(values, read.Fetched...)
		missing = without(run.Fetch, values)
	}
	if len(missing) > 0 {
		return nil, unknown(fmt.Sprintf("a step that is trained, and no value of %v", missing))
	}
	return &job.Step{Step: step.Step, Pass: step.Pass, Rows: step.Rows, Trainers: step.Trainers, Fetched: values}, nil
}

// begun hands out what is not committed to the members of a generation that begins. The monitor is held.
func (f *feeds) begun(g generation.Generation) {
	if f.generation.Number == 0 && f.cfg.Sync {
		f.accepted = uint64(g.Round) - f.first
	}
	f.generation = g
	lists := map[id.Rank]*list{}
	for _, member := range g.Members {
		rank, since := member.Rank, member.Since
		if old := f.lists[rank]; old != nil && old.since == since && !f.cfg.Sync {
			lists[rank] = old
		} else {
			lists[rank] = &list{since: since}
		}
	}
	kept := f.lists
	f.lists = lists
	for _, it := range f.items {
		switch {
		case f.cfg.Sync && !it.reads && f.first+it.number < uint64(g.Round): // committed: its reports come
		case !f.cfg.Sync && lists[it.owner] != nil && lists[it.owner] == kept[it.owner]: // its owner has it
		default:
			f.handOut(it)
		}
	}
	if f.cfg.Sync {
		f.steps.reopen(g.Round)
	}
}

// handOut gives an item to those members who do it. The monitor is held.
func (f *feeds) handOut(it *item) {
	members := f.generation.Members
	if f.cfg.Sync && !it.reads {
		for _, l := range f.lists {
			l.items = append(l.items, it)
		}
		return
	}
	position := 0
	if !it.reads {
		position = int(it.number % uint64(len(members)))
	}
	it.owner = members[position].Rank
	f.lists[it.owner].items = append(f.lists[it.owner].items, it)
}

// next waits for a trainer's share of an item. A request for it says that the trainer has done those before.
func (f *feeds) next(ctx context.Context, m *rpc.NextFeedRequest) (*rpc.FeedShare, error) {
	rank := id.Rank(m.Id.Rank)
	var it *item
	var position, of int
	err := f.await(ctx, waitFor(trainerName(m.Id.Rank), "the user's next feed"), func() (ok bool, err error) {
		if f.ended {
			return false, nil
		}
		if err := f.members.isMember(m.Id); err != nil {
			return false, err
		}
		l := f.lists[rank]
		if l == nil { // async: this coordinator has not begun a generation yet
			return false, nil
		}
		if !l.asked {
			f.asks(l, m.Item)
		}
		it, err = l.at(m.Item, trainerName(m.Id.Rank))
		position, of = f.generation.Position(rank), len(f.generation.Members)
		return it != nil || f.finished && len(f.items) == 0, err
	})
	switch {
	case err != nil:
		return nil, err
	case it == nil:
		return &rpc.FeedShare{End: true}, nil
	case !f.cfg.Sync:
		position, of = 0, 1
	}
	share, err := it.batch.share(position, of)
	if err == nil {
		share.Step = f.first + it.number
	}
	return share, err
}

// asks notes that a member asks for an item of this generation. It has reported all that it did before; when all members have, steps of earlier
// generations can have no more reports. The monitor is held.
func (f *feeds) asks(l *list, number uint64) {
	l.asked = true
	if !f.cfg.Sync {
		if f.resumes { // an earlier coordinator has counted; what the trainer had of it may be reported by now
			l.first, l.items = number, slices.DeleteFunc(l.items, func(it *item) bool { return it.done != nil })
		}
		return
	}
	for _, other := range f.lists {
		if !other.asked {
			return
		}
	}
	f.steps.close(f.generation.Round)
}

// at returns an item by its number, nil when it is not there yet, and forgets those before.
func (l *list) at(number uint64, who string) (*item, error) {
	end := l.first + uint64(len(l.items))
	switch {
	case number < l.first:
		return nil, fault.E(fault.Stale, fault.Gotf("a request for item %d of %s", number, who), fault.Wantf("item %d or later", l.first))
	case number > end:
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("a request for item %d of %s", number, who), fault.Wantf("at most %d", end))
	}
	l.items, l.first = slices.Delete(l.items, 0, int(number-l.first)), number
	if number < end {
		return l.items[0], nil
	}
	return nil, nil
}

// readReported takes the report of an item that reads. One that is repeated, or comes from a generation that has ended, says the same as every other one
// for this item: nothing is trained between items. The monitor is held.
func (f *feeds) readReported(m *rpc.TrainerStep) {
	for _, it := range f.items {
		if !it.reads || f.first+it.number != m.Id.Round || len(without(it.batch.fetch, m.Fetched)) > 0 {
			continue
		}
		f.doneWith(it, &job.Step{Step: m.Id.Round, Trainers: 1, Fetched: m.Fetched})
		return
	}
}

// trained takes a step that was written. The monitor is held.
func (f *feeds) trained(j *joined) {
	if !f.cfg.Fed || j.step.Step < f.first {
		return
	}
	number := j.step.Step - f.first
	i := slices.IndexFunc(f.items, func(it *item) bool { return it.number == number && !it.reads })
	it := &item{number: number}
	if i >= 0 {
		it = f.items[i]
	}
	it.unreported = len(j.from) == 0
	f.last = it
	f.doneWith(it, j.step)
}

// doneWith answers an item. The monitor is held.
func (f *feeds) doneWith(it *item, step *job.Step) {
	it.done = step
	f.items = slices.DeleteFunc(f.items, func(other *item) bool { return other == it })
	f.monitor.Broadcast()
}
