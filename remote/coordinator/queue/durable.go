package queue

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
)

// The keys of entries, below that of the dataset.
const (
	headKey       = "head"
	filePrefix    = "file/"
	taskPrefix    = "task/"
	rankPrefix    = "rank/"
	segmentPrefix = "segment/"
)

// put enters a change; nil deletes the entry.
func (s *step) put(key string, m proto.Message) {
	c := Change{Key: key}
	if m != nil {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			panic("queue: " + err.Error()) // only for a string that is not UTF-8, and none is let in
		}
		c.Value = b
	}
	s.effects.Changes = append(s.effects.Changes, c)
}

func numbered(prefix string, n int64) string { return prefix + strconv.FormatInt(n, 10) }

func (s *step) putHead() {
	s.put(headKey, &state.Head{Sync: s.policy.Sync, Pass: s.pass, Given: s.given, Done: s.done, Files: int64(s.files), Following: s.following,
		Closed: s.closed, Ended: s.ended, AverageNs: int64(s.average), Returns: s.returns, Retried: s.retried, Regroup: s.regroup, Segments: s.opened})
}

func (s *step) putFile(i int, f *rpc.DataFile, size int64) {
	s.put(numbered(filePrefix, int64(i)), &state.File{File: f, TaskRecords: size})
}

// putTask sets the entry of a task, or deletes it.
func (s *step) putTask(id int64, entry *state.Task) {
	if entry == nil {
		s.put(numbered(taskPrefix, id), nil)
		return
	}
	s.put(numbered(taskPrefix, id), entry)
}

func (w *work) entry(place state.Task_Place) *state.Task {
	return &state.Task{Place: place, Pass: w.pass, Epoch: w.epoch, Failures: w.failures, Reason: w.reason, Runs: w.left.Runs(), Returned: w.returned}
}

func (p *pending) entry() *state.Task {
	t := p.work.entry(state.Task_PENDING)
	t.Rank, t.Incarnation, t.DispatchedMs, t.DeadlineMs, t.Grace = uint32(p.rank), p.incarnation, p.dispatched, p.deadline, p.grace
	return t
}

// putRank remembers a trainer.
func (s *step) putRank(n int, r *rank) {
	s.ranks = s.ranks.put(key{int64(n)}, r)
	m := &state.Rank{Incarnation: r.incarnation, Gone: r.gone, Request: r.request}
	if r.granted.epoch > 0 {
		m.Granted = r.granted.entry()
	}
	for _, d := range r.finished {
		m.Finished = append(m.Finished, d.entry())
	}
	s.put(numbered(rankPrefix, int64(n)), m)
}

func (d dispatch) entry() *state.Dispatch {
	return &state.Dispatch{Pass: d.pass, Task: d.task, Epoch: d.epoch}
}

func (s *step) putSegment(g segment) {
	s.put(numbered(segmentPrefix, g.number), &state.Segment{Pass: g.pass, FirstRound: g.firstRound, Skip: g.skip.Runs()})
}

// forgetLater deletes an entry that counts until the head is written.
func (s *step) forgetLater(prefix string, n int64) {
	s.late = append(s.late, Change{Key: numbered(prefix, n)})
}

// Describe says what a durable entry of a dataset holds, for people.
func Describe(key string, value []byte) (string, error) {
	m, err := decode(key, value)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(m), nil
}

// decode reads one entry, within limits.
func decode(key string, value []byte) (proto.Message, error) {
	if len(value) > maxEntry {
		return nil, fault.E(fault.TooLarge, fault.At("entry "+fault.Quote(key)), fault.Gotf("%d bytes", len(value)),
			fault.Wantf("at most %d", maxEntry))
	}
	var m proto.Message
	switch prefix, _ := split(key); prefix {
	case headKey:
		m = &state.Head{}
	case filePrefix:
		m = &state.File{}
	case taskPrefix:
		m = &state.Task{}
	case rankPrefix:
		m = &state.Rank{}
	case segmentPrefix:
		m = &state.Segment{}
	default:
		return nil, corrupt(key, "no entry of a task queue")
	}
	if err := proto.Unmarshal(value, m); err != nil {
		return nil, corrupt(key, fmt.Sprintf("%d bytes that do not decode", len(value)))
	}
	return m, nil
}

// split parts a key into what it is and its number; the prefix is empty when it is no key of an entry.
func split(key string) (prefix string, number int64) {
	if key == headKey {
		return headKey, 0
	}
	i := strings.IndexByte(key, '/') + 1
	n, err := strconv.ParseInt(key[i:], 10, 64)
	if err != nil || n < 0 || numbered(key[:i], n) != key {
		return "", 0
	}
	return key[:i], n
}

func corrupt(key, what string) error {
	return fault.E(fault.Corrupt, fault.At("entry "+fault.Quote(key)), fault.Got(what))
}

