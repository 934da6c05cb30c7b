package dataset

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/edl-go/edl/dataset/internal/interrupt"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/policy"
)

// A Listing is the content of a growing dataset at one time.
type Listing struct {
	Files   []string // paths or URLs, those of each glob sorted
	Writing []string // matching files that somebody still writes
	Ended   bool     // every glob has its EndMarker: no more files will come
}

// A Follower lists the files of a dataset that grows. It depends only on the files, except for files that it must see twice. It is for one
// goroutine at a time. The caller closes it.
//
// A file with a footer counts as soon as the footer is there. A file of an older layout does not show whether it is complete, so it counts when two
// listings have seen it with the same size and time. When the end is marked, all files count at once. Empty files, folders, the marker, and files
// whose names begin with a dot do not count.
type Follower struct {
	globs   []string
	sources sources
	seen    map[string]sighting
}

// A sighting is what a listing has found out about a file.
type sighting struct {
	file  bucket.File
	whole bool // stays true
}

// NewFollower returns a Follower. It takes the globs of Open, and they may match nothing yet.
func NewFollower(globs []string) *Follower {
	return &Follower{globs: globs, seen: map[string]sighting{}}
}

// Close closes the connections to buckets.
func (f *Follower) Close() error { return f.sources.buckets.Close() }

// Stat describes a file as if it were the first of a dataset.
func (f *Follower) Stat(ctx context.Context, path string) (FileInfo, error) {
	index, err := f.sources.index(ctx, path, -1)
	if err != nil {
		return FileInfo{}, err
	}
	return file{Index: index}.info(), nil
}

// List lists the present files.
func (f *Follower) List(ctx context.Context) (l Listing, err error) {
	if l.Ended, err = f.ended(ctx); err != nil { // before the files, so that no file older than the marker is missed
		return Listing{}, err
	}
	files, err := f.sources.expand(ctx, f.globs, func(context.Context, string) error { return nil })
	if err != nil {
		return Listing{}, err
	}
	seen := make(map[string]sighting, len(files))
	for _, file := range files {
		if err := interrupt.Check(ctx, "dataset"); err != nil {
			return Listing{}, err
		}
		if file.Base == EndMarker || strings.HasPrefix(file.Base, ".") {
			continue
		}
		s, err := f.look(ctx, file)
		if errors.Is(err, fault.NotFound) {
			continue // somebody has removed it
		}
		if err != nil {
			return Listing{}, err
		}
		seen[file.Name] = s
		switch {
		case s.file.Bytes == 0:
		case s.whole || l.Ended:
			l.Files = append(l.Files, file.Name)
		default:
			l.Writing = append(l.Writing, file.Name)
		}
	}
	f.seen = seen
	return l, nil
}

// look finds out whether a file is complete.
func (f *Follower) look(ctx context.Context, file bucket.File) (s sighting, err error) {
	if !bucket.IsURL(file.Name) {
		info, err := policy.From(ctx).Stat(file.Name)
		if err != nil {
			return s, fault.File(fault.Unavailable, file.Name, err)
		}
		if info.Mode().IsRegular() { // others, such as folders, do not count
			file.Bytes, file.Changed = info.Size(), info.ModTime()
		}
	}
	before, again := f.seen[file.Name]
	s = sighting{file: file, whole: before.whole}
	if s.whole || file.Bytes == 0 {
		return s, nil
	}
	r, closer, err := f.sources.readerAt(ctx, file.Name, file.Bytes)
	if err != nil {
		return s, err
	}
	defer closer.Close()
	finished, known, err := recordio.Finished(r, file.Bytes)
	if err != nil {
		return s, fault.Wrap(kindOr(err, fault.Unavailable), file.Name, err)
	}
	unchanged := again && before.file.Bytes == file.Bytes && before.file.Changed.Equal(file.Changed)
	s.whole = finished || !known && unchanged
	return s, nil
}

// kindOr returns the kind of err, and a default if err is no fault.
func kindOr(err error, kind fault.Kind) fault.Kind {
	if k := fault.KindOf(err); k != fault.Internal {
		return k
	}
	return kind
}

// EndMarker is the name of the file that marks the end of a growing dataset. It is in the folder of a glob: the part before the last slash that
// precedes every wildcard.
const EndMarker = "_END"

// ended reports whether every glob has its marker.
func (f *Follower) ended(ctx context.Context) (bool, error) {
	for _, glob := range f.globs {
		there, err := f.marked(ctx, glob)
		if err != nil || !there {
			return false, err
		}
	}
	return len(f.globs) > 0, nil
}

func (f *Follower) marked(ctx context.Context, glob string) (bool, error) {
	var err error
	if bucket.IsURL(glob) {
		var marker string
		if marker, err = bucket.Beside(glob, EndMarker); err == nil {
			err = policy.From(ctx).CheckRead(marker)
		}
		if err == nil {
			_, err = f.sources.buckets.Stat(ctx, marker)
		}
	} else {
		folder, _ := filepath.Split(bucket.Literal(glob))
		marker := filepath.Join(folder, EndMarker)
		if _, err = policy.From(ctx).Stat(marker); err != nil {
			err = fault.File(fault.Unavailable, marker, err)
		}
	}
	if errors.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}
