package bucket

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/edl-go/edl/fault"
)

// A Whole is a folder of a bucket whose files are replaced together or not at all. Buckets rename nothing, so the files of each writer have a folder of their own, and
// one object, which is written last, says which of these folders counts:
//
//	URL/__current__             Index, as JSON
//	URL/files-TOKEN/fc_0.w_0    a file
//
// Begin, Create and Commit write; Index, Read and Fetch read. It is used by one goroutine.
type Whole struct {
	where  string
	blobs  *blob.Bucket
	folder string // of the files that are written; empty: none
	files  []WholeFile
}

// An Index lists the files that count.
type Index struct {
	Version int         `json:"version"` // 1
	Folder  string      `json:"folder"`
	Files   []WholeFile `json:"files"`
}

// A WholeFile is one of the files.
type WholeFile struct {
	Name   string `json:"name"` // a slash separates folders
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hexadecimal digits
}

const (
	indexName    = "__current__"
	folderMark   = "files-"
	indexVersion = 1
	maxIndex     = 64 << 20 // bytes
	orphanAge    = 24 * time.Hour
)

// LocalPath returns the path of a URL file:///folder, and every other name as it is.
func LocalPath(name string) string {
	if u, err := url.Parse(name); err == nil && u.Scheme == "file" && u.Host == "" && path.IsAbs(u.Path) {
		return filepath.FromSlash(u.Path)
	}
	return name
}

// OpenWhole opens the folder at a URL such as s3://bucket/folder. The caller closes it.
func OpenWhole(ctx context.Context, where string) (*Whole, error) {
	b, err := OpenFolder(ctx, where)
	if err != nil {
		return nil, err
	}
	return &Whole{where: where, blobs: b}, nil
}

// Close ends the use of the folder. What was written since Begin without Commit is removed.
func (w *Whole) Close(ctx context.Context) error {
	w.discard(ctx)
	if err := w.blobs.Close(); err != nil {
		return fault.Wrap(fault.Unavailable, w.where, err)
	}
	return nil
}

// discard removes what was written since Begin. What cannot be removed now, a later Commit removes.
func (w *Whole) discard(ctx context.Context) {
	if w.folder != "" {
		_ = w.remove(ctx, w.folder, w.files)
	}
	w.folder, w.files = "", nil
}

// Begin begins a set of files. What was written since an earlier Begin without Commit is dropped.
func (w *Whole) Begin(ctx context.Context) {
	w.discard(ctx)
	w.folder = folderMark + rand.Text()
}

// Has reports whether a file was written since Begin.
func (w *Whole) Has(name string) bool {
	return slices.ContainsFunc(w.files, func(f WholeFile) bool { return f.Name == name })
}

// Create writes a file. Its name is a path below the folder.
func (w *Whole) Create(ctx context.Context, name string, write func(io.Writer) error) error {
	name = filepath.ToSlash(name)
	sum := &summed{sum: sha256.New()}
	err := w.put(ctx, w.folder+"/"+name, func(to io.Writer) error {
		sum.to = to
		return write(sum)
	})
	if err != nil {
		return err
	}
	w.files = slices.DeleteFunc(w.files, func(f WholeFile) bool { return f.Name == name })
	w.files = append(w.files, WholeFile{name, sum.bytes, hex.EncodeToString(sum.sum.Sum(nil))})
	return nil
}

// Bytes is how many bytes were written since Begin.
func (w *Whole) Bytes() (n int64) {
	for _, f := range w.files {
		n += f.Bytes
	}
	return n
}

