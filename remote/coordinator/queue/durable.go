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
	"github.com/edl-go/edl/remote/id"
)

// The keys of entries, below that of the dataset.
const (
	headKey       = HeadKey
	filePrefix    = "file/"
	taskPrefix    = "task/"
	trainerPrefix = "rank/"
	segmentPrefix = "segment/"
)

// HeadKey is the key of the entry with the counters of a queue.
const HeadKey = "head"

// changes are the entries that a step sets and deletes.
type changes struct {
	made []Change
	late []Change // deletions of what is not needed any more once the head is written
}

// all returns the changes in the order in which they become durable.
func (c *changes) all() []Change { return append(c.made, c.late...) }

// put enters a change; nil deletes the entry.
func (c *changes) put(key string, m proto.Message) {
	change := Change{Key: key}
	if m != nil {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			panic("queue: " + err.Error()) // only for a string that is not UTF-8, and the queue takes none
		}
		change.Value = b
	}
	c.made = append(c.made, change)
}

func numbered(prefix string, n int64) string { return prefix + strconv.FormatInt(n, 10) }

func (s *step) putHead() {
	s.put(headKey, &state.Head{Sync: s.policy.Sync, Pass: s.pass, Given: s.given, Done: s.done, Files: int64(s.files), Following: s.following,
		Closed: s.closed, Ended: s.ended, AverageNs: int64(s.average), Returns: s.returns, Retried: s.retried, Regroup: s.regroup, Segments: s.opened,
		Stopped: s.stopped, EndRound: uint64(s.endRound)})
}

func (c *changes) putFile(i int, f *rpc.DataFile, size int64) {
	c.put(numbered(filePrefix, int64(i)), &state.File{File: f, TaskRecords: size})
}

// putTask sets the entry of a task, or deletes it.
func (c *changes) putTask(number int64, entry *state.Task) {
	if entry == nil {
		c.put(numbered(taskPrefix, number), nil)
		return
	}
	c.put(numbered(taskPrefix, number), entry)
}

func (t *task) entry(place state.Task_Place) *state.Task {
	return &state.Task{Place: place, Pass: t.pass, Epoch: t.epoch, Failures: t.failures, Reason: t.reason, Runs: t.left.Runs(), Returned: t.returned}
}

func (p *pending) entry() *state.Task {
	m := p.task.entry(state.Task_PENDING)
	m.Rank, m.Incarnation, m.DispatchedMs, m.DeadlineMs, m.Grace = uint32(p.rank), uint64(p.since), p.dispatched, p.deadline, p.grace
	return m
}

// putTrainer remembers a trainer.
func (s *step) putTrainer(rank id.Rank, t *trainer) {
	s.trainers = s.trainers.put(key{int64(rank)}, t)
	m := &state.Rank{Incarnation: uint64(t.since), Gone: t.gone, Request: t.request}
	if t.granted.epoch > 0 {
		m.Granted = t.granted.entry()
	}
	for _, d := range t.finished {
		m.Finished = append(m.Finished, d.entry())
	}
	s.put(numbered(trainerPrefix, int64(rank)), m)
}

func (d dispatch) entry() *state.Dispatch {
	return &state.Dispatch{Pass: d.pass, Task: d.task, Epoch: d.epoch}
}

func (c *changes) putSegment(g segment) {
	c.put(numbered(segmentPrefix, g.number), &state.Segment{Pass: g.pass, FirstRound: uint64(g.firstRound), Skip: g.skip.Runs(), FirstBatch: g.firstBatch})
}

