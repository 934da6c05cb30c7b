package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
)

func TestOpenIndexesAllFilesInOrder(t *testing.T) {
	d, dir := threeFiles(t)
	if d.NumRecords() != 10 {
		t.Errorf("%d records", d.NumRecords())
	}
	var got strings.Builder
	for _, c := range d.Chunks() {
		fmt.Fprintf(&got, "%s#%d@%d+%d ", strings.TrimPrefix(c.Path, dir+"/"), c.Index, c.FirstRecord, c.Records)
	}
	if want := "train-0#0@0+2 train-0#1@2+2 train-0#2@4+1 train-2#0@5+2 train-2#1@7+2 train-2#2@9+1 "; got.String() != want {
		t.Errorf("chunks %s, want %s", got.String(), want)
	}
}

func TestOpenOrdersGlobs(t *testing.T) {
	_, dir := threeFiles(t)
	d, err := Open(context.Background(), []string{filepath.Join(dir, "train-2"), filepath.Join(dir, "*")})
	if err != nil {
		t.Fatal(err)
	}
	if first := d.Chunks()[0]; filepath.Base(first.Path) != "train-2" || d.NumRecords() != 10 {
		t.Errorf("first chunk %+v of %d records", first, d.NumRecords())
	}
}

func TestOpenRefuses(t *testing.T) {
	_, dir := threeFiles(t)
	missing := filepath.Join(dir, "test-*")
	_, err := Open(context.Background(), []string{filepath.Join(dir, "train-*"), missing})
	if !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), missing) {
		t.Errorf("a glob without files: %v", err)
	}
	if _, err := Open(context.Background(), []string{"["}); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a bad glob: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, []string{filepath.Join(dir, "train-*")}); !errors.Is(err, fault.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "train-3"), []byte("no record file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), []string{filepath.Join(dir, "train-*")}); !errors.Is(err, fault.Corrupt) ||
		!strings.Contains(err.Error(), "train-3") {
		t.Errorf("a foreign file: %v", err)
	}
}

// Nothing tells an empty file from one of an older layout without records but the company that it keeps.
func TestOpenRefusesAnEmptyFileBesideIndexedOnes(t *testing.T) {
	_, dir := threeFiles(t)
	empty := filepath.Join(dir, "train-1")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), []string{filepath.Join(dir, "train-*")}); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), empty) {
		t.Errorf("got %v", err)
	}
	for _, i := range []int{0, 2} {
		b := encoded(t, recordio.Options{ChunkRecords: 1, Layout: recordio.Plain}, 0, 3)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("train-%d", i)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := Open(t.Context(), []string{filepath.Join(dir, "train-*")}); err != nil || d.NumRecords() != 6 {
		t.Errorf("beside files of an older layout: %v", err)
	}
}

func TestRecordsOfAnyRange(t *testing.T) {
	d, _ := threeFiles(t)
	for from := int64(0); from <= 10; from++ {
		for to := from; to <= 10; to++ {
			next := from
			for r, err := range d.Records(context.Background(), from, to) {
				if err != nil || r.Number != next || !bytes.Equal(r.Bytes, sample(t, int(next))) {
					t.Fatalf("[%d, %d): record %d where %d was due, error %v", from, to, r.Number, next, err)
				}
				next++
			}
			if next != to {
				t.Fatalf("[%d, %d) ended at %d", from, to, next)
			}
		}
	}
	for _, r := range [][2]int64{{-1, 1}, {2, 1}, {0, 11}} {
		for _, err := range d.Records(context.Background(), r[0], r[1]) {
			if !errors.Is(err, fault.InvalidArgument) {
				t.Errorf("range %v: %v", r, err)
			}
		}
	}
}

func TestRecordsEndWithTheContext(t *testing.T) {
	d, _ := threeFiles(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	n := 0
	for r, err := range d.Records(ctx, 0, 10) {
		if last = err; err == nil {
			n++
		}
		if r.Number == 6 {
			cancel()
		}
	}
	if n != 7 || !errors.Is(last, fault.Canceled) || !errors.Is(last, context.Canceled) {
		t.Fatalf("%d records, then %v", n, last)
	}
}

// A file in the place of another one is not the data that training began with, also if it is a good file. A damaged one is corrupt.
func TestReplacedFilesAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		replace func(path string) error
		kind    error
	}{
		"of other records": {func(path string) error { writeFile(t, path, 20, 25); return nil }, fault.InvalidArgument},
		"shorter":          {func(path string) error { writeFile(t, path, 0, 2); return nil }, fault.InvalidArgument},
		"the same":         {func(path string) error { writeFile(t, path, 5, 10); return nil }, nil},
		"damaged": {func(path string) error {
			b := encoded(t, recordio.Options{ChunkRecords: 2}, 5, 10)
			b[50] ^= 1
			return os.WriteFile(path, b, 0o600)
		}, fault.Corrupt},
	} {
		d, dir := threeFiles(t)
		path := filepath.Join(dir, "train-2")
		if err := errors.Join(os.Remove(path), c.replace(path)); err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range d.Records(t.Context(), 0, 10) {
			last = err
		}
		if c.kind == nil && last != nil || c.kind != nil && (!errors.Is(last, c.kind) || !strings.Contains(last.Error(), path)) {
			t.Errorf("%s: %v", name, last)
		}
	}
}

