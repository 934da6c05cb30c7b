package dataset

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
)

func TestShardsHoldRecordsInTurn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	w, err := CreateShards(dir, "train", 2, recordio.Options{Compressor: recordio.Snappy})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := w.Write(sample(t, i)); err != nil {
			t.Fatal(err)
		}
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "train-*")); len(names) != 0 {
		t.Errorf("%v are there before Close", names)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if err := w.Write(nil); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a write after Close: %v", err)
	}
	d, err := Open(context.Background(), []string{filepath.Join(dir, "train-0000?-of-00002")})
	if err != nil {
		t.Fatal(err)
	}
	for b, err := range newBatcher(t, BatchOptions{Rows: 5}).Batches(d.Records(context.Background(), 0, 5), Part{}) {
		if err != nil || describe(b) != "float32[5 3] [0 2 4 1 3] 5@0/5 [{0 5}]" {
			t.Errorf("read %s, error %v", describe(b), err)
		}
	}
}

func TestAbortedShardsLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	w, err := CreateShards(dir, "train", 3, recordio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, error %v", left, err)
	}
}

// Directories that were made for the files go with them, if nothing else has come into them.
func TestAbortedShardsLeaveNoDirectoryThatTheyMade(t *testing.T) {
	dir := t.TempDir()
	create := func() *ShardWriter {
		w, err := CreateShards(filepath.Join(dir, "a", "b"), "train", 2, recordio.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	create().Abort()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, error %v", left, err)
	}
	w := create()
	other := filepath.Join(dir, "a", "other")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if left, err := os.ReadDir(filepath.Dir(other)); err != nil || len(left) != 1 {
		t.Errorf("left %v, error %v", left, err)
	}
	if w = create(); w.Close() != nil {
		t.Fatal("not closed")
	}
	w.Abort()
	if left, err := os.ReadDir(filepath.Join(dir, "a", "b")); err != nil || len(left) != 2 {
		t.Errorf("after Close: left %v, error %v", left, err)
	}
}

// A folder that cannot be made is a wrong argument, and its name is told once.
func TestShardsNeedAFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{path, filepath.Join(path, "below")} {
		if _, err := CreateShards(dir, "train", 1, recordio.Options{}); !errors.Is(err, fault.InvalidArgument) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestShardsRefuse(t *testing.T) {
	for _, name := range []string{"", "..", "../x", "a/b", "/x"} {
		if _, err := CreateShards(t.TempDir(), name, 1, recordio.Options{}); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for _, n := range []int{0, 100000} {
		if _, err := CreateShards(t.TempDir(), "x", n, recordio.Options{}); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%d shards: %v", n, err)
		}
	}
}
