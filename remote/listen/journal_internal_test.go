package listen

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/internal/eventlog"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
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
		list, err := d.leftRuns()
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
	write(written, &state.JobRecord{Supervision: &state.Supervision{Wanted: 3}, Owed: &state.Owed{Forget: true}, Position: &state.Position{Fence: 7}}, 0)
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
			list, _ := d.leftRuns()
			h, err := list[0].read()
			if cut > 100 && err != nil {
				t.Fatal(err)
			}
			return list[0], h
		}()
		l.journal.close()
		if err := os.Remove(l.journal.path(2)); err != nil {
			t.Fatal(err)
		}
		if len(h.events) > 5 || cut == len(whole) && len(h.events) != 5 {
			t.Errorf("cut at %d: %d events", cut, len(h.events))
		}
	}
	if err := os.WriteFile(path, append(bytes.Clone(whole), 1, 2, 3), 0o600); err != nil {
		t.Fatal(err)
	}
	l, h := left()
	if got := fmt.Sprintln(h.first, len(h.events), h.Position.GetNext(), h.Supervision.GetWanted(), h.Owed.GetForget(), h.Begin.GetParams(), l.Job.Run, l.Keeper); got != "0 5 5 3 true p a-1 k\n" {
		t.Errorf("the next listener reads %s", got)
	}

	// The next listener goes on in a file of its own, and what it writes follows.
	number = 5
	write(l.journal, &state.JobRecord{Position: h.Position, Supervision: &state.Supervision{Wanted: 4}, Begin: h.Begin}, 1)
	l.journal.close()
	if l, h = left(); len(h.events) != 6 || h.Supervision.GetWanted() != 4 || l.journal.segment != 3 {
		t.Errorf("%d events, %v, file %d", len(h.events), h.Supervision, l.journal.segment)
	}
	l.journal.close()

	// Old files go when others have come.
	for range segments {
		l.journal.bytes = segmentBytes
		if err := l.journal.next(); err != nil {
			t.Fatal(err)
		}
	}
	l.journal.close()
	if files, _ := filepath.Glob(filepath.Join(l.journal.dir, journalFile+"*")); len(files) != segments {
		t.Errorf("files %v, want %d", files, segments)
	}
	_ = os.Remove(filepath.Join(d.runFolder("a"), runFile))
	if list, err := d.leftRuns(); err != nil || len(list) != 0 {
		t.Errorf("a folder without a job gives %v, %v", list, err)
	}
}

// The log of a job that has ended is read as it was written.
func TestLinesAreKept(t *testing.T) {
	j := &Job{logs: eventlog.New[*rpc.LogLine](maxLogLines)}
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