func TestFilesDescribeTheDataset(t *testing.T) {
	d, dir := threeFiles(t)
	files := d.Files()
	next := int64(0)
	for i, f := range files {
		if f.Path != filepath.Join(dir, fmt.Sprintf("train-%d", i)) || f.FirstRecord != next || f.Bytes != d.files[i].Bytes {
			t.Errorf("file %d is %+v", i, f)
		}
		next += f.Records
	}
	if next != 10 || len(files) != 3 || files[0].Fingerprint == files[2].Fingerprint {
		t.Errorf("files %v", files)
	}
	again, err := Open(context.Background(), []string{filepath.Join(dir, "train-*")})
	if err != nil || fmt.Sprint(again.Files()) != fmt.Sprint(files) {
		t.Errorf("opened again: %v, error %v", again.Files(), err)
	}
}

func TestADatasetGrowsByNamedFiles(t *testing.T) {
	whole, _ := threeFiles(t)
	d := new(Dataset)
	for range 2 { // the second time changes nothing
		for _, f := range whole.Files() {
			if err := d.Add(t.Context(), f.Path, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	if fmt.Sprint(d.Files()) != fmt.Sprint(whole.Files()) || d.NumRecords() != 10 {
		t.Errorf("grew to %v, want %v", d.Files(), whole.Files())
	}
}

func TestAddRefusesAnotherFile(t *testing.T) {
	whole, _ := threeFiles(t)
	files := whole.Files()
	d := new(Dataset)
	if err := d.Add(t.Context(), files[0].Path, files[0]); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*FileInfo){
		"records":     func(f *FileInfo) { f.Records++ },
		"bytes":       func(f *FileInfo) { f.Bytes-- },
		"fingerprint": func(f *FileInfo) { f.Fingerprint ^= 1 << 63 },
	} {
		for _, f := range files[:2] { // the first is there already, and must not be taken for another either
			want := f
			change(&want)
			err := d.Add(t.Context(), f.Path, want)
			if !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), f.Path) || !strings.Contains(err.Error(), want.String()) {
				t.Errorf("%s of %s: %v", name, f.Path, err)
			}
		}
	}
	gap := files[2]
	gap.FirstRecord = 6
	if err := d.Add(t.Context(), gap.Path, gap); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "begins at 5") {
		t.Errorf("a gap: %v", err)
	}
	if err := d.Add(t.Context(), files[2].Path+"x", files[2]); !errors.Is(err, fault.NotFound) {
		t.Errorf("a missing file: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Add(ctx, files[2].Path, files[2]); !errors.Is(err, fault.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	if len(d.Files()) != 1 {
		t.Errorf("what was refused is there: %v", d.Files())
	}
}

func TestADatasetGrowsWhileItIsRead(t *testing.T) {
	dir := t.TempDir()
	const files, each = 20, 3
	var infos []FileInfo
	for i := range files {
		path := filepath.Join(dir, fmt.Sprintf("train-%02d", i))
		writeFile(t, path, i*each, (i+1)*each)
		one, err := Open(t.Context(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		info := one.Files()[0]
		info.FirstRecord = int64(i * each)
		infos = append(infos, info)
	}
	d := new(Dataset)
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() { // each adds what it is the first to miss
			for next := int64(0); next < files*each; {
				if i := next / each; d.NumRecords() == next {
					if err := d.Add(t.Context(), infos[i].Path, infos[i]); err != nil {
						t.Error(err)
						return
					}
				}
				for r, err := range d.Records(t.Context(), next, d.NumRecords()) {
					if err != nil || r.Number != next || string(r.Bytes) != string(sample(t, int(next))) {
						t.Errorf("record %d where %d was due, error %v", r.Number, next, err)
						return
					}
					next++
				}
			}
		})
	}
	readers.Wait()
}

func TestFields(t *testing.T) {
	d, _ := threeFiles(t)
	fields, err := d.Fields(context.Background())
	if err != nil || fmt.Sprint(fields) != "[float32[3] int64[1]]" {
		t.Fatalf("fields %v, error %v", fields, err)
	}
	if none, err := new(Dataset).Fields(context.Background()); err != nil || none != nil {
		t.Fatalf("fields of nothing %v, error %v", none, err)
	}
}
