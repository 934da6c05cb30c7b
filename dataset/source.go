package dataset

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/policy"
)

// sources are the places of files: this machine, and open buckets.
type sources struct {
	buckets bucket.Cache
}

// expand returns the files that match globs: globs in order, files sorted within each, none twice. It calls missing for a glob that matches
// nothing.
func (s *sources) expand(ctx context.Context, globs []string, missing func(ctx context.Context, glob string) error) ([]bucket.File, error) {
	var files []bucket.File
	seen := map[string]bool{}
	for _, glob := range globs {
		matches, err := s.match(ctx, glob)
		if err != nil {
			return nil, err
		}
		if len(matches) == 0 {
			if err := missing(ctx, glob); err != nil {
				return nil, err
			}
		}
		for _, f := range matches {
			id := f.Name
			if !bucket.IsURL(id) {
				id = filepath.Clean(id)
			}
			if !seen[id] {
				seen[id] = true
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// missing is the error of a glob that nothing matches.
func missing(ctx context.Context, glob string) error {
	hint := "a relative glob starts in the working directory"
	if meant := meant(ctx, glob); meant != "" {
		hint = "did you mean " + fault.Quote(meant) + "?"
	}
	return fault.E(fault.NotFound, fault.Got("no file for dataset glob "+fault.Quote(glob)), fault.Want("at least one record file"), fault.Hint(hint))
}

// meant returns the path that is closest to a glob which nothing matches: that of a folder, where the glob names one that is not there, or of a file whose name begins nearly
// as the pattern does. It looks where the job may read, and returns "" if nothing is close.
func meant(ctx context.Context, glob string) string {
	if bucket.IsURL(glob) {
		return ""
	}
	dir, pattern := filepath.Split(filepath.Clean(glob))
	for {
		if paths, err := policy.From(ctx).Glob(filepath.Join(dir, "*")); err != nil || len(paths) > 0 || dir == "" || filepath.Clean(dir) == string(filepath.Separator) {
			if err != nil {
				return ""
			}
			return closest(pattern, paths)
		}
		dir, pattern = filepath.Split(filepath.Clean(dir)) // which is not there, or is empty
	}
}

// closest returns the first path whose name begins most nearly as a pattern does before its first star; "" if none is close.
func closest(pattern string, paths []string) string {
	begin := pattern
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		begin = pattern[:i]
	}
	begins := make([]string, len(paths))
	for i, path := range paths {
		if begins[i] = filepath.Base(path); begin != pattern {
			begins[i] = begins[i][:min(len(begin), len(begins[i]))]
		}
	}
	if at := slices.Index(begins, fault.Closest(begin, begins)); at >= 0 {
		return paths[at]
	}
	return ""
}

// CheckFiles fails with NotFound if a glob matches no file of this machine, so that a job need not begin to find out. It does not look into buckets: they may
// ask for credentials that only trainers have.
func CheckFiles(ctx context.Context, globs []string) error {
	globs = slices.DeleteFunc(slices.Clone(globs), bucket.IsURL)
	_, err := new(sources).expand(ctx, globs, missing)
	return err
}

// match returns the files that match one glob. Files of this machine have no size and time.
func (s *sources) match(ctx context.Context, glob string) ([]bucket.File, error) {
	if bucket.IsURL(glob) {
		if err := policy.From(ctx).CheckRead(glob); err != nil {
			return nil, err
		}
		files, err := s.buckets.List(ctx, glob)
		if errors.Is(err, fs.ErrNotExist) { // not even a folder
			return nil, nil
		}
		return files, err
	}
	paths, err := policy.From(ctx).Glob(glob)
	if errors.Is(err, filepath.ErrBadPattern) {
		return nil, fault.E(fault.InvalidArgument, fault.At("dataset glob "+fault.Quote(glob)), fault.Cause(err),
			fault.Want("a pattern of *, ? and [a-z]; put a backslash before a literal one"))
	}
	if err != nil {
		return nil, err
	}
	files := make([]bucket.File, len(paths))
	for i, path := range paths {
		files[i].Name, files[i].Base = path, filepath.Base(path)
	}
	return files, nil
}

// Absolute returns a glob that means the same in any folder: an absolute path, or a URL unchanged.
func Absolute(glob string) (string, error) {
	if bucket.IsURL(glob) {
		return glob, nil
	}
	absolute, err := filepath.Abs(glob)
	return absolute, fault.Wrap(fault.InvalidArgument, glob, err)
}

// index reads the index of a file. bytes is the size of an object, negative if unknown.
func (s *sources) index(ctx context.Context, name string, bytes int64) (*recordio.Index, error) {
	if !bucket.IsURL(name) {
		f, size, err := policy.From(ctx).Open(fault.Unavailable, name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return recordio.LoadIndex(name, f, size, recordio.Limits{})
	}
	if err := policy.From(ctx).CheckRead(name); err != nil {
		return nil, err
	}
	if bytes < 0 {
		found, err := s.buckets.Stat(ctx, name)
		if err != nil {
			return nil, err
		}
		bytes = found.Bytes
	}
	object, err := s.buckets.Open(ctx, name, bytes)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	return recordio.LoadIndex(name, object, bytes, recordio.Limits{})
}

// readerAt opens a file of a known size. The caller closes it.
func (s *sources) readerAt(ctx context.Context, name string, bytes int64) (io.ReaderAt, io.Closer, error) {
	if bucket.IsURL(name) {
		if err := policy.From(ctx).CheckRead(name); err != nil {
			return nil, nil, err
		}
		o, err := s.buckets.Open(ctx, name, bytes)
		return o, o, err
	}
	f, _, err := policy.From(ctx).Open(fault.Unavailable, name)
	return f, f, err
}
