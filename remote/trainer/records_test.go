package trainer

import (
	"testing"

	"github.com/edl-go/edl/dataset"
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
	if _, err := f.open(t.Context(), &rpc.DataFile{Path: was.Path, Records: was.Records, Bytes: was.Bytes, Fingerprint: was.Fingerprint + 1}); err == nil {
		t.Error("a file of another fingerprint is taken for the one that is open")
	}
}
