package queue_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
)

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
func rangesOf(text string) (out []*rpc.RecordRange) {
	for _, part := range strings.Split(text, ",") {
		r := &rpc.RecordRange{}
		if n, _ := fmt.Sscanf(part, "%d-%d", &r.From, &r.To); n == 2 {
			out = append(out, r)
		}
	}
	return out
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
