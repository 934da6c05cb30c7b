package checkpoint

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A file for which the disk is asked early, several times, has what was written to it, and one whose writer fails is not there.
func TestFilesThatAreWrittenEarly(t *testing.T) {
	dir, name := t.TempDir(), NewName("digits", 1)
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := make([]byte, 3*earlyBytes+1)
	for i := range want {
		want[i] = byte(i * i >> 8)
	}
	broken := io.ErrShortBuffer
	for _, fails := range []error{nil, broken} {
		base := map[error]string{nil: "whole", broken: "broken"}[fails]
		err := s.objects.create(t.Context(), name+"/"+base, func(to io.Writer) error {
			for rest := want; len(rest) > 0; rest = rest[min(len(rest), 1<<20+7):] {
				if _, err := to.Write(rest[:min(len(rest), 1<<20+7)]); err != nil {
					return err
				}
			}
			return fails
		})
		if (err == nil) != (fails == nil) {
			t.Errorf("%s: %v", base, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, name, "whole")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes, %v", len(got), len(want), err)
	}
	if files, err := os.ReadDir(filepath.Join(dir, name)); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}
