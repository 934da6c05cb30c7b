package queue_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/scripttest"
)

// The scripts tell stories of one dataset. Its tasks have ten records unless a script says otherwise, and its trainers number their requests by
// themselves. What happens is made durable each time, unless a command says commit=fails, and each time it is checked that a coordinator that
// starts then has the same queue.
func TestScripts(t *testing.T) {
	scripttest.RunDir(t, "testdata", func(t *testing.T) func(scripttest.Command) string {
		s := &stage{T: t, store: store{}, requests: map[int]int{}}
		return s.run
	})
}

// stage carries out the commands of a script.
type stage struct {
	*testing.T
	policy   queue.Policy
	queue    *queue.Queue
	store    store
	requests map[int]int // the next one of each rank
	last     queue.Effects
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *stage) run(c scripttest.Command) string {
	now := time.Duration(s.number(c, "now", "0")) * time.Second
	switch c.Name {
	case "new":
		s.policy = queue.Policy{Sync: c.Arg("mode", "async") == "sync", Backup: c.Arg("backup", "no") == "yes", Passes: s.number(c, "passes", "1"),
			RecordsPerTask: int64(s.number(c, "size", "10")), Trainers: s.number(c, "trainers", "2"),
			Start: queue.Position{Pass: int32(s.number(c, "pass", "0")), Batch: uint64(s.number(c, "first", "0"))}, Trained: rangesOf(c.Arg("trained", "")),
			MaxFailures: s.number(c, "failures", "0"), Reading: queue.Reading{Rows: int64(s.number(c, "batch", "0"))}, MinTimeout: 10 * time.Second, MaxTimeout: 100 * time.Second, Epoch: epoch}
		q, effects, err := queue.New(s.policy, queue.Dataset{Name: "d", Files: filesOf(c.Arg("files", ""), true),
			Following: c.Arg("follow", "no") == "yes"})
		if err != nil {
			return showError(err)
		}
		s.queue, s.store, s.last = q, store{}, effects
		s.store.commit(effects.Changes)
		return ""
	case "status":
		return showStatus(s.queue)
	case "changes":
		return s.showChanges()
	case "within":
		trained, ok := queue.Within(s.queue, s.queue.Pass(), rangesOf(c.Arg("committed", "")), false)
		return fmt.Sprintf("pass %d: %q, %t", s.queue.Pass(), trained.Text(), ok)
	case "segment":
		return showSegment(s.queue.Segment(id.Round(s.number(c, "round", "0"))))
	case "next":
		at, e, ok := s.queue.Next()
		if !ok {
			return "no deadline"
		}
		return fmt.Sprintf("at %v: task %d, dispatch %d, pass %d", at, e.Task, e.Epoch, e.Pass)
	case "damage":
		s.store[c.Args[0]] = []byte(strings.Join(c.Args[1:], " "))
		_, _, err := queue.Restore(s.policy, "d", s.store, now)
		return showError(err)
	case "restore":
		q, effects, err := queue.Restore(s.policy, "d", s.store, now)
		if err != nil {
			return showError(err)
		}
		s.queue, s.last = q, effects
		s.store.commit(effects.Changes)
		return fmt.Sprintf("restored, %d changes", len(effects.Changes))
	}
	return s.happen(c, s.event(c), now)
}

// happen does what a server does: a copy takes the step, and takes the place of the queue when its changes are durable.
func (s *stage) happen(c scripttest.Command, e queue.Event, now time.Duration) string {
	copied := s.queue.Clone()
	effects, err := copied.Step(now, e)
	if err != nil {
		return showError(err)
	}
	if c.Arg("commit", "yes") == "fails" {
		return "not durable"
	}
	s.store.commit(effects.Changes)
	s.queue, s.last = copied, effects
	s.same(now)
	return showEffects(effects)
}