// Restore makes a queue of its entries, whose keys are those of its changes. It returns nil without an error where there is no dataset: New was never
// made durable.
//
// A task whose deadline has passed, so that nobody can say whether its trainer was late or could not report, is given MinTimeout from now on, once. A
// deadline further away than a task may take, by a clock that was set back, is moved to MaxTimeout from now on. The effects are what has
// to be made durable of that.
func Restore(p Policy, name string, entries map[string][]byte, now time.Duration) (*Queue, Effects, error) {
	r := &restore{step: step{Queue: Queue{policy: p, name: name}, now: p.Epoch.UnixMilli() + now.Milliseconds()}, numbered: map[string][]entry{}}
	if _, ok := entries[headKey]; !ok {
		return nil, Effects{}, nil
	}
	for k, v := range entries {
		m, err := decode(k, v)
		if err != nil {
			return nil, Effects{}, r.in(err)
		}
		prefix, n := split(k)
		r.numbered[prefix] = append(r.numbered[prefix], entry{k, n, m})
	}
	for _, e := range r.numbered {
		slices.SortFunc(e, func(a, b entry) int { return int(min(1, max(-1, a.number-b.number))) })
	}
	for _, read := range []func() error{r.readHead, r.readFiles, r.readTasks, r.readRanks, r.readSegments} {
		if err := read(); err != nil {
			return nil, Effects{}, r.in(err)
		}
	}
	r.settle() // where the head of the last event is missing
	if r.head != r.durable {
		r.putHead()
	}
	return &r.Queue, r.effects, nil
}

type restore struct {
	step
	durable  head
	numbered map[string][]entry // by prefix, in order
}

type entry struct {
	key    string
	number int64
	value  proto.Message
}

// in names the dataset.
func (r *restore) in(err error) error {
	return fault.Wrap(fault.KindOf(err), "dataset "+fault.Quote(r.name), err)
}

func (r *restore) readHead() error {
	h := r.numbered[headKey][0].value.(*state.Head)
	if h.Sync != r.policy.Sync {
		return fault.E(fault.InvalidArgument, fault.At("entry head"), fault.Gotf("a queue in sync mode: %v", h.Sync),
			fault.Want(fmt.Sprint(r.policy.Sync)))
	}
	if h.Pass < 0 || h.Given < 0 || h.Done < 0 || h.Files < 0 || h.AverageNs < 0 || h.Returns < 0 || h.Retried < 0 || h.Segments < 0 {
		return corrupt(headKey, "a number below 0")
	}
	r.head = head{pass: h.Pass, given: h.Given, done: h.Done, following: h.Following, closed: h.Closed, ended: h.Ended,
		average: time.Duration(h.AverageNs), returns: h.Returns, retried: h.Retried, regroup: h.Regroup, opened: h.Segments}
	r.files = int(min(h.Files, maxFiles+1))
	r.durable = r.head
	return nil
}

// readFiles lists the files that count, and cuts the tasks.
func (r *restore) readFiles() error {
	entries := r.numbered[filePrefix]
	for i := 0; i < r.files; {
		var files []*rpc.DataFile
		size, first := int64(0), i
		for ; i < r.files; i++ {
			if i >= len(entries) || entries[i].number != int64(i) {
				return corrupt(numbered(filePrefix, int64(i)), "nothing")
			}
			f := entries[i].value.(*state.File)
			if f.TaskRecords > 0 && i > first {
				break // a task begins here
			}
			if f.TaskRecords < 0 {
				return corrupt(entries[i].key, fmt.Sprintf("tasks of %d records", f.TaskRecords))
			}
			size = max(size, f.TaskRecords)
			files = append(files, f.File)
		}
		before := r.cut.records
		if _, err := r.cut.add(Policy{RecordsPerTask: size}, files); err != nil {
			return fault.Wrap(fault.Corrupt, "entry "+fault.Quote(entries[first].key), err)
		}
		if size == 0 && r.cut.records > before {
			return corrupt(entries[first].key, "records in no task")
		}
	}
	if r.given > r.cut.tasks || r.done > r.given {
		return corrupt(headKey, fmt.Sprintf("%d tasks given and %d done of %d", r.given, r.done, r.cut.tasks))
	}
	return nil
}

// readTasks puts every task that has an entry into its place.
func (r *restore) readTasks() error {
	for _, e := range r.numbered[taskPrefix] {
		t := e.value.(*state.Task)
		if e.number >= r.cut.tasks {
			return corrupt(e.key, fmt.Sprintf("a task beyond %d", r.cut.tasks))
		}
		if t.Failures > math.MaxInt32 || t.Epoch > math.MaxInt32 || t.Pass < 0 || t.Pass > r.pass || len(t.Reason) > maxReason ||
			t.Returned < 0 || len(t.Runs) > 2*maxRuns {
			return corrupt(e.key, "a number out of range")
		}
		whole := r.cut.task(e.number)
		left, ok := ranges.OfRuns(t.Runs, whole.To)
		if !ok || len(left) > 0 && left[0].From < whole.From {
			return corrupt(e.key, "records that are not of the task")
		}
		w := work{id: e.number, pass: t.Pass, epoch: t.Epoch, failures: t.Failures, reason: t.Reason, returned: t.Returned}
		if len(left) > 0 {
			w.left = left
		}
		if err := r.place(e.key, w, t); err != nil {
			return err
		}
	}
	return nil
}