// deleteLater deletes an entry that counts until the head is written.
func (c *changes) deleteLater(prefix string, n int64) {
	c.late = append(c.late, Change{Key: numbered(prefix, n)})
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
	case trainerPrefix:
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

// split parts a key into its prefix and its number; the prefix is empty when the key is not one of an entry.
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
// When the deadline of a task has passed, nobody can say whether its trainer was late or had no coordinator to report to. The task then has MinTimeout
// from now on, once. A deadline further away than a task may take comes from a clock that was set back; it becomes MaxTimeout from now on. The effects
// are what has to be made durable of that.
func Restore(p Policy, name string, entries map[string][]byte, now time.Duration) (*Queue, Effects, error) {
	r := &restore{step: step{Queue: Queue{policy: p, name: name}, now: p.Epoch.UnixMilli() + now.Milliseconds()}, numbered: map[string][]entry{}}
	if _, ok := entries[headKey]; !ok {
		return nil, Effects{}, nil
	}
	for k, v := range entries {
		m, err := decode(k, v)
		if err != nil {
			return nil, Effects{}, inDataset(name, err)
		}
		prefix, n := split(k)
		r.numbered[prefix] = append(r.numbered[prefix], entry{k, n, m})
	}
	for _, e := range r.numbered {
		slices.SortFunc(e, func(a, b entry) int { return int(min(1, max(-1, a.number-b.number))) })
	}
	for _, read := range []func() error{r.readHead, r.readFiles, r.readStart, r.readTasks, r.readTrainers, r.readSegments} {
		if err := read(); err != nil {
			return nil, Effects{}, inDataset(name, err)
		}
	}
	p.mode().settle(&r.step) // the head of the last event may be missing
	if r.counters != r.durable {
		r.putHead()
	}
	return &r.Queue, Effects{Changes: r.all(), Notes: r.effects.Notes}, nil
}

type restore struct {
	step
	durable  counters
	numbered map[string][]entry // by prefix, in order
}

type entry struct {
	key    string
	number int64
	value  proto.Message
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
	r.counters = counters{pass: h.Pass, given: h.Given, done: h.Done, following: h.Following, closed: h.Closed, ended: h.Ended,
		average: time.Duration(h.AverageNs), returns: h.Returns, retried: h.Retried, regroup: h.Regroup, opened: h.Segments,
		stopped: h.Stopped, endRound: id.Round(h.EndRound)}
	r.files = int(min(h.Files, maxFiles+1))
	r.durable = r.counters
	return nil
}

// readFiles lists the files that count, and divides them into tasks.
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
				break // a group begins here
			}
			if f.TaskRecords < 0 {
				return corrupt(entries[i].key, fmt.Sprintf("tasks of %d records", f.TaskRecords))
			}
			size = max(size, f.TaskRecords)
			files = append(files, f.File)
		}
		before := r.layout.records
		if _, err := r.layout.add(Policy{RecordsPerTask: size}, files); err != nil {
			return fault.Wrap(fault.Corrupt, "entry "+fault.Quote(entries[first].key), err)
		}
		if size == 0 && r.layout.records > before {
			return corrupt(entries[first].key, "records in no task")
		}
	}
	if r.given > r.layout.tasks || r.done > r.given {
		return corrupt(headKey, fmt.Sprintf("%d tasks given and %d done of %d", r.given, r.done, r.layout.tasks))
	}
	return nil
}

// readStart finds out where the job began, as New did, and checks the pass.
func (r *restore) readStart() error {
	r.policy = r.policy.within(r.layout.records, r.following)
	if err := r.policy.check(); err != nil {
		return err
	}
	if first, last := r.policy.Start.Pass, r.policy.lastPass(); r.pass < first || r.pass > last {
		return corrupt(headKey, fmt.Sprintf("pass %d of a job of the passes %d to %d", r.pass, first, last))
	}
	return nil
}

// readTasks puts every task that has an entry into its place.
func (r *restore) readTasks() error {
	for _, e := range r.numbered[taskPrefix] {
		m := e.value.(*state.Task)
		if e.number >= r.layout.tasks {
			return corrupt(e.key, fmt.Sprintf("a task beyond %d", r.layout.tasks))
		}
		if m.Failures > math.MaxInt32 || m.Epoch > math.MaxInt32 || m.Pass < 0 || m.Pass > r.pass || len(m.Reason) > maxReason ||
			m.Returned < 0 || len(m.Runs) > 2*maxRuns {
			return corrupt(e.key, "a number out of range")
		}
		whole := r.layout.recordsOf(e.number)
		left, ok := ranges.OfRuns(m.Runs, whole.To)
		if !ok || len(left) > 0 && left[0].From < whole.From {
			return corrupt(e.key, "records that are not of the task")
		}
		t := task{id: e.number, pass: m.Pass, epoch: m.Epoch, failures: m.Failures, reason: m.Reason, returned: m.Returned}
		if len(left) > 0 {
			t.left = left
		}
		if err := r.place(e.key, t, m); err != nil {
			return err
		}
	}
	return nil
}

