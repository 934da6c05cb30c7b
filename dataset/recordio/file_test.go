package recordio

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
)

// Files that the original Go library wrote.
func TestRealFiles(t *testing.T) {
	root := os.Getenv("EDL_TESTDATA")
	if root == "" {
		t.Skip("EDL_TESTDATA is unset: no files of the original library")
	}
	for name, want := range map[string]int{
		"uci_housing_train-00000": 404, "uci_houseing_test-00000": 102,
		"test_recordio_creator.dat": 10, "elasticdl_data-0-0000": 200,
	} {
		records := 0
		for record, err := range Scan(Limits{}, filepath.Join(root, "recordio", name)) {
			if err != nil {
				t.Fatal(err)
			}
			if len(record) == 0 {
				t.Errorf("%s: record %d is empty", name, records)
			}
			records++
		}
		if records != want {
			t.Errorf("%s: %d records, want %d", name, records, want)
		}
	}
}

func TestScanReadsFilesInOrder(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "b"), filepath.Join(dir, "empty"), filepath.Join(dir, "a")}
	for path, records := range map[string][]string{paths[0]: {"1", "2"}, paths[1]: nil, paths[2]: {"3"}} {
		if err := os.WriteFile(path, write(t, Options{ChunkRecords: 1}, records...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for record, err := range Scan(Limits{}, paths...) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(record))
	}
	if strings.Join(got, "") != "123" {
		t.Fatalf("scanned %q", got)
	}
	for record := range Scan(Limits{}, paths...) {
		if string(record) != "1" {
			t.Fatalf("a broken loop went on with %q", record)
		}
		break
	}
}

func TestScanEndsWithTheError(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	b := write(t, Options{Layout: Plain}, "a")
	if err := os.WriteFile(good, b, 0o600); err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(bad, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var errs []error
	for _, err := range Scan(Limits{}, good, bad, good) {
		errs = append(errs, err)
	}
	if len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], fault.Corrupt) || !strings.Contains(errs[1].Error(), bad) {
		t.Fatalf("scan gave %v", errs)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	records := make([]string, 4000)
	for i := range records {
		records[i] = strings.Repeat("x", 100)
	}
	b := write(t, Options{ChunkRecords: 100, Compressor: Snappy}, records...)
	index, err := LoadIndex("file", bytes.NewReader(b), int64(len(b)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRangeReader(bytes.NewReader(b), index, 0, index.NumRecords())
	if err != nil {
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(30, func() {
		for range 100 {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs > 0 {
		t.Fatalf("%v allocations per chunk", allocs)
	}
}

// BenchmarkRead reads records of the size of an MNIST sample.
func BenchmarkRead(b *testing.B) {
	record := []byte(strings.Repeat("0123456789abcdef", 200))
	for c := None; c <= Snappy; c++ {
		b.Run(c.String(), func(b *testing.B) {
			records := make([]string, 2000)
			for i := range records {
				records[i] = string(record)
			}
			file := write(b, Options{Compressor: c}, records...)
			index, err := LoadIndex("file", bytes.NewReader(file), int64(len(file)), Limits{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(record)))
			var r *RangeReader
			for i := range b.N {
				if i%len(records) == 0 {
					if r, err = NewRangeReader(bytes.NewReader(file), index, 0, index.NumRecords()); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
