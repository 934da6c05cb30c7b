package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/policy"
)

// A Store has objects by name. The last part of a name comes after a slash, and names of checkpoints have no other. It is safe for concurrent use.
type Store struct {
	objects objects
	where   string // as the user has named it
}

// objects is what a folder and a bucket have in common. Names are checked by the caller.
type objects interface {
	// create makes an object, which is there whole once write has returned nil and create has returned nil, or not at all.
	create(ctx context.Context, name string, write func(io.Writer) error) error
	// open reads bytes of an object; length -1 is the rest.
	open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
	// list returns all objects of checkpoints, sorted by their names.
	list(ctx context.Context) ([]object, error)
	// remove removes objects of one checkpoint. What is not there is removed already.
	remove(ctx context.Context, checkpoint string, names []string) error
	close() error
}

// An object is one in a list.
type object struct {
	name    string
	changed time.Time
	bytes   int64
}

func byName(a, b object) int { return strings.Compare(a.name, b.name) }

// Open opens the store at a URL, such as s3://bucket/folder, file:///folder, or a path of this machine. A folder is made with the first checkpoint. The
// drivers of other URLs are those that the program has registered with gocloud.dev/blob.
func Open(ctx context.Context, where string) (*Store, error) {
	if where == "" {
		return nil, fault.E(fault.InvalidArgument, fault.Got("no place for checkpoints"), fault.Want("a folder, or a URL such as s3://bucket/folder"))
	}
	allowed := policy.From(ctx)
	if err := allowed.CheckRead(where); err != nil {
		return nil, err
	}
	scheme, rest, isURL := strings.Cut(where, "://")
	switch {
	case !isURL:
		dir, err := filepath.Abs(where)
		if err != nil {
			return nil, fault.File(fault.InvalidArgument, where, err)
		}
		return &Store{&folder{dir, allowed}, where}, nil
	case scheme == "file":
		u, err := url.Parse(where)
		if err != nil || u.Host != "" || !path.IsAbs(u.Path) {
			return nil, fault.E(fault.InvalidArgument, fault.Got("URL "+fault.Quote(where)), fault.Want("such as file:///folder"))
		}
		return &Store{&folder{filepath.FromSlash(u.Path), allowed}, where}, nil
	case rest == "":
		return nil, fault.E(fault.InvalidArgument, fault.Got("URL "+fault.Quote(where)), fault.Want("such as s3://bucket/folder"))
	}
	b, err := openStore(ctx, where)
	if err != nil {
		return nil, err
	}
	return &Store{b, where}, nil
}

// Prepare makes the folder of a store, and fails where nothing can be written to it: what trains for hours should not learn that at its first checkpoint.
func (s *Store) Prepare(ctx context.Context) error {
	probe := NewName("probe", 0)
	err := s.objects.create(ctx, probe+"/"+manifestName+part, func(to io.Writer) error {
		_, err := to.Write([]byte("edl"))
		return err
	})
	removed := s.objects.remove(context.WithoutCancel(ctx), probe, []string{manifestName + part}) // a full disk has room for the folder, and not for the file in it
	if err == nil {
		err = removed
	}
	if err == nil {
		return nil
	}
	return fault.E(fault.KindOf(err), fault.At("cannot write checkpoints to "+s.where), fault.Cause(err),
		fault.Hint("name a folder or bucket that can be written to"))
}

// Close ends the use of the store.
func (s *Store) Close() error { return s.objects.close() }

// String is the URL or path of the store.
func (s *Store) String() string { return s.where }

// A folder is a store in a directory: each checkpoint is a directory in it.
type folder struct {
	dir     string
	allowed *policy.Policy
}

// part marks a file that is not whole yet.
const part = ".part-"

// create writes a temporary file, waits until it is on the disk, and renames it.
func (f *folder) create(ctx context.Context, name string, write func(io.Writer) error) (err error) {
	checkpoint, base := path.Split(name)
	dir := filepath.Join(f.dir, filepath.FromSlash(checkpoint))
	root, err := f.allowed.MakeRoot(dir)
	if err != nil {
		return fault.File(fault.Unavailable, dir, err)
	}
	defer root.Close()
	temporary := base + part + rand.Text()
	to, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, policy.FileMode)
	if err != nil {
		return fault.File(fault.Unavailable, dir, err)
	}
	defer func() {
		if err != nil {
			_ = root.Remove(temporary)
		}
	}()
	w := &early{to: to}
	err = write(&bounded{ctx, w})
	if w.end(); err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err == nil {
		err = root.Rename(temporary, base)
	}
	if err == nil {
		err = errors.Join(syncDir(root), f.sync())
	}
	if err != nil {
		return fault.File(fault.Unavailable, filepath.Join(dir, base), err)
	}
	return nil
}

// syncDir waits until the names in a directory are on the disk. File systems that cannot do that are left alone.
func syncDir(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// sync is syncDir of the folder.
func (f *folder) sync() error {
	root, err := f.allowed.WriteRoot(f.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return syncDir(root)
}

func (f *folder) open(_ context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	file, size, err := f.allowed.Open(fault.Unavailable, filepath.Join(f.dir, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	if length < 0 {
		length = max(0, size-offset)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(file, offset, length), file}, nil
}

func (f *folder) list(context.Context) ([]object, error) {
	entries, err := f.allowed.ReadDir(f.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, syscall.ENOTDIR):
		return nil, fault.E(fault.Unavailable, fault.At(f.dir), fault.Got("a file"), fault.Want("a folder with checkpoints"))
	case err != nil:
		return nil, fault.File(fault.Unavailable, f.dir, err)
	}
	var list []object
	add := func(name string, e fs.DirEntry) {
		if info, err := e.Info(); err == nil { // another process may remove it
			list = append(list, object{name, info.ModTime(), info.Size()})
		}
	}
	for _, e := range entries {
		if !e.IsDir() || !isName(e.Name()) {
			continue
		}
		files, err := f.allowed.ReadDir(filepath.Join(f.dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may remove it
			return nil, fault.File(fault.Unavailable, e.Name(), err)
		}
		for _, file := range files {
			add(e.Name()+"/"+file.Name(), file)
		}
		if len(files) == 0 {
			add(e.Name()+"/", e)
		}
	}
	slices.SortFunc(list, byName)
	return list, nil
}

func (f *folder) remove(_ context.Context, checkpoint string, names []string) error {
	dir := filepath.Join(f.dir, checkpoint)
	root, err := f.allowed.WriteRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.File(fault.Unavailable, dir, err)
	}
	defer root.Close()
	for _, name := range names {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.File(fault.Unavailable, filepath.Join(dir, name), err)
		}
	}
	parent, err := f.allowed.WriteRoot(f.dir)
	if err != nil {
		return fault.File(fault.Unavailable, f.dir, err)
	}
	defer parent.Close()
	if err := parent.Remove(checkpoint); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return fault.File(fault.Unavailable, dir, err)
	}
	return nil
}

func (f *folder) close() error { return nil }

// A bounded writer ends with its context.
type bounded struct {
	ctx context.Context
	to  io.Writer
}

func (b *bounded) Write(p []byte) (int, error) {
	if err := context.Cause(b.ctx); err != nil {
		return 0, fault.E(fault.Canceled, fault.Cause(err))
	}
	return b.to.Write(p)
}
