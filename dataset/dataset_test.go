package dataset

import (
	"bytes"
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
