package dataset

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/edl-go/edl/fault"
)

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
