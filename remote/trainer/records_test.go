package trainer

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/proto/rpc"
)

// A file that a task names must be the one that the coordinator has seen, also where the trainer has another of that path open.
func TestNamedFileOfAnotherFingerprint(t *testing.T) {
	opened, err := dataset.Open(t.Context(), testkit.Samples(t, t.TempDir(), 20)[testkit.Dataset])
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	was := opened.Files()[0]
	file := &rpc.DataFile{Path: was.Path, Records: was.Records, Bytes: was.Bytes, Fingerprint: was.Fingerprint}
	f := &files{}
	defer f.close()
	if _, err := f.open(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	other := &rpc.DataFile{Path: was.Path, Records: was.Records, Bytes: was.Bytes, Fingerprint: was.Fingerprint + 1}
	if _, err := f.open(t.Context(), other); err == nil {
		t.Error("a file of another fingerprint is taken for the one that is open")
	}
}

// A record that is sound but no sample of tensors is damaged for whoever reads it, whether or not it decodes it: all trainers leave out the same
// ones.
func TestRecordThatIsNoSample(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d-00000-of-00001")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := recordio.NewWriter(out, recordio.Options{})
	if err == nil {
		err = errors.Join(w.Write([]byte("no tensor")), w.Close(), out.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	opened, err := dataset.Open(t.Context(), []string{path})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	f := &files{data: opened}
	for record, err := range f.records(t.Context(), &rpc.Task{}, []dataset.Range{{From: 0, To: 1}}) {
		if !errors.Is(err, fault.Corrupt) {
			t.Errorf("record %d: %v", record.Number, err)
		}
	}
}
