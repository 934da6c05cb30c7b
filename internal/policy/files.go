package policy

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/regularfile"
)

// within opens the folder of the policy that a path lies in, and returns what the path is below it. No name below a Root leads
// out of it, also not through a link.
func (p *Policy) within(path, flag, verb string, lists ...[]string) (root *os.Root, name string, err error) {
	folder, err := p.find(path, flag, verb, lists...)
	if err != nil {
		return nil, "", err
	}
	if root, err = os.OpenRoot(folder); err != nil {
		return nil, "", fault.File(fault.Unavailable, folder, err)
	}
	name, err = filepath.Rel(folder, path)
	if err != nil {
		return nil, "", fault.Wrap(fault.Internal, path, err)
	}
	return root, name, nil
}

func (p *Policy) readable(path string) (*os.Root, string, error) {
	return p.within(path, ReadFlag, "read", p.Read.List, p.Write.List, p.Own)
}

func (p *Policy) writable(path string) (*os.Root, string, error) {
	return p.within(path, WriteFlag, "write", p.Write.List, p.Own)
}

// ReadsAll reports whether the policy sets no bound to what is read, but what is guarded.
func (p *Policy) ReadsAll() bool { return p == nil || p.Read.All || p.Write.All }

// left turns the error of a path that leads out of its folder into a refusal. Others stay what they are, for fault.File.
func left(root *os.Root, path, flag string, err error) error {
	if err == nil || !strings.HasSuffix(err.Error(), "path escapes from parent") { // the error of os.Root has no name
		return err
	}
	return fault.E(fault.Denied, fault.At("policy of the listener"), fault.Got(fault.Quote(path)+", which leads out of "+root.Name()+" through a link"),
		fault.Want("a path without such a link"), fault.Hint("who runs the listener allows another place with \""+flag+" PLACE\""))
}

// guarded opens what is not guarded. It looks again afterwards: meanwhile a link may have taken its place.
func guarded[F io.Closer](p *Policy, path, verb string, whole bool, open func() (F, error)) (f F, err error) {
	var none F
	if err := p.guard(path, verb, whole); err != nil {
		return none, err
	}
	if f, err = open(); err != nil {
		return none, err
	}
	if err := p.guard(path, verb, whole); err != nil {
		return none, errors.Join(err, f.Close())
	}
	return f, nil
}

// Stat is os.Stat of a path that may be read.
func (p *Policy) Stat(path string) (fs.FileInfo, error) {
	if err := p.guard(path, "read", false); err != nil {
		return nil, err
	}
	if p.ReadsAll() {
		return os.Stat(path)
	}
	root, name, err := p.readable(path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	return info, left(root, path, ReadFlag, err)
}

// Open is regularfile.Open of a path that may be read.
func (p *Policy) Open(kind fault.Kind, path string) (*os.File, int64, error) {
	size := int64(0)
	f, err := guarded(p, path, "read", false, func() (f *os.File, err error) {
		f, size, err = openFile(p, kind, path)
		return f, err
	})
	return f, size, err
}

func openFile(p *Policy, kind fault.Kind, path string) (*os.File, int64, error) {
	if p.ReadsAll() {
		return regularfile.Open(kind, path)
	}
	root, name, err := p.readable(path)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	f, size, err := regularfile.OpenIn(root, kind, name, path)
	return f, size, left(root, path, ReadFlag, err)
}

// ReadDir is os.ReadDir of a folder that may be read.
func (p *Policy) ReadDir(dir string) ([]fs.DirEntry, error) {
	if err := p.guard(dir, "read", false); err != nil {
		return nil, err
	}
	if p.ReadsAll() {
		return os.ReadDir(dir)
	}
	root, name, err := p.readable(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(name))
	return entries, left(root, dir, ReadFlag, err)
}

// OpenRoot is os.OpenRoot of a folder that may be read, and in which nothing guarded lies. What is done in it stays in it.
func (p *Policy) OpenRoot(dir string) (*os.Root, error) { return readRoot(p, dir, true) }

// OpenFolder is OpenRoot, also of a folder in which something guarded lies: the caller opens there only files that CheckRead allows.
func (p *Policy) OpenFolder(dir string) (*os.Root, error) { return readRoot(p, dir, false) }

func readRoot(p *Policy, dir string, whole bool) (*os.Root, error) {
	return guarded(p, dir, "read", whole, func() (*os.Root, error) { return openRoot(p, dir) })
}

func openRoot(p *Policy, dir string) (*os.Root, error) {
	if p.ReadsAll() {
		return os.OpenRoot(dir)
	}
	root, name, err := p.readable(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	in, err := root.OpenRoot(name)
	return in, left(root, dir, ReadFlag, err)
}

// WriteRoot is os.OpenRoot of a folder that may be written.
func (p *Policy) WriteRoot(dir string) (*os.Root, error) { return p.writeRoot(dir, false) }

// MakeRoot is WriteRoot that makes the folder, and those that it lies in, where they are missing.
func (p *Policy) MakeRoot(dir string) (*os.Root, error) { return p.writeRoot(dir, true) }

func (p *Policy) writeRoot(dir string, create bool) (*os.Root, error) {
	return guarded(p, dir, "write", true, func() (*os.Root, error) { return makeRoot(p, dir, create) })
}

func makeRoot(p *Policy, dir string, create bool) (*os.Root, error) {
	if p == nil || p.Write.All {
		if create {
			if err := os.MkdirAll(dir, FolderMode); err != nil {
				return nil, err
			}
		}
		return os.OpenRoot(dir)
	}
	if create { // the place itself is named by the listener
		place, err := p.find(dir, WriteFlag, "write", p.Write.List, p.Own)
		if err == nil {
			err = os.MkdirAll(place, FolderMode)
		}
		if err != nil {
			return nil, err
		}
	}
	root, name, err := p.writable(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if create && name != "." {
		err = root.MkdirAll(name, FolderMode)
	}
	var in *os.Root
	if err == nil {
		in, err = root.OpenRoot(name)
	}
	return in, left(root, dir, WriteFlag, err)
}

// maxLooked bounds the entries of folders that one pattern looks at: folders may be large, and links make loops.
const maxLooked = 1 << 20

// Glob is filepath.Glob of a pattern whose files may be read, sorted.
func (p *Policy) Glob(pattern string) ([]string, error) { return p.glob(pattern, maxLooked) }

func (p *Policy) glob(pattern string, most int) ([]string, error) {
	if err := p.guard(pattern, "read", false); err != nil {
		return nil, err
	}
	if p.ReadsAll() {
		paths, err := filepath.Glob(pattern)
		slices.Sort(paths)
		return paths, err
	}
	root, name, err := p.readable(pattern)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	counted := &countedFS{FS: root.FS(), left: most}
	names, err := fs.Glob(counted, filepath.ToSlash(name))
	if counted.left < 0 {
		return nil, fault.E(fault.TooLarge, fault.At("pattern "+fault.Quote(pattern)), fault.Gotf("more than %d entries of folders to look at", most),
			fault.Want("a pattern with a longer part before its first wildcard"))
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = filepath.Join(root.Name(), filepath.FromSlash(name))
	}
	return names, err
}

// A countedFS counts the entries that are looked at, and shows none beyond the bound.
type countedFS struct {
	fs.FS
	left int
}

func (c *countedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if c.left < 0 {
		return nil, fs.ErrPermission
	}
	entries, err := fs.ReadDir(c.FS, name)
	c.left -= 1 + len(entries)
	return entries, err
}
