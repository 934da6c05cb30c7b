package queue

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
)

// layout lists the files of a dataset and says which records a task has. Files are only appended.
type layout struct {
	files   []*rpc.DataFile
	groups  []fileGroup
	records int64
	tasks   int64
}

// fileGroup is a run of files that were reported together. It is divided into tasks of one size, which do not mind where a file ends; only the last task
// may be smaller. No task goes from one group to the next.
type fileGroup struct {
	task, record int64 // the first ones
	records      int64
	size         int64 // records of a task
}

func (g fileGroup) tasks() int64 { return (g.records-1)/g.size + 1 }

// add appends files, which begin a new group, and returns how many records its tasks have: 0 when the files have no records.
func (l *layout) add(p Policy, files []*rpc.DataFile) (size int64, err error) {
	records := l.records
	for i, f := range files {
		switch {
		case len(l.files)+len(files) > maxFiles:
			return 0, fault.E(fault.TooLarge, fault.Gotf("%d files", len(l.files)+len(files)), fault.Wantf("at most %d", maxFiles))
		case len(f.GetPath()) > maxPath:
			return 0, fault.E(fault.TooLarge, fault.Atf("file %d", len(l.files)+i), fault.Gotf("a path of %d bytes", len(f.GetPath())),
				fault.Wantf("at most %d", maxPath))
		case f.GetPath() == "" || !utf8.ValidString(f.Path):
			return 0, fault.E(fault.InvalidArgument, fault.Atf("file %d", len(l.files)+i), fault.Got("path "+fault.Quote(f.GetPath())),
				fault.Want("a name in UTF-8"))
		case f.GetRecords() < 0 || f.GetRecords() > math.MaxInt64/2-records || f.GetFirstRecord() != records:
			return 0, fault.E(fault.InvalidArgument, fault.At("file "+fault.Quote(f.GetPath())),
				fault.Gotf("%d records from %d", f.GetRecords(), f.GetFirstRecord()), fault.Wantf("records from %d on", records))
		}
		records += f.GetRecords()
	}
	if size = p.RecordsPerTask; size <= 0 {
		size = max(1, (records-l.records)/int64(tasksPerTrainer*max(1, p.Trainers)))
	}
	if records == l.records {
		size = 0
	}
	l.files = append(l.files, files...)
	if size > 0 {
		g := fileGroup{task: l.tasks, record: l.records, records: records - l.records, size: size}
		l.groups = append(l.groups, g)
		l.tasks += g.tasks()
	}
	l.records = records
	return size, nil
}

// recordsOf returns the records of a task, which must exist.
func (l *layout) recordsOf(task int64) ranges.Range {
	i := sort.Search(len(l.groups), func(i int) bool { return l.groups[i].task > task }) - 1
	g := l.groups[i]
	from := g.record + (task-g.task)*g.size
	return ranges.Range{From: from, To: from + min(g.size, g.record+g.records-from)}
}

// taskOf returns the task of a record, which must exist.
func (l *layout) taskOf(record int64) (task int64) {
	i := sort.Search(len(l.groups), func(i int) bool { return l.groups[i].record > record }) - 1
	g := l.groups[i]
	return g.task + (record-g.record)/g.size
}

// start is the first record of a task, or the end of the data when there is no such task.
func (l *layout) start(task int64) int64 {
	if task >= l.tasks {
		return l.records
	}
	return l.recordsOf(task).From
}

// all is the records of the dataset.
func (l *layout) all() ranges.Set { return ranges.Of(ranges.Range{From: 0, To: l.records}) }

// tasksIn returns how many tasks, from the first on, have all their records in s.
func (l *layout) tasksIn(s ranges.Set) int64 {
	switch {
	case len(s) == 0 || s[0].From > 0:
		return 0
	case s[0].To >= l.records:
		return l.tasks
	}
	return l.taskOf(s[0].To)
}

// filesOf returns the files that have records of s.
func (l *layout) filesOf(s ranges.Set) (files []*rpc.DataFile) {
	next := 0
	for _, r := range s {
		i := sort.Search(len(l.files), func(i int) bool { return l.files[i].FirstRecord+l.files[i].Records > r.From })
		for i = max(i, next); i < len(l.files) && l.files[i].FirstRecord < r.To; i++ {
			if l.files[i].Records > 0 {
				files = append(files, l.files[i])
			}
			next = i + 1
		}
	}
	return files
}

func (e FilesAdded) apply(s *step) error {
	if !s.following {
		return s.fault(fault.InvalidArgument, fmt.Sprintf("%d more files", len(e.Files)), "the files that were reported first")
	}
	known := make(map[string]bool, len(s.layout.files))
	for _, f := range s.layout.files {
		known[f.Path] = true
	}
	var files []*rpc.DataFile
	next := s.layout.records
	for _, f := range e.Files {
		if known[f.GetPath()] {
			continue
		}
		known[f.GetPath()] = true
		f = proto.CloneOf(f)
		f.FirstRecord = next
		next += max(0, f.Records)
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil
	}
	if s.closed {
		return s.fault(fault.InvalidArgument, fmt.Sprintf("%d files after the end of the dataset, %s first", len(files), fault.Quote(files[0].Path)),
			"none")
	}
	return s.add(files)
}

// add appends files.
func (s *step) add(files []*rpc.DataFile) error {
	first := len(s.layout.files)
	s.layout.files, s.layout.groups = slices.Clip(s.layout.files), slices.Clip(s.layout.groups) // which copies share
	size, err := s.layout.add(s.policy, files)
	if err != nil {
		return err
	}
	for i, f := range files {
		n := int64(0)
		if i == 0 {
			n = size
		}
		s.putFile(first+i, f, n)
	}
	s.files = len(s.layout.files)
	return nil
}

func (FilesEnded) apply(s *step) error {
	if !s.following {
		return s.fault(fault.InvalidArgument, "the end of files", "a dataset that follows")
	}
	s.closed = true
	return nil
}