// put writes an object, which is there whole when put has returned nil, or not at all.
func (w *Whole) put(ctx context.Context, key string, write func(io.Writer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to, err := w.blobs.NewWriter(ctx, key, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return Failed(ctx, w.where, err)
	}
	if err := write(to); err != nil {
		cancel() // so that Close drops the object
		_ = to.Close()
		var f *fault.Fault
		if errors.As(err, &f) {
			return err
		}
		return fault.E(fault.Unavailable, fault.At(w.where), fault.Cause(err))
	}
	if err := to.Close(); err != nil {
		return Failed(ctx, w.where, err)
	}
	return nil
}

// Commit makes what was written since Begin the files that count, and removes those that counted before, and what writers have left that ended a day ago or earlier.
// Of several writers the last one counts. After an error the older files count, or the new ones, and all of both stay.
func (w *Whole) Commit(ctx context.Context) error {
	before, err := w.Index(ctx)
	if err != nil && !errors.Is(err, fault.NotFound) {
		return err
	}
	text, err := json.Marshal(Index{indexVersion, w.folder, w.files})
	if err != nil {
		return fault.Wrap(fault.Internal, w.where, err)
	}
	now := w.folder
	w.folder, w.files = "", nil // also after an error: a list whose answer was lost may be there, and its files count then
	if err := w.put(ctx, indexName, func(to io.Writer) error { _, err := to.Write(text); return err }); err != nil {
		return err
	}
	if before != nil && before.Folder != now {
		_ = w.remove(ctx, before.Folder, before.Files) // what stays, another Commit removes
	}
	w.sweep(ctx, now)
	return nil
}

// remove removes files of a folder.
func (w *Whole) remove(ctx context.Context, folder string, files []WholeFile) error {
	for _, f := range files {
		if err := w.blobs.Delete(ctx, folder+"/"+f.Name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return Failed(ctx, w.where, err)
		}
	}
	return nil
}

// sweep removes what lies in other folders than the one that counts since a day. Errors do not matter.
func (w *Whole) sweep(ctx context.Context, counts string) {
	objects := w.blobs.List(&blob.ListOptions{Prefix: folderMark})
	for range maxListed {
		o, err := objects.Next(ctx)
		if err != nil {
			return
		}
		if !strings.HasPrefix(o.Key, counts+"/") && time.Since(o.ModTime) > orphanAge {
			_ = w.blobs.Delete(ctx, o.Key)
		}
	}
}

// Probe fails where nothing can be written to the folder.
func (w *Whole) Probe(ctx context.Context) error {
	probe := []WholeFile{{Name: "probe"}}
	folder := folderMark + rand.Text()
	if err := w.put(ctx, folder+"/probe", func(to io.Writer) error { _, err := to.Write([]byte("edl")); return err }); err != nil {
		return err
	}
	return w.remove(ctx, folder, probe)
}

// Index returns which files count. It fails with fault.NotFound where none do.
func (w *Whole) Index(ctx context.Context) (*Index, error) {
	text, err := w.read(ctx, indexName, maxIndex+1)
	if err != nil {
		return nil, err
	}
	where := w.where + "/" + indexName
	if len(text) > maxIndex {
		return nil, fault.E(fault.TooLarge, fault.At(where), fault.Gotf("more than %d bytes", maxIndex), fault.Want("the list of files of a model"))
	}
	index := &Index{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(index); err != nil {
		return nil, fault.E(fault.Corrupt, fault.At(where), fault.Cause(err), fault.Want("the list of files of a model"))
	}
	if index.Version != indexVersion {
		return nil, fault.E(fault.Unsupported, fault.At(where), fault.Gotf("version %d", index.Version), fault.Wantf("version %d", indexVersion))
	}
	bad := !strings.HasPrefix(index.Folder, folderMark) || strings.ContainsRune(index.Folder, '/')
	seen := map[string]bool{}
	for _, f := range index.Files {
		bad = bad || f.Bytes < 0 || !filepath.IsLocal(filepath.FromSlash(f.Name)) || path.Clean(f.Name) != f.Name || seen[f.Name]
		seen[f.Name] = true
	}
	if bad {
		return nil, fault.E(fault.Corrupt, fault.At(where), fault.Got("a list with names that no model has"), fault.Want("the list of files of a model"))
	}
	return index, nil
}

// Names lists the files that count, by name.
func (x *Index) Names() []string {
	names := make([]string, len(x.Files))
	for i, f := range x.Files {
		names[i] = f.Name
	}
	slices.Sort(names)
	return names
}

// Read returns the first bytes of a file that counts, and so many at most.
func (w *Whole) Read(ctx context.Context, x *Index, name string, most int64) ([]byte, error) {
	return w.read(ctx, x.Folder+"/"+name, most)
}

func (w *Whole) read(ctx context.Context, key string, most int64) ([]byte, error) {
	r, err := w.blobs.NewRangeReader(ctx, key, 0, most, nil)
	if err != nil {
		return nil, Failed(ctx, w.where+"/"+key, err)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, most))
	if err != nil {
		return nil, Failed(ctx, w.where+"/"+key, err)
	}
	return text, nil
}

// fetchTries is how often Fetch begins again because another writer has replaced the files.
const fetchTries = 3

// Fetch copies the files that count into an empty directory of this machine, and checks their sums.
func (w *Whole) Fetch(ctx context.Context, dir string) error {
	for try := 1; ; try++ {
		index, err := w.Index(ctx)
		if err != nil {
			return err
		}
		err = w.fetch(ctx, index, dir)
		if !errors.Is(err, fault.NotFound) || try == fetchTries {
			return err
		}
		if err := os.RemoveAll(dir); err != nil { // another writer has replaced what it has copied
			return fault.File(fault.Unavailable, dir, err)
		}
	}
}

func (w *Whole) fetch(ctx context.Context, index *Index, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.File(fault.Unavailable, dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.File(fault.Unavailable, dir, err)
	}
	defer root.Close()
	for _, f := range index.Files {
		if err := w.fetchFile(ctx, index.Folder, f, root); err != nil {
			return err
		}
	}
	return nil
}

func (w *Whole) fetchFile(ctx context.Context, folder string, f WholeFile, root *os.Root) (err error) {
	key, name := folder+"/"+f.Name, filepath.FromSlash(f.Name)
	r, err := w.blobs.NewReader(ctx, key, nil)
	if err != nil {
		return Failed(ctx, w.where+"/"+key, err)
	}
	defer r.Close()
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fault.File(fault.Unavailable, name, err)
	}
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fault.File(fault.Unavailable, name, err)
	}
	defer func() { err = errors.Join(err, fault.File(fault.Unavailable, name, to.Close())) }()
	sum := &summed{to: to, sum: sha256.New()}
	if _, err := io.Copy(sum, io.LimitReader(r, f.Bytes+1)); err != nil {
		return fault.E(fault.Unavailable, fault.At(w.where+"/"+key), fault.Cause(err))
	}
	if sum.bytes != f.Bytes || hex.EncodeToString(sum.sum.Sum(nil)) != f.SHA256 {
		return fault.E(fault.Corrupt, fault.At(w.where+"/"+key), fault.Gotf("%d bytes with another sum than the list of files has", sum.bytes), fault.Wantf("%d bytes as written", f.Bytes))
	}
	return nil
}

// A summed writer counts and sums what is written to another writer.
type summed struct {
	to    io.Writer
	sum   hash.Hash
	bytes int64
}

func (s *summed) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	s.bytes += int64(n)
	s.sum.Write(b[:n])
	return n, err
}