func (r *restore) place(name string, t task, m *state.Task) error {
	async := m.Place == state.Task_PENDING || m.Place == state.Task_RETURNED
	switch {
	case async && (r.policy.Sync || t.epoch == 0):
		return corrupt(name, "a task that was never given")
	case async && t.id >= r.given: // the head did not follow, so no trainer has heard of it
		r.putTask(t.id, nil)
		return nil
	}
	switch m.Place {
	case state.Task_PENDING:
		if m.Rank >= maxRank || m.DispatchedMs < 0 {
			return corrupt(name, fmt.Sprintf("trainer %d since %d", m.Rank, m.DispatchedMs))
		}
		r.revive(&pending{task: t, rank: id.Rank(m.Rank), since: id.Generation(m.Incarnation), dispatched: m.DispatchedMs, deadline: m.DeadlineMs,
			grace: m.Grace})
	case state.Task_RETURNED:
		if _, twice := r.returned.get(key{t.returned}); twice || t.returned == math.MaxInt64 {
			return corrupt(name, fmt.Sprintf("return %d", t.returned))
		}
		r.returns = max(r.returns, t.returned+1)
		r.returned = r.returned.put(key{t.returned}, &t)
	case state.Task_DISCARDED:
		r.discarded = r.discarded.put(key{t.id}, &t)
	case state.Task_FAILED:
		if !r.policy.Sync {
			return corrupt(name, "a failure of sync mode")
		}
		if t.pass != r.pass {
			r.putTask(t.id, nil) // the failures of that pass are forgotten
			return nil
		}
		r.failed = r.failed.put(key{t.id}, &t)
	default:
		return corrupt(name, fmt.Sprintf("place %d", m.Place))
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
	made := r.made
	r.assign(p)
	if p.deadline == before.deadline {
		r.made = made
	}
}

// readTrainers remembers the trainers.
func (r *restore) readTrainers() error {
	for _, e := range r.numbered[trainerPrefix] {
		m := e.value.(*state.Rank)
		if e.number >= maxRank || len(m.Finished) > rememberedTasks {
			return corrupt(e.key, "a trainer out of range")
		}
		t := &trainer{since: id.Generation(m.Incarnation), gone: m.Gone, request: m.Request}
		if d := m.Granted; d != nil {
			t.granted = dispatch{d.Pass, d.Task, d.Epoch}
		}
		for _, d := range m.Finished {
			t.finished = append(t.finished, dispatch{d.GetPass(), d.GetTask(), d.GetEpoch()})
		}
		r.trainers = r.trainers.put(key{e.number}, t)
	}
	return nil
}

// readSegments lists the last two segments of a sync queue, the last of which is of the current pass. Older ones are left over from a crash; newer ones
// have no head that counts them.
func (r *restore) readSegments() error {
	entries := r.numbered[segmentPrefix]
	for i, e := range entries {
		if e.number >= r.opened || i+2 < len(entries) && entries[i+2].number < r.opened {
			r.put(e.key, nil)
			continue
		}
		m := e.value.(*state.Segment)
		skip, ok := ranges.OfRuns(m.Skip, r.layout.records)
		n := len(r.segments)
		if !ok || len(skip) > maxRuns || m.Pass < 0 || m.Pass > r.pass || m.FirstBatch > math.MaxInt64 ||
			n > 0 && (id.Round(m.FirstRound) < r.segments[n-1].firstRound || m.Pass < r.segments[n-1].pass) {
			return corrupt(e.key, fmt.Sprintf("a segment of pass %d from round %d on", m.Pass, m.FirstRound))
		}
		r.segments = append(r.segments, segment{number: e.number, pass: m.Pass, firstRound: id.Round(m.FirstRound), firstBatch: m.FirstBatch, skip: skip})
	}
	if n := len(r.segments); r.policy.Sync && (n == 0 || r.segments[n-1].pass != r.pass) || !r.policy.Sync && n > 0 {
		return corrupt(headKey, fmt.Sprintf("pass %d among %d segments", r.pass, n))
	}
	return nil
}
