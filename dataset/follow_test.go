package dataset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
)

func TestFollower(t *testing.T) {
	indexed := encoded(t, recordio.Options{ChunkRecords: 1}, 0, 3)
	plain := encoded(t, recordio.Options{ChunkRecords: 1, Layout: recordio.Plain}, 0, 3)
	test := func(t *testing.T, b bucketKit) {
		f := NewFollower([]string{b.url("x/train-*"), b.url("x/more-*")})
		defer f.Close()
		expect := func(step, files, writing string, ended bool) {
			t.Helper()
			l, err := f.List(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", step, err)
			}
			names := func(list []string) string {
				var short []string
				for _, name := range list {
					name, _, _ = strings.Cut(name, "?")
					short = append(short, filepath.Base(name))
				}
				return strings.Join(short, " ")
			}
			if names(l.Files) != files || names(l.Writing) != writing || l.Ended != ended {
				t.Errorf("%s: files %s, writing %s, ended %v, want %s, %s, %v", step, names(l.Files), names(l.Writing), l.Ended, files, writing, ended)
			}
		}
		expect("nothing", "", "", false)
		b.put("x/train-2", indexed)
		b.put("x/more-1", indexed)
		b.put("x/other", indexed)
		expect("two files", "train-2 more-1", "", false)
		b.put("x/train-0", nil)
		b.put("x/train-1", indexed[:30])
		b.put("x/.train-1", indexed)
		expect("a header", "train-2 more-1", "train-1", false)
		b.put("x/train-1", indexed[:len(indexed)-1])
		expect("all but a byte", "train-2 more-1", "train-1", false)
		b.put("x/train-1", indexed)
		expect("whole", "train-1 train-2 more-1", "", false)
		b.put("x/train-3", plain[:len(plain)/2])
		expect("half of an old layout", "train-1 train-2 more-1", "train-3", false)
		b.put("x/train-3", plain)
		expect("whole of an old layout", "train-1 train-2 more-1", "train-3", false)
		expect("nothing new", "train-1 train-2 train-3 more-1", "", false)
		b.put("x/train-4", indexed[:60])
		b.put("_END", nil)
		expect("marker of another folder", "train-1 train-2 train-3 more-1", "train-4", false)
		b.put("x/_END", nil)
		expect("marker", "train-1 train-2 train-3 train-4 more-1", "", true)

		l, err := f.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d := new(Dataset)
		defer d.Close()
		for _, path := range append(l.Files[:3:3], l.Files[4]) {
			info, err := f.Stat(t.Context(), path)
			if err != nil || info.Path != path || info.FirstRecord != 0 || info.Records != 3 {
				t.Fatalf("%s: %+v, error %v", path, info, err)
			}
			info.FirstRecord = d.NumRecords()
			if err := d.Add(t.Context(), path, info); err != nil {
				t.Error(err)
			}
		}
		if _, err := f.Stat(t.Context(), l.Files[3]); !errors.Is(err, recordio.ErrIncomplete) || !errors.Is(err, fault.Corrupt) {
			t.Errorf("a file that nobody finished: %v", err)
		}
	}
	eachBucket(t, test)
	t.Run("paths", func(t *testing.T) {
		b := folderBucket(t)
		whole := b.url
		b.url = func(key string) string { return strings.TrimPrefix(whole(key), "file://") }
		test(t, b)
	})
}

func TestFollowerOfSeveralFoldersWaitsForAllMarkers(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"a", "b", "b/sub"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f := NewFollower([]string{filepath.Join(dir, "a", "train"), filepath.Join(dir, "b", "*", "train-*")})
	defer f.Close()
	for _, marker := range []string{"b/sub/_END", "a/_END", "b/_END"} {
		if l, err := f.List(t.Context()); err != nil || l.Ended {
			t.Errorf("before %s: %+v, error %v", marker, l, err)
		}
		if err := os.WriteFile(filepath.Join(dir, marker), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := f.List(t.Context()); err != nil || !l.Ended {
		t.Errorf("with all markers: %+v, error %v", l, err)
	}
}

func TestFollowerAsksOnceAboutAWholeFile(t *testing.T) {
	b := s3Bucket(t)
	for i := range 20 {
		b.put(fmt.Sprintf("train-%d", i), encoded(t, recordio.Options{ChunkRecords: 1}, 0, 3))
	}
	f := NewFollower([]string{b.url("train-*")})
	defer f.Close()
	for _, want := range []int{22, 2, 2} { // for the marker, for the names, and for each of them at first
		l, err := f.List(t.Context())
		if got := b.count(); err != nil || len(l.Files) != 20 || len(got) != want {
			t.Errorf("%d files, %d requests, want %d: %q, error %v", len(l.Files), len(got), want, got, err)
		}
	}
}

func TestFollowerRefuses(t *testing.T) {
	for _, glob := range []string{"[", "memtest://none/x", "nosuch://a/b", "s3://b"} {
		f := NewFollower([]string{glob})
		if _, err := f.List(t.Context()); err == nil {
			t.Errorf("%s is followed", glob)
		}
		f.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "train"), 0, 1)
	f := NewFollower([]string{filepath.Join(dir, "*")})
	defer f.Close()
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if l, err := f.List(t.Context()); err != nil || len(l.Files) != 1 || l.Writing != nil {
		t.Errorf("beside a folder: %+v, error %v", l, err)
	}
	if _, err := f.List(ctx); !errors.Is(err, fault.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	if l, err := NewFollower(nil).List(t.Context()); err != nil || l.Ended || l.Files != nil {
		t.Errorf("nothing to follow: %+v, error %v", l, err)
	}
}
