package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
)

// A ShardWriter distributes records over the files <name>-00000-of-00002, <name>-00001-of-00002, ...: record i goes to shard i mod n. The files get
// these names when Close succeeds. Before, and after Abort, there are none. It is not safe for concurrent use.
type ShardWriter struct {
	root   *os.Root
	made   []string // directories that were not there before, the innermost first
	shards []shard
	next   int
}

type shard struct {
	name   string // final
	file   *os.File
	writer *recordio.Writer
}

// maxShards is the largest number with the five digits of the names.
const maxShards = 99999

// ShardName returns the file name of a shard.
func ShardName(name string, index, of int) string {
	return fmt.Sprintf("%s-%05d-of-%05d", name, index, of)
}

// CreateShards creates a dataset of n files in dir. It creates dir if necessary. The caller ends it with Close or Abort.
func CreateShards(dir, name string, n int, options recordio.Options) (*ShardWriter, error) {
	if name == "" || name != filepath.Base(name) || !filepath.IsLocal(name) || n < 1 || n > maxShards {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("%d shards named %s", n, fault.Quote(name)),
			fault.Wantf("1 to %d shards and a name without a directory", maxShards))
	}
	made, err := makeDirectories(dir)
	if err != nil {
		removeAll(made)
		return nil, fault.File(fault.InvalidArgument, dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		removeAll(made)
		return nil, fault.File(fault.InvalidArgument, dir, err)
	}
	w := &ShardWriter{root: root, made: made}
	for i := range n {
		if err := w.create(ShardName(name, i, n), options); err != nil {
			w.Abort()
			return nil, err
		}
	}
	return w, nil
}

// makeDirectories is os.MkdirAll that returns the directories which it made, the innermost first.
func makeDirectories(dir string) (made []string, err error) {
	var missing []string // the innermost first
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, d)
	}
	for _, d := range slices.Backward(missing) {
		if os.Mkdir(d, 0o777) == nil {
			made = append([]string{d}, made...)
		}
	}
	return made, os.MkdirAll(dir, 0o777)
}

// removeAll removes directories, the innermost first, until one has something in it.
func removeAll(directories []string) {
	for _, d := range directories {
		if os.Remove(d) != nil {
			return
		}
	}
}

func (w *ShardWriter) create(name string, options recordio.Options) error {
	f, err := w.root.OpenFile(temporary(name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return fault.File(fault.InvalidArgument, filepath.Join(w.root.Name(), name), err)
	}
	w.shards = append(w.shards, shard{name: name, file: f})
	w.shards[len(w.shards)-1].writer, err = recordio.NewWriter(f, options)
	return err
}

// temporary is the name of an unfinished file. No glob for the final name matches it.
func temporary(name string) string { return "." + name + ".tmp" }

// Write appends a record to the next shard.
func (w *ShardWriter) Write(record []byte) error {
	if len(w.shards) == 0 {
		return fault.New(fault.InvalidArgument, "dataset: the shards are closed")
	}
	s := w.shards[w.next]
	w.next = (w.next + 1) % len(w.shards)
	return s.writer.Write(record)
}

// Close completes the files and gives them their names. After an error, some of the files may exist.
func (w *ShardWriter) Close() error {
	for _, s := range w.shards {
		if err := s.complete(); err != nil {
			w.Abort()
			return err
		}
	}
	for _, s := range w.shards {
		if err := w.root.Rename(temporary(s.name), s.name); err != nil {
			w.Abort()
			return fault.Wrap(fault.Unavailable, s.name, err)
		}
	}
	w.shards, w.made = nil, nil
	defer w.root.Close()
	return syncDir(w.root)
}

func (s shard) complete() error {
	if err := s.writer.Close(); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return fault.Wrap(fault.Unavailable, s.name, err)
	}
	return fault.Wrap(fault.Unavailable, s.name, s.file.Close())
}

// syncDir makes new names durable.
func syncDir(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return fault.Wrap(fault.Unavailable, root.Name(), err)
	}
	defer d.Close()
	return fault.Wrap(fault.Unavailable, root.Name(), d.Sync())
}

// Abort removes unfinished files, and the directories that CreateShards made for them, unless they hold something else. After Close it does nothing.
func (w *ShardWriter) Abort() {
	for _, s := range w.shards {
		s.file.Close()
		w.root.Remove(temporary(s.name))
	}
	w.shards = nil
	w.root.Close()
	removeAll(w.made)
	w.made = nil
}
