package queue

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
)

// Tasks follow each other over all records, whatever files they come in, and each record is found in its task.
func TestLayoutProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{RecordsPerTask: rapid.Int64Range(0, 5).Draw(t, "size"), Trainers: rapid.IntRange(0, 2).Draw(t, "trainers")}
		var l layout
		for range rapid.IntRange(1, 4).Draw(t, "times") {
			var files []*rpc.DataFile
			at := l.records
			for range rapid.IntRange(0, 4).Draw(t, "files") {
				n := rapid.Int64Range(0, 9).Draw(t, "records")
				files = append(files, &rpc.DataFile{Path: "f", FirstRecord: at, Records: n})
				at += n
			}
			tasks := l.tasks
			if _, err := l.add(p, files); err != nil {
				t.Fatal(err)
			}
			if l.tasks > tasks && l.recordsOf(tasks).From > at {
				t.Fatalf("task %d begins at %d", tasks, l.recordsOf(tasks).From)
			}
		}
		at := int64(0)
		for id := range l.tasks {
			records := l.recordsOf(id)
			if records.From != at || records.To <= at || p.RecordsPerTask > 0 && records.To-at > p.RecordsPerTask || l.start(id) != at {
				t.Fatalf("task %d of %d: %v after %d", id, l.tasks, records, at)
			}
			held := int64(0)
			for _, f := range l.filesOf(ranges.Set{records}) {
				held += min(f.FirstRecord+f.Records, records.To) - max(f.FirstRecord, records.From)
			}
			if held != records.To-records.From {
				t.Fatalf("the files of task %d hold %d of %v", id, held, records)
			}
			for ; at < records.To; at++ {
				if l.taskOf(at) != id {
					t.Fatalf("record %d is in task %d, want %d", at, l.taskOf(at), id)
				}
			}
		}
		if at != l.records || l.start(l.tasks) != at {
			t.Fatalf("%d of %d records", at, l.records)
		}
	})
}

// A task may be larger than any file, however many records lie before it: it then ends with the files that came together.
func TestTaskLargerThanItsFiles(t *testing.T) {
	p := Policy{Passes: 1, Trainers: 1, RecordsPerTask: math.MaxInt64, MaxFailures: 1}
	q, _, err := New(p, Dataset{Name: "d", Following: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{"first", "second"} {
		if _, err := q.Step(0, FilesAdded{Files: []*rpc.DataFile{{Path: path, Records: 10}}}); err != nil {
			t.Fatal(err)
		}
		got, err := q.Step(0, TaskWanted{Since: 1, Request: uint64(i)})
		if err != nil || got.Grant.Task == nil || len(got.Grant.Task.Records) != 1 {
			t.Fatal(got.Grant, err)
		}
		if r, from := got.Grant.Task.Records[0], int64(10*i); r.From != from || r.To != from+10 {
			t.Errorf("task %d has the records %v", got.Grant.Task.Id, r)
		}
	}
}
