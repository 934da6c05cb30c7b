package queue

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
)

// extent is a run of files that came together, cut into tasks of one size; its last task may be shorter.
type extent struct {
	task, record int64 // the first ones
	records      int64
	size         int64 // records of a task
}

func (x extent) tasks() int64 { return (x.records-1)/x.size + 1 }

// cut lists the files of a dataset and says which records a task has. It is only appended to.
type cut struct {
	files   []*rpc.DataFile
	extents []extent
	records int64
	tasks   int64
}

// add appends files, numbers their records on, and begins a new task. size is 0 when they have no records.
func (c *cut) add(p Policy, files []*rpc.DataFile) (size int64, err error) {
	records := c.records
	for i, f := range files {
		switch {
		case len(c.files)+len(files) > maxFiles:
			return 0, fault.E(fault.TooLarge, fault.Gotf("%d files", len(c.files)+len(files)), fault.Wantf("at most %d", maxFiles))
		case len(f.GetPath()) > maxPath:
			return 0, fault.E(fault.TooLarge, fault.Atf("file %d", len(c.files)+i), fault.Gotf("a path of %d bytes", len(f.GetPath())),
				fault.Wantf("at most %d", maxPath))
		case f.GetPath() == "" || !utf8.ValidString(f.Path):
			return 0, fault.E(fault.InvalidArgument, fault.Atf("file %d", len(c.files)+i), fault.Got("path "+fault.Quote(f.GetPath())),
				fault.Want("a name in UTF-8"))
		case f.GetRecords() < 0 || f.GetRecords() > math.MaxInt64/2-records || f.GetFirstRecord() != records:
			return 0, fault.E(fault.InvalidArgument, fault.At("file "+fault.Quote(f.GetPath())),
				fault.Gotf("%d records from %d", f.GetRecords(), f.GetFirstRecord()), fault.Wantf("records from %d on", records))
		}
		records += f.GetRecords()
	}
	if size = p.RecordsPerTask; size <= 0 {
		size = max(1, (records-c.records)/int64(tasksPerTrainer*max(1, p.Trainers)))
	}
	if records == c.records {
		size = 0
	}
	c.files = append(c.files, files...)
	if size > 0 {
		x := extent{task: c.tasks, record: c.records, records: records - c.records, size: size}
		c.extents = append(c.extents, x)
		c.tasks += x.tasks()
	}
	c.records = records
	return size, nil
}

// task returns the records of a task, which must exist.
func (c *cut) task(id int64) ranges.Range {
	i := sort.Search(len(c.extents), func(i int) bool { return c.extents[i].task > id }) - 1
	x := c.extents[i]
	from := x.record + (id-x.task)*x.size
	return ranges.Range{From: from, To: from + min(x.size, x.record+x.records-from)}
}

// at returns the task of a record, which must exist.
func (c *cut) at(record int64) (id int64) {
	i := sort.Search(len(c.extents), func(i int) bool { return c.extents[i].record > record }) - 1
	x := c.extents[i]
	return x.task + (record-x.record)/x.size
}

// start is the first record of a task, or the end of the data when there is no such task.
func (c *cut) start(id int64) int64 {
	if id >= c.tasks {
		return c.records
	}
	return c.task(id).From
}

// holding returns the files that hold records of s.
func (c *cut) holding(s ranges.Set) (files []*rpc.DataFile) {
	next := 0
	for _, p := range s {
		i := sort.Search(len(c.files), func(i int) bool { return c.files[i].FirstRecord+c.files[i].Records > p.From })
		for i = max(i, next); i < len(c.files) && c.files[i].FirstRecord < p.To; i++ {
			if c.files[i].Records > 0 {
				files = append(files, c.files[i])
			}
			next = i + 1
		}
	}
	return files
}

// reasonOf shortens what a trainer says about a failure.
func reasonOf(s string) string {
	if len(s) > maxReason {
		s = s[:maxReason]
	}
	return strings.ToValidUTF8(s, "?")
}

func (e FilesAdded) apply(s *step) error {
	if !s.following {
		return s.fault(fault.InvalidArgument, fmt.Sprintf("%d more files", len(e.Files)), "the files that were reported first")
	}
	known := make(map[string]bool, len(s.cut.files))
	for _, f := range s.cut.files {
		known[f.Path] = true
	}
	var files []*rpc.DataFile
	next := s.cut.records
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
	first := len(s.cut.files)
	s.cut.files, s.cut.extents = slices.Clip(s.cut.files), slices.Clip(s.cut.extents) // which copies share
	size, err := s.cut.add(s.policy, files)
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
	s.files = len(s.cut.files)
	return nil
}

func (FilesEnded) apply(s *step) error {
	if !s.following {
		return s.fault(fault.InvalidArgument, "the end of files", "a dataset that follows")
	}
	s.closed = true
	return nil
}