// same checks that a coordinator that starts now has the same queue. Deadlines that have passed are another story.
func (s *stage) same(now time.Duration) {
	if at, _, ok := s.queue.Next(); ok && at <= now {
		return
	}
	again, effects, err := queue.Restore(s.policy, "d", s.store, now)
	if err != nil || len(effects.Changes) > 0 {
		s.Fatalf("restored with %v, %v", effects, err)
	}
	if !proto.Equal(again.Status(), s.queue.Status()) || again.Fingerprint() != s.queue.Fingerprint() {
		s.Fatalf("restored as\n%v\n%s\nthe queue is\n%v\n%s", again.Status(), again.Fingerprint(), s.queue.Status(), s.queue.Fingerprint())
	}
}

// showChanges lists the changes of the last event.
func (s *stage) showChanges() string {
	var out []string
	for _, c := range s.last.Changes {
		if c.Value == nil {
			out = append(out, "delete "+c.Key)
			continue
		}
		text, err := queue.Describe(c.Key, c.Value)
		if err != nil {
			s.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s: %s", c.Key, strings.Join(strings.Fields(text), " ")))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func showError(err error) string {
	if err == nil {
		return "no error"
	}
	return fmt.Sprintf("%v: %v", fault.KindOf(err), err)
}

// event makes the event of a command.
func (s *stage) event(c scripttest.Command) queue.Event {
	rank, pass := s.number(c, "rank", "0"), int32(s.number(c, "pass", "0"))
	incarnation := uint64(s.number(c, "incarnation", "1"))
	task := &rpc.Task{Id: int64(s.number(c, "task", "0")), Epoch: uint32(s.number(c, "dispatch", "1")), Pass: pass}
	committed := rangesOf(c.Arg("committed", ""))
	switch c.Name {
	case "get":
		request := s.number(c, "request", strconv.Itoa(s.requests[rank]))
		s.requests[rank] = max(s.requests[rank], request+1)
		return queue.TaskWanted{Rank: id.Rank(rank), Since: id.Generation(incarnation), Request: uint64(request), Pass: pass,
			Position: int64(s.number(c, "position", "0")),
			Records:  int64(s.number(c, "records", "0")), Round: id.Round(s.number(c, "round", "0")), Committed: committed}
	case "owed":
		return queue.RecordsOwed{}
	case "finish":
		return queue.TaskFinished{Rank: id.Rank(rank), Since: id.Generation(incarnation), Task: task}
	case "fail":
		return queue.TaskFailed{Rank: id.Rank(rank), Since: id.Generation(incarnation), Task: task, Reason: c.Arg("reason", "broken"), Committed: committed}
	case "timeout":
		return queue.TaskTimedOut{Pass: pass, Task: task.Id, Epoch: task.Epoch, Committed: committed}
	case "lost", "drain":
		return queue.TrainerLost{Rank: id.Rank(rank), Since: id.Generation(incarnation), Drained: c.Name == "drain", Pass: pass, Committed: committed,
			Reason: c.Arg("reason", c.Name)}
	case "files":
		return queue.FilesAdded{Files: filesOf(c.Arg("files", ""), false)}
	case "end":
		return queue.FilesEnded{}
	case "back":
		to, trained := queue.Position{Round: id.Round(s.number(c, "round", "0")), Pass: pass, Batch: uint64(s.number(c, "batch", "0"))}, rangesOf(c.Arg("trained", ""))
		s.policy.Passes += int(s.policy.Start.Pass - pass) // of the next coordinator
		s.policy.Start, s.policy.Trained = to, trained
		return queue.WentBack{To: to, Trained: trained}
	case "stop":
		return queue.Stopped{End: id.Round(s.number(c, "end", "0"))}
	case "regroup":
		return queue.Regrouped{Round: id.Round(s.number(c, "round", "0")), Pass: pass, Committed: committed}
	}
	s.Fatalf("unknown command %s", c.Name)
	return nil
}

func (s *stage) number(c scripttest.Command, name, otherwise string) int {
	n, err := strconv.Atoi(c.Arg(name, otherwise))
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// store is what a coordinator has made durable.
type store map[string][]byte

func (s store) commit(changes []queue.Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(s, c.Key)
		} else {
			s[c.Key] = c.Value
		}
	}
}

// filesOf makes files of "30,20": of so many records. "b:20" names its path.
func filesOf(text string, first bool) (files []*rpc.DataFile) {
	at := int64(0)
	for i, part := range strings.Split(text, ",") {
		path, records, named := strings.Cut(part, ":")
		if !named {
			path, records = fmt.Sprintf("f%d", i), part
		}
		n, err := strconv.ParseInt(records, 10, 64)
		if err != nil {
			continue
		}
		f := &rpc.DataFile{Path: path, Records: n}
		if first {
			f.FirstRecord = at
		}
		files, at = append(files, f), at+n
	}
	return files
}

// rangesOf reads "0-10,20-25".
func rangesOf(text string) ranges.Set {
	var out []ranges.Range
	for _, part := range strings.Split(text, ",") {
		r := ranges.Range{}
		if n, _ := fmt.Sscanf(part, "%d-%d", &r.From, &r.To); n == 2 {
			out = append(out, r)
		}
	}
	return ranges.Of(out...)
}

func showRanges(ranges []*rpc.RecordRange) string {
	var out []string
	for _, r := range ranges {
		out = append(out, fmt.Sprintf("%d-%d", r.From, r.To))
	}
	return strings.Join(out, ",")
}

func showEffects(e queue.Effects) string {
	var out []string
	g := e.Grant
	switch {
	case g.Task != nil:
		for _, t := range append([]*rpc.Task{g.Task}, g.Next...) {
			text := fmt.Sprintf("task %d, dispatch %d, pass %d, records %s", t.Id, t.Epoch, t.Pass, showRanges(t.Records))
			if t.Within != nil {
				text += " of " + showRanges([]*rpc.RecordRange{t.Within})
			}
			for _, f := range t.Files {
				text += fmt.Sprintf(", %s from %d", f.Path, f.FirstRecord)
			}
			out = append(out, text)
		}
	case g.EndOfData:
		out = append(out, "end of data")
	case g.EndOfPass:
		out = append(out, "end of pass")
	case g.Wait:
		out = append(out, "wait")
	}
	for _, n := range e.Notes {
		text := n.What
		if n.Task >= 0 {
			text = fmt.Sprintf("%s: %d, failures %d, %s", text, n.Task, n.Failures, n.Reason)
		}
		out = append(out, strings.TrimSuffix(text, ", "))
	}
	if e.Regroup {
		out = append(out, "regroup")
	}
	if e.Exhausted {
		out = append(out, "exhausted")
	}
	if len(out) == 0 && len(e.Changes) == 0 {
		return "nothing changes"
	}
	if len(out) == 0 {
		return "ok"
	}
	return strings.Join(out, "\n")
}

func showStatus(q *queue.Queue) string {
	r := q.Status()
	text := fmt.Sprintf("pass %d: todo %d, pending %d, done %d, discarded %d", r.Pass, r.Todo, r.Pending, r.Done, r.Discarded)
	if r.Retried > 0 {
		text += fmt.Sprintf("; %d records again", r.Retried)
	}
	if r.DiscardedRecords > 0 {
		text += fmt.Sprintf("; %d records discarded", r.DiscardedRecords)
	}
	if r.Following {
		text += "; more files may come"
	}
	if q.Regrouping() {
		text += "; regrouping"
	}
	if q.Ended() {
		text += "; ended"
	}
	for _, d := range r.DiscardedTasks {
		text += fmt.Sprintf("\ndiscarded in pass %d: task %d, records %s, failures %d, %s", d.Pass, d.Id, showRanges(d.Records), d.Failures, d.Reason)
	}
	return text
}

func showSegment(g *rpc.Segment) string {
	if g == nil {
		return "unknown"
	}
	text := fmt.Sprintf("pass %d from round %d on", g.Pass, g.FirstRound)
	if len(g.Skip) > 0 {
		text += " without " + showRanges(g.Skip)
	}
	return text
}
