package queue

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
)

// Tasks follow each other over all records, whatever files they come in, and each record is found in its task.
func TestCutProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{RecordsPerTask: rapid.Int64Range(0, 5).Draw(t, "size"), Trainers: rapid.IntRange(0, 2).Draw(t, "trainers")}
		var c cut
		for range rapid.IntRange(1, 4).Draw(t, "times") {
			var files []*rpc.DataFile
			at := c.records
			for range rapid.IntRange(0, 4).Draw(t, "files") {
				n := rapid.Int64Range(0, 9).Draw(t, "records")
				files = append(files, &rpc.DataFile{Path: "f", FirstRecord: at, Records: n})
				at += n
			}
			tasks := c.tasks
			if _, err := c.add(p, files); err != nil {
				t.Fatal(err)
			}
			if c.tasks > tasks && c.task(tasks).From+int64(0) > at {
				t.Fatalf("task %d begins at %d", tasks, c.task(tasks).From)
			}
		}
		at := int64(0)
		for id := range c.tasks {
			records := c.task(id)
			if records.From != at || records.To <= at || p.RecordsPerTask > 0 && records.To-at > p.RecordsPerTask || c.start(id) != at {
				t.Fatalf("task %d of %d: %v after %d", id, c.tasks, records, at)
			}
			held := int64(0)
			for _, f := range c.holding(ranges.Set{records}) {
				held += min(f.FirstRecord+f.Records, records.To) - max(f.FirstRecord, records.From)
			}
			if held != records.To-records.From {
				t.Fatalf("the files of task %d hold %d of %v", id, held, records)
			}
			for ; at < records.To; at++ {
				if c.at(at) != id {
					t.Fatalf("record %d is in task %d, want %d", at, c.at(at), id)
				}
			}
		}
		if at != c.records || c.start(c.tasks) != at {
			t.Fatalf("%d of %d records", at, c.records)
		}
	})
}
