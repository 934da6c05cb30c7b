package queue

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

func (e AddFiles) apply(s *step) error {
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

func (EndOfFiles) apply(s *step) error {
	if !s.following {
		return s.fault(fault.InvalidArgument, "the end of files", "a dataset that follows")
	}
	s.closed = true
	return nil
}
