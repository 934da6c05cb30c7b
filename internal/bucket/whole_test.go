package bucket

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/edl-go/edl/fault"
)

// written writes files as one set, and makes it count unless it is to end before.
func written(t *testing.T, w *Whole, files map[string]string, commit bool) {
	t.Helper()
	w.Begin(t.Context())
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.Create(t.Context(), name, func(to io.Writer) error { _, err := io.WriteString(to, files[name]); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if commit {
		if err := w.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// fetched returns the files that count.
func fetched(t *testing.T, w *Whole) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := w.Fetch(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func keys(t *testing.T, b *blob.Bucket) (all []string) {
	t.Helper()
	objects := b.List(nil)
	for {
		o, err := objects.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o.Key)
	}
}

// Files are replaced together when the list is written, not before, and nothing of the older ones stays. A writer that ends before leaves the older ones.
func TestWholeReplacesAllFilesOrNone(t *testing.T) {
	b := memblob.OpenBucket(nil)
	w := &Whole{where: "mem://models", blobs: b}
	if _, err := w.Index(t.Context()); !errors.Is(err, fault.NotFound) {
		t.Errorf("the index of nothing: %v", err)
	}
	first := map[string]string{"a": "1", "deep/b": "2"}
	written(t, w, first, true)
	if got := fetched(t, w); !maps.Equal(got, first) {
		t.Errorf("got %v, want %v", got, first)
	}
	written(t, w, map[string]string{"a": "3"}, false)
	if got := fetched(t, w); !maps.Equal(got, first) {
		t.Errorf("before Commit: got %v, want %v", got, first)
	}
	second := map[string]string{"c": "4"}
	written(t, w, second, true)
	if got := fetched(t, w); !maps.Equal(got, second) {
		t.Errorf("got %v, want %v", got, second)
	}
	if all := keys(t, b); len(all) != 2 {
		t.Errorf("objects that stay: %v, want the list and c", all)
	}
	broken := errors.New("a broken writer")
	w.Begin(t.Context())
	if err := w.Create(t.Context(), "d", func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the writer", err)
	}
	if err := w.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	if all := keys(t, b); len(all) != 2 {
		t.Errorf("objects that stay: %v, want the list and c", all)
	}
}

// A list may be written although its writer has heard of an error: the files that it names stay.
func TestWholeStaysWhenAnswersAreLost(t *testing.T) {
	w := &Whole{where: "mem://models", blobs: blob.NewBucket(&deaf{objects: map[string][]byte{}, lost: indexName})}
	files := map[string]string{"a": "1", "deep/b": "2"}
	written(t, w, files, false)
	if err := w.Commit(t.Context()); !errors.Is(err, fault.Unavailable) {
		t.Fatalf("a lost answer: %v", err)
	}
	w.discard(t.Context()) // as Close does
	if got := fetched(t, w); !maps.Equal(got, files) {
		t.Errorf("got %v, want %v", got, files)
	}
}

// What is damaged or hostile is refused, and nothing is written outside of the directory.
func TestWholeRefusesOtherFiles(t *testing.T) {
	w := &Whole{where: "mem://models", blobs: memblob.OpenBucket(nil)}
	written(t, w, map[string]string{"a": "12"}, true)
	x, err := w.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put := func(key, text string) {
		t.Helper()
		if err := w.blobs.WriteAll(context.Background(), key, []byte(text), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"21", "1", "123"} {
		put(x.Folder+"/a", text)
		if err := w.Fetch(t.Context(), filepath.Join(t.TempDir(), "model")); !errors.Is(err, fault.Corrupt) {
			t.Errorf("with %q in place of 12: %v", text, err)
		}
	}
	for _, c := range []struct {
		index string
		kind  fault.Kind
	}{
		{`{"version":1,"folder":"files-X","files":[{"name":"../a","bytes":1,"sha256":""}]}`, fault.Corrupt},
		{`{"version":1,"folder":"files-X","files":[{"name":"/a","bytes":1,"sha256":""}]}`, fault.Corrupt},
		{`{"version":1,"folder":"files-X","files":[{"name":"a","bytes":-1,"sha256":""}]}`, fault.Corrupt},
		{`{"version":1,"folder":"files-X","files":[{"name":"a","bytes":1,"sha256":""},{"name":"a","bytes":1,"sha256":""}]}`, fault.Corrupt},
		{`{"version":1,"folder":"../x","files":[]}`, fault.Corrupt},
		{`{"version":2,"folder":"files-X","files":[]}`, fault.Unsupported},
		{`not JSON`, fault.Corrupt},
		{strings.Repeat(" ", 10), fault.Corrupt},
		{`{"version":1,"folder":"files-X","files":[{"name":"gone","bytes":1,"sha256":""}]}`, fault.NotFound},
	} {
		put(indexName, c.index)
		if err := w.Fetch(t.Context(), filepath.Join(t.TempDir(), "model")); fault.KindOf(err) != c.kind {
			t.Errorf("%s: %v, want %v", c.index, err, c.kind)
		}
	}
}

func TestLocalPath(t *testing.T) {
	for name, want := range map[string]string{"file:///a/b": "/a/b", "a/b": "a/b", "s3://a/b": "s3://a/b", "file://host/a": "file://host/a", "": ""} {
		if got := LocalPath(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
