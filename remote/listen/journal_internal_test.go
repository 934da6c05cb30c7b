package listen

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/launch"
)

// A journal gives back what was written of a job, with the last of each part and its events in order, also when the listener was killed while it wrote, and while it
// began a file.
func TestJournal(t *testing.T) {
	d, err := OpenData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	written, err := d.beginRun("a", &state.RunningJob{Job: &state.KeptJob{Spec: &job.JobSpec{Name: "a"}, Run: "a-1"}, Keeper: "k"})
	if err != nil {
		t.Fatal(err)
	}
	number := uint64(0)
	write := func(j *journal, r *state.JobRecord, steps int) {
		t.Helper()
		r.Number, r.Status = number, &job.JobStatus{Job: "a", Steps: number}
		for range steps {
			r.Events = append(r.Events, &job.Event{What: &job.Event_Step{Step: &job.Step{Step: number}}})
			number++
		}
		if err := j.write(r); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (leftRun, *inheritance) {
		t.Helper()
		list, _, err := d.leftRuns()
		if err != nil || len(list) != 1 {
			t.Fatalf("%d jobs are left: %v", len(list), err)
		}
		h, err := list[0].read()
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range h.events {
			if e.GetStep().GetStep() != h.first+uint64(i) {
				t.Fatalf("event %d is of step %d", h.first+uint64(i), e.GetStep().GetStep())
			}
		}
		return list[0], h
	}
	write(written, &state.JobRecord{Begin: &state.JobBegin{Params: "p"}}, 2)
	write(written, &state.JobRecord{Supervision: &state.Supervision{Wanted: 3}, Owed: &state.Owed{Back: &rpc.GoBackResponse{Records: 9}}, Position: &state.Position{Fence: 7}}, 0)
	write(written, &state.JobRecord{Position: &state.Position{Fence: 7, Next: 5}}, 3)
	path := written.path(1)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written.close()

	// Wherever the file is cut off: the entries before are there.
	for _, cut := range []int{len(whole), len(whole) - 1, len(whole) / 2, 20} {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		l, h := func() (leftRun, *inheritance) {
			list, _, _ := d.leftRuns()
			h, err := list[0].read()
			if cut > 100 && err != nil {
				t.Fatal(err)
			}
			return list[0], h
		}()
		l.journal.close()
		if len(h.events) > 5 || cut == len(whole) && len(h.events) != 5 {
			t.Errorf("cut at %d: %d events", cut, len(h.events))
		}
	}
	if err := os.WriteFile(path, append(bytes.Clone(whole), 1, 2, 3), 0o600); err != nil {
		t.Fatal(err)
	}
	l, h := left()
	if got := fmt.Sprintln(h.first, len(h.events), h.Position.GetNext(), h.Supervision.GetWanted(), h.Owed.GetBack().GetRecords(), h.Begin.GetParams(), l.Job.Run, l.Keeper); got != "0 5 5 3 9 p a-1 k\n" {
		t.Errorf("the next listener reads %s", got)
	}

	// The next listener goes on in a file of its own, and what it writes follows. What is done is not owed any more, although nothing was decided since.
	number = 5
	write(l.journal, &state.JobRecord{Position: h.Position, Supervision: &state.Supervision{Wanted: 4}, Owed: h.Owed, Begin: h.Begin}, 0)
	write(l.journal, &state.JobRecord{Position: h.Position, Owed: &state.Owed{}}, 1)
	l.journal.close()
	if l, h = left(); len(h.events) != 6 || h.Supervision.GetWanted() != 4 || h.Owed.Back != nil || l.journal.segment != 2 {
		t.Errorf("%d events, %v, %v, file %d", len(h.events), h.Supervision, h.Owed, l.journal.segment)
	}
	l.journal.close()

	// Listeners that come and go without a record to write change nothing.
	for range 20 {
		l, _ := left()
		l.journal.close()
	}
	if _, h = left(); len(h.events) != 6 {
		t.Errorf("%d events after 20 listeners", len(h.events))
	}
	if files, _ := l.journal.numbers(); len(files) != 2 {
		t.Errorf("files %v", files)
	}

	// Old files go when the others have as much as watchers can read.
	l, h = left()
	for i := range maxEventBytes/segmentBytes + 3 {
		write(l.journal, &state.JobRecord{Position: h.Position, Supervision: &state.Supervision{Wanted: 4}, Begin: h.Begin}, 1)
		if err := os.Truncate(l.journal.path(3+i), segmentBytes); err != nil {
			t.Fatal(err)
		}
		l.journal.bytes = segmentBytes
	}
	l.journal.close()
	if files, _ := l.journal.numbers(); len(files) != maxEventBytes/segmentBytes+1 {
		t.Errorf("files %v", files)
	}
	_ = os.Remove(filepath.Join(d.runFolder("a"), runFile))
	if list, _, err := d.leftRuns(); err != nil || len(list) != 0 {
		t.Errorf("a folder without a job gives %v, %v", list, err)
	}
}

// While records are missing, the next listener knows that it cannot go on with the job. The first that can be written says everything, and the job is there again.
func TestTornJournal(t *testing.T) {
	d, err := OpenData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	j, err := d.beginRun("a", &state.RunningJob{Job: &state.KeptJob{Spec: &job.JobSpec{Name: "a"}, Run: "a-1"}})
	if err != nil {
		t.Fatal(err)
	}
	record := func(number uint64) *state.JobRecord {
		return &state.JobRecord{Number: number, Status: &job.JobStatus{Job: "a"}, Supervision: &state.Supervision{Wanted: int32(number)},
			Events: []*job.Event{{What: &job.Event_Step{Step: &job.Step{Step: number}}}}}
	}
	if err := j.write(record(0)); err != nil {
		t.Fatal(err)
	}
	_ = j.file.Close() // as a disk that takes nothing more
	if err := j.write(record(1)); err == nil || !j.full() {
		t.Errorf("a record that cannot be written: %v, full %t", err, j.full())
	}
	if err := os.Mkdir(j.path(2), 0o700); err != nil { // no file of that name can be made
		t.Fatal(err)
	}
	for range 3 {
		if err := j.write(record(1)); err != nil {
			t.Errorf("a further record that cannot be written: %v", err)
		}
	}
	if err := os.Remove(j.path(2)); err != nil || j.segment != 1 {
		t.Errorf("%v, file %d", err, j.segment)
	}
	list, torn, err := d.leftRuns()
	if err != nil || len(list) != 0 || len(torn) != 1 || torn[0].Job.Run != "a-1" {
		t.Fatalf("while records are missing: %d jobs, %d torn, %v", len(list), len(torn), err)
	}
	if err := j.write(record(2)); err != nil || j.full() {
		t.Errorf("the next record: %v, full %t", err, j.full())
	}
	j.close()
	list, torn, err = d.leftRuns()
	if err != nil || len(list) != 1 || len(torn) != 0 {
		t.Fatalf("afterwards: %d jobs, %d torn, %v", len(list), len(torn), err)
	}
	h, err := list[0].read()
	if err != nil || h.first != 2 || len(h.events) != 1 || h.Supervision.Wanted != 2 {
		t.Errorf("%v from event %d on, %d events, %v", h, h.first, len(h.events), err)
	}
}

// A record that has its roles, placement and labels from the one before is short, and is read as if it had them. A record that begins a file has all.
func TestRecordsAreShort(t *testing.T) {
	record := func(starts int32, steps uint64) *state.JobRecord {
		return &state.JobRecord{Status: &job.JobStatus{Job: "digits", Steps: steps, ProgramHash: strings.Repeat("f", 64), Labels: map[string]string{"team": "vision"},
			Roles: []*job.RoleStatus{{Starts: starts}, {Index: 1, Starts: 1}}, Placement: []*job.ServerLoad{{Bytes: 7}}}}
	}
	var last *job.JobStatus
	before := &state.JobRecord{}
	for i, c := range []struct {
		starts      int32
		whole, same bool
	}{{1, true, false}, {1, false, true}, {2, false, false}, {2, false, true}, {2, true, false}, {2, false, true}} {
		want, r := record(c.starts, uint64(i)), record(c.starts, uint64(i))
		last = shorten(r, last, c.whole)
		if r.Same != c.same || c.same && proto.Size(r) > 16 {
			t.Errorf("record %d of %d bytes is %v", i, proto.Size(r), r)
		}
		restore(r, before)
		before = r
		if !proto.Equal(r.Status, want.Status) {
			t.Errorf("record %d is read as %v, want %v", i, r.Status, want.Status)
		}
	}
}

// The log of a job that has ended is read as it was written.
func TestLinesAreKept(t *testing.T) {
	j := &Job{logs: launch.NewLog()}
	for n := range uint64(3) {
		addLine(j)(&rpc.LogLine{Role: "trainer-0", Line: fmt.Sprint("line ", n+7), Number: n + 7})
	}
	path := filepath.Join(t.TempDir(), logFile)
	if err := writeLines(path, j.logs); err != nil {
		t.Fatal(err)
	}
	got := ""
	if err := readLinesOf(path, func(l *rpc.LogLine) { got += fmt.Sprint(l.Number, l.Role, l.Line, ";") }); err != nil {
		t.Fatal(err)
	}
	if want := "7trainer-0line 7;8trainer-0line 8;9trainer-0line 9;"; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
}