func (r *restore) place(name string, w work, t *state.Task) error {
	async := t.Place == state.Task_PENDING || t.Place == state.Task_RETURNED
	switch {
	case async && (r.policy.Sync || w.epoch == 0):
		return corrupt(name, "a task that was never given")
	case async && w.id >= r.given: // its trainer has never heard of it, as the head did not follow
		r.putTask(w.id, nil)
		return nil
	}
	switch t.Place {
	case state.Task_PENDING:
		if t.Rank >= maxRank || t.DispatchedMs < 0 {
			return corrupt(name, fmt.Sprintf("trainer %d since %d", t.Rank, t.DispatchedMs))
		}
		r.revive(&pending{work: w, rank: int(t.Rank), incarnation: t.Incarnation, dispatched: t.DispatchedMs, deadline: t.DeadlineMs, grace: t.Grace})
	case state.Task_RETURNED:
		if _, twice := r.returned.get(key{w.returned}); twice || w.returned == math.MaxInt64 {
			return corrupt(name, fmt.Sprintf("return %d", w.returned))
		}
		r.returns = max(r.returns, w.returned+1)
		r.returned = r.returned.put(key{w.returned}, &w)
	case state.Task_DISCARDED:
		r.discarded = r.discarded.put(key{w.id}, &w)
	case state.Task_FAILED:
		if !r.policy.Sync {
			return corrupt(name, "a failure of sync mode")
		}
		if w.pass != r.pass {
			r.putTask(w.id, nil) // forgotten
			return nil
		}
		r.failed = r.failed.put(key{w.id}, &w)
	default:
		return corrupt(name, fmt.Sprintf("place %d", t.Place))
	}
	return nil
}

// revive enters a pending task with what is left of its time.
func (r *restore) revive(p *pending) {
	p.dispatched = min(p.dispatched, r.now)
	before, now := *p, r.now
	switch latest := now + r.policy.MaxTimeout.Milliseconds(); {
	case p.deadline <= now && !p.grace:
		p.deadline, p.grace = now+r.policy.MinTimeout.Milliseconds(), true
	case p.deadline > latest:
		p.deadline = latest
	}
	changes := r.effects.Changes
	r.hold(p)
	if p.deadline == before.deadline {
		r.effects.Changes = changes
	}
}

// readRanks remembers the trainers.
func (r *restore) readRanks() error {
	for _, e := range r.numbered[rankPrefix] {
		t := e.value.(*state.Rank)
		if e.number >= maxRank || len(t.Finished) > rememberedTasks {
			return corrupt(e.key, "a trainer out of range")
		}
		n := &rank{incarnation: t.Incarnation, gone: t.Gone, request: t.Request}
		if d := t.Granted; d != nil {
			n.granted = dispatch{d.Pass, d.Task, d.Epoch}
		}
		for _, d := range t.Finished {
			n.finished = append(n.finished, dispatch{d.GetPass(), d.GetTask(), d.GetEpoch()})
		}
		r.ranks = r.ranks.put(key{e.number}, n)
	}
	return nil
}

// readSegments lists the last two segments of a sync queue, the last of which is of the current pass. Others were to be forgotten, or no head
// followed.
func (r *restore) readSegments() error {
	entries := r.numbered[segmentPrefix]
	for i, e := range entries {
		if e.number >= r.opened || i+2 < len(entries) && entries[i+2].number < r.opened {
			r.put(e.key, nil)
			continue
		}
		g := e.value.(*state.Segment)
		skip, ok := ranges.OfRuns(g.Skip, r.cut.records)
		n := len(r.segments)
		if !ok || len(skip) > maxRuns || g.Pass < 0 || g.Pass > r.pass ||
			n > 0 && (g.FirstRound < r.segments[n-1].firstRound || g.Pass < r.segments[n-1].pass) {
			return corrupt(e.key, fmt.Sprintf("a segment of pass %d from round %d on", g.Pass, g.FirstRound))
		}
		r.segments = append(r.segments, segment{number: e.number, pass: g.Pass, firstRound: g.FirstRound, skip: skip})
	}
	if n := len(r.segments); r.policy.Sync && (n == 0 || r.segments[n-1].pass != r.pass) || !r.policy.Sync && n > 0 {
		return corrupt(headKey, fmt.Sprintf("pass %d among %d segments", r.pass, n))
	}
	return nil
}
