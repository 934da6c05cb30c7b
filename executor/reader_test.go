package executor_test

import (
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
)

// A reader of a dataset that grew file by file, and of a dataset that was there from the beginning, give the same batches.
func TestReaderOfADatasetThatGrows(t *testing.T) {
	p := testkit.ReadingLine(t, optimizer.SGD(0.05)).Program
	data := testkit.LineFiles(t, t.TempDir(), 100)
	whole, err := executor.OpenReader(t.Context(), p, data)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	d := new(dataset.Dataset)
	grown, err := executor.NewReader(p, data, d)
	if err != nil {
		t.Fatal(err)
	}
	defer grown.Close()
	_, files := whole.Dataset()
	for _, f := range files.Files() {
		if err := d.Add(t.Context(), f.Path, f); err != nil {
			t.Fatal(err)
		}
	}
	batches := func(r *executor.Reader) (all []string) {
		_, d := r.Dataset()
		open := func(from int64) iter.Seq2[dataset.Record, error] { return d.Records(t.Context(), from, d.NumRecords()) }
		for b, err := range r.Segment(t.Context(), executor.Segment{Pass: 1, First: 5, Open: open}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprint(b.Records, b.Tensors[0].Float32s()))
		}
		return all
	}
	if got, want := batches(grown), batches(whole); len(want) != 8 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("batches %v, want %v", got, want)
	}
	if _, err := executor.NewReader(p, map[string][]string{"other": nil}, d); !errors.Is(err, fault.NotFound) {
		t.Errorf("a dataset that is not bound: %v", err)
	}
}
